// The hosts from which files may be downloaded by URL: those that the index names, its upstream, and those that the operator
// allowed.

import type { Decoders } from "../../decoder/pool.ts";
import { AgentError } from "../../domain/error.ts";
import { indexPlaceOf } from "../../domain/index/index_document.ts";
import { leadsToNamed } from "../../domain/ip_address.ts";
import type { IndexStore } from "../../store/store.ts";
import { openSharedTransfers } from "../shared_transfers.ts";
import { openIndexReading, type ReadDocument } from "./index_reading.ts";

/** Bytes of documents read at a time. */
const READ_BYTES = 4 * 1024 * 1024;

/**
 * The hosts from which files may be downloaded by URL: the upstream, those in the index, and those
 * that the operator allowed.
 */
export interface KnownHosts {
  /** @throws {AgentError} `forbidden` naming the setting that would allow it; `aborted` by the signal */
  require(url: URL, signal?: AbortSignal): Promise<void>;
}

/** What the allowed hosts come from: the index, its own address and the setting. */
interface KnownHostsDependencies {
  readonly index: IndexStore;
  readonly decoders: Decoders;
  readonly upstream: string | null;
  /** As the operator wrote them, with a port unless it is the scheme's default. */
  readonly allowed: readonly string[];
  /** A number that changes with the index. */
  readonly generation: () => number;
}

/** Opens the known hosts. The index is read for the first URL, and again after it has changed. */
export function openKnownHosts(deps: KnownHostsDependencies): KnownHosts {
  const { upstream, allowed, generation } = deps;
  const base = upstream === null ? null : URL.parse(upstream);
  const always = base === null || base.host === "" ? allowed : [...allowed, base.host];
  let listed: { readonly generation: number; readonly hosts: Set<string> } | undefined;
  const readings = openSharedTransfers<Set<string>, never>();
  const hostsNow = async (signal: AbortSignal | undefined): Promise<Set<string>> => {
    const now = generation();
    if (listed?.generation === now) return listed.hosts;
    const share = signal === undefined ? {} : { signal };
    const read = (ending: AbortSignal) => hostsOfLocations(deps, ending);
    const hosts = await readings.join(`the hosts of index ${now}`, share, read);
    if (generation() === now) listed = { generation: now, hosts };
    return hosts;
  };
  return {
    async require(url, signal) {
      if (leadsToNamed(url, always)) return;
      if ((await hostsNow(signal)).has(url.host)) return;
      const message =
        `Cannot connect to ${url.host}: it is not a host of the index, and the setting ` +
        "download_host does not name it";
      throw new AgentError("forbidden", message, {
        about: { kind: "setting", name: "download_host" },
      });
    },
  };
}

async function hostsOfLocations(
  { index, decoders, upstream }: KnownHostsDependencies,
  signal: AbortSignal,
): Promise<Set<string>> {
  // Ahead of other work, since jobs wait for it.
  const reading = openIndexReading(decoders, upstream ?? "", { signal, ahead: true });
  const hosts = new Set<string>();
  let [documents, size]: [ReadDocument[], number] = [[], 0];
  const read = async () => {
    for (const host of await reading.hosts(documents)) hosts.add(host);
    [documents, size] = [[], 0];
  };
  for (const { path } of await index.list()) {
    if (indexPlaceOf(path).kind === "tree") continue;
    const body = (await index.get(path))?.body ?? new Uint8Array();
    documents.push({ path, body });
    size += body.byteLength;
    if (size >= READ_BYTES) await read();
  }
  await read();
  return hosts;
}
