// The servers from which a file may be had by its address alone: that of the upstream, those that the
// index names as locations, and those that the operator allowed. An address comes from whoever may
// make a job, and the agent stands inside a network in which it can reach more than they can.

import { AgentError } from "../domain/error.ts";
import { decodeDocument } from "../domain/index_document.ts";
import { isJsonObject } from "../domain/json.ts";
import { leadsToNamed } from "../domain/named_host.ts";
import type { IndexStore } from "../store/store.ts";

/** Which servers are known. */
export interface KnownHosts {
  /** @throws {AgentError} `forbidden` naming what would allow it */
  require(url: URL): Promise<void>;
}

/** What the servers are known from. */
export interface KnownHostsDependencies {
  readonly index: IndexStore;
  readonly upstream: string | null;
  /** As the operator wrote them, with a port where it is not the scheme's own. */
  readonly allowed: readonly string[];
  /** Changes with the index. */
  readonly generation: () => number;
}

/** Opens it; the index is read when an address is first asked for, and again when it has changed. */
export function openKnownHosts(deps: KnownHostsDependencies): KnownHosts {
  const { index, upstream, allowed, generation } = deps;
  const base = upstream === null ? null : URL.parse(upstream);
  const always = base === null || base.host === "" ? allowed : [...allowed, base.host];
  let listed: { readonly generation: number; readonly hosts: Promise<Set<string>> } | undefined;
  return {
    async require(url) {
      if (leadsToNamed(url, always)) return;
      const now = generation();
      if (listed?.generation !== now) {
        listed = { generation: now, hosts: hostsOfLocations(index) };
        // A reading that failed is not kept.
        listed.hosts.catch(() => listed = undefined);
      }
      if ((await listed.hosts).has(url.host)) return;
      const message = `Cannot ask ${url.host}: it is no host of the index, and the setting ` +
        "download_host does not name it";
      throw new AgentError("forbidden", message);
    },
  };
}

async function hostsOfLocations(index: IndexStore): Promise<Set<string>> {
  const hosts = new Set<string>();
  for (const { path } of await index.list()) {
    const document = await index.get(path);
    if (document === undefined) continue;
    for (const address of locationsIn(decodeDocument(document.body, path))) {
      const host = URL.parse(address)?.host ?? "";
      if (host !== "") hosts.add(host);
    }
  }
  return hosts;
}

/** Addresses of all locations of a document, whatever kind of document it is. */
function locationsIn(document: unknown): string[] {
  const builds = isJsonObject(document) ? listIn(document.builds) : [];
  return builds
    .flatMap((build) => isJsonObject(build) ? listIn(build.artifacts) : [])
    .flatMap((artifact) => isJsonObject(artifact) ? listIn(artifact.locations) : [])
    .flatMap((place) => isJsonObject(place) && typeof place.url === "string" ? [place.url] : []);
}

function listIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
