// Requests a second of documents of the index, beside nginx serving the same files.

import { join } from "@std/path";
import { residentMiB, startAgentUnderTest } from "./agent_under_test.ts";
import { makeTree, releaseDocument, type Tree } from "./index_tree.ts";
import { writeTree } from "./index_upstream.ts";
import { type Load, load, programPath, startNginx } from "./nginx.ts";
import { childrenCpuMs, ownCpuMs } from "./process_use.ts";
import { withFolder } from "./run_folder.ts";

const CONNECTIONS = 32;
/** Artifacts of a release whose document has about so many bytes. */
const SIZES = [["40 KB", 31], ["1 MB", 780]] as const;
const CASES = ["plain", "gzip", "304"] as const;

export interface ServingOptions {
  readonly binary: string;
  /** Another binary, measured in the same rounds. */
  readonly before: string | undefined;
  readonly rounds: number;
  readonly seconds: number;
}

/** One contestant in one case of one round. */
export interface Served extends Load {
  readonly round: number;
  readonly what: string;
  readonly who: string;
  /** Processor time of the contestant, microseconds a request. */
  readonly cpuUs: number;
}

export interface ServingResult {
  readonly served: readonly Served[];
  /** Resident memory of each contestant after the rounds, MiB; of nginx, of its worker. */
  readonly memoryMiB: ReadonlyMap<string, number>;
  readonly bytes: ReadonlyMap<string, number>;
}

interface Contestant {
  readonly who: string;
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** @throws {Error} when nginx or wrk is not installed */
export async function measureServing(
  parent: string,
  { binary, before, rounds, seconds }: ServingOptions,
): Promise<ServingResult> {
  const [nginx, wrk] = [await programPath("nginx"), await programPath("wrk")];
  if (nginx === undefined || wrk === undefined) {
    throw new Error("nginx and wrk have to be installed (Debian packages of these names)");
  }
  return await withFolder(parent, async (folder) => {
    const tree = await servingTree();
    const root = join(folder, "tree");
    await writeTree(tree, root);
    const started: Contestant[] = [];
    try {
      started.push(await startNamed("zonewright", folder, root, binary));
      if (before !== undefined) started.push(await startNamed("before", folder, root, before));
      started.push({ who: "nginx", ...await startNginx(nginx, root, folder) });
      const served: Served[] = [];
      for (let round = 0; round < rounds; round++) {
        for (const { what, path, headers } of await cases(started)) {
          for (const { who, url, pid } of started) {
            const options = { seconds, connections: CONNECTIONS, headers: headers.get(who) ?? {} };
            const before = cpuMs(pid);
            const loaded = await load(wrk, `${url}/${path}`, options);
            const cpuUs = (cpuMs(pid) - before) * 1000 / loaded.requests;
            served.push({ round, what, who, ...loaded, cpuUs });
          }
        }
      }
      const memoryMiB = new Map(started.map(({ who, pid }) => [who, residentMiB(pid)]));
      const bytes = new Map(
        SIZES.map(([size], release) => [size, tree.get(releaseDocument(release, 0))?.length ?? 0]),
      );
      return { served, memoryMiB, bytes };
    } finally {
      for (const { stop } of started) await stop();
    }
  });
}

async function startNamed(
  who: string,
  folder: string,
  root: string,
  binary: string,
): Promise<Contestant> {
  const place = join(folder, who);
  await Deno.mkdir(place, { mode: 0o755 });
  const agent = await startAgentUnderTest(place, ["--index", root], binary);
  await synced(agent.url);
  return { who, ...agent };
}

/** Of a process and all below it: the worker of nginx is a child. */
function cpuMs(pid: number): number {
  return ownCpuMs(pid) + childrenCpuMs(pid);
}

/** Waits until the sync at the start of an agent has ended. */
async function synced(url: string): Promise<void> {
  const response = await fetch(`${url}/agent/v1/index/sync`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ wait: true }),
  });
  const { outcome, problems } = await response.json();
  if (outcome !== "complete") throw new Error(`The sync was ${outcome}: ${problems?.[0]?.message}`);
}

/** One distro for each size. */
async function servingTree(): Promise<Tree> {
  const tree = new Map(await makeTree({ distros: 2, releases: 1, builds: 1, artifacts: 1 }));
  for (const [number, [, artifacts]] of SIZES.entries()) {
    const one = await makeTree({ distros: 2, releases: 1, builds: 1, artifacts });
    const path = releaseDocument(number, 0);
    const alias = path.replace("releases/1.0/index", "aliases/latest");
    for (const document of [path, alias]) {
      const body = one.get(document);
      if (body !== undefined) tree.set(document, body);
    }
  }
  return tree;
}

/** What is asked for, and the headers for each contestant: entity tags are their own. */
async function cases(started: readonly Contestant[]) {
  const all: { what: string; path: string; headers: Map<string, Record<string, string>> }[] = [];
  for (const [number, [size]] of SIZES.entries()) {
    const path = releaseDocument(number, 0);
    for (const kind of CASES) {
      const headers = new Map<string, Record<string, string>>();
      for (const { who, url } of started) {
        const sent = { "accept-encoding": kind === "gzip" ? "gzip" : "identity" };
        const response = await fetch(`${url}/${path}`, { headers: sent });
        await response.body?.cancel();
        const etag = response.headers.get("etag") ?? "";
        headers.set(who, kind === "304" ? { ...sent, "if-none-match": etag } : sent);
      }
      all.push({ what: `${size} ${kind}`, path, headers });
    }
  }
  return all;
}
