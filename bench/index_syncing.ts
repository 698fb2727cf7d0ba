// Time and memory of syncs, the first one and one of an unchanged upstream, and of searches over what
// was synced.

import { startAgentUnderTest } from "./agent_under_test.ts";
import { makeTree, type TreeSize } from "./index_tree.ts";
import { serveTree } from "./index_upstream.ts";
import { quantile } from "./numbers.ts";
import { peakResidentMiB } from "./process_use.ts";
import { withFolder } from "./run_folder.ts";

const SEARCHES = 200;
/** Queries of GET /agent/v1/images, with what they ask. */
const QUERIES: readonly (readonly [words: string, query: string])[] = [
  ["a page of all", ""],
  ["one release", "?distro=distro-7&release=latest"],
  ["arch and format", "?arch=aarch64&format=raw"],
  ["two words", "?q=distro-9+server"],
];

export interface SyncResult {
  readonly documents: number;
  readonly artifacts: number;
  readonly bytes: number;
  readonly firstMs: number;
  readonly unchangedMs: number;
  /** Of a development agent with guests: before the first sync, after it, and at the end. */
  readonly idleMiB: number;
  readonly firstPeakMiB: number;
  readonly peakMiB: number;
  readonly databaseBytes: number;
  /** p50 of a whole request, milliseconds. */
  readonly searches: readonly (readonly [words: string, p50Ms: number])[];
}

export async function measureSync(
  parent: string,
  size: TreeSize,
  binary: string,
): Promise<SyncResult> {
  const tree = await makeTree(size);
  const upstream = serveTree(tree);
  try {
    return await withFolder(parent, async (folder) => {
      const began = performance.now();
      const flags = ["--index", upstream.url, "--allow-http-index"];
      const agent = await startAgentUnderTest(folder, flags, binary);
      try {
        // The sync at the start has begun; to wait for it is to join it.
        const idleMiB = peakResidentMiB(agent.pid);
        const first = await sync(agent.url);
        const firstMs = performance.now() - began - agent.listeningMs;
        const firstPeakMiB = peakResidentMiB(agent.pid);
        const asked = upstream.requests;
        const again = performance.now();
        const second = await sync(agent.url);
        const unchangedMs = performance.now() - again;
        if (upstream.requests - asked < tree.size || second.unchanged !== tree.size) {
          throw new Error(`The second sync was no whole one: ${JSON.stringify(second)}`);
        }
        if (first.added !== tree.size) throw new Error(`${first.added} documents were added`);
        return {
          documents: tree.size,
          artifacts: size.distros * size.releases * size.builds * size.artifacts,
          bytes: tree.values().reduce((sum, { length }) => sum + length, 0),
          firstMs,
          unchangedMs,
          idleMiB,
          firstPeakMiB,
          databaseBytes: await databaseBytes(folder),
          searches: await searches(agent.url),
          peakMiB: peakResidentMiB(agent.pid),
        };
      } finally {
        await agent.stop();
      }
    });
  } finally {
    await upstream.close();
  }
}

async function sync(url: string): Promise<Record<string, unknown>> {
  const response = await fetch(`${url}/agent/v1/index/sync`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ wait: true }),
  });
  const report = await response.json();
  if (report.outcome !== "complete") {
    throw new Error(`The sync was ${report.outcome}: ${JSON.stringify(report.problems?.[0])}`);
  }
  return report;
}

async function searches(url: string): Promise<SyncResult["searches"]> {
  const found: (readonly [string, number])[] = [];
  for (const [words, query] of QUERIES) {
    const took = new Float64Array(SEARCHES);
    for (let number = 0; number < SEARCHES; number++) {
      const began = performance.now();
      const response = await fetch(`${url}/agent/v1/images${query}`);
      const { images } = await response.json();
      took[number] = performance.now() - began;
      if (!Array.isArray(images) || images.length === 0) throw new Error(`${query} found nothing`);
    }
    found.push([words, quantile(took, 0.5)]);
  }
  return found;
}

/** Size of the database with its log. */
async function databaseBytes(folder: string): Promise<number> {
  let bytes = 0;
  for await (const { name } of Deno.readDir(`${folder}/state`)) {
    if (/\.db(-wal)?$/.test(name)) bytes += (await Deno.stat(`${folder}/state/${name}`)).size;
  }
  return bytes;
}
