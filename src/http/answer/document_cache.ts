// Index documents in memory, ready to be sent. Reading the store and compressing for every request would cost
// most of the throughput. The memory is bounded. After a sync, the next request for a document compares it
// with the store once; an unchanged one keeps its compressed copies, so each version is compressed once.

import { DOCUMENT_BYTES_MAX } from "../../domain/index/index_document.ts";
import { DAY_SECONDS, MS_PER_SECOND } from "../../domain/instant.ts";
import type { MemoryBudget, Reservation } from "../../domain/memory_budget.ts";
import type { IndexDocument, IndexStore } from "../../store/store.ts";
import { serve, type ServedDocument } from "./served_document.ts";

/** Bytes of documents kept in memory, compressed copies included. */
const CACHED_BYTES_MAX = 64 * 1024 * 1024;
/** Once a tree was last compared with its upstream this long ago, every answer reports its age. */
export const STALE_MS: number = DAY_SECONDS * MS_PER_SECOND;

interface Freshness {
  /** When the tree was last compared with its upstream, milliseconds since 1970; undefined for never. */
  readonly atMs: number | undefined;
  /** The time from which answers report the age: at once after a failed sync. */
  readonly reportFromMs: number;
}

/** The documents of the tree, ready to be served. */
export interface DocumentCache {
  /** @throws {AgentError} `overloaded` while slow callers hold too many other documents */
  get(path: string): Promise<ServedDocument | undefined>;
  /** As `get`, if the document is in memory and no sync has been recorded since. */
  held(path: string): ServedDocument | undefined;
  freshness(): Promise<Freshness>;
  /** As `freshness`, if the answer is in memory and no sync has been recorded since. */
  heldFreshness(): Freshness | undefined;
}

interface CachedDocument {
  readonly document: ServedDocument;
  readonly version: string;
  /** The generation at which it was last compared with the store. */
  seen: number;
  /** Whether it was used since shrink() last passed over it. */
  used: boolean;
  readonly letGo: () => void;
}

/**
 * @param generation grows with every recorded sync
 * @param budget charged for each copy until it is neither kept nor being sent
 * @param bytesMax bytes of memory, compressed copies included
 */
export function openDocumentCache(
  index: IndexStore,
  generation: () => number,
  budget: MemoryBudget,
  bytesMax: number = CACHED_BYTES_MAX,
): DocumentCache {
  const memory = openMemory(bytesMax);
  const held = (path: string): ServedDocument | undefined => {
    const entry = memory.find(path);
    return entry?.seen === generation() ? entry.document : undefined;
  };
  const read = async (path: string): Promise<ServedDocument | undefined> => {
    const present = generation();
    const reserved = await budget.reserve("documents", DOCUMENT_BYTES_MAX, `read ${path}`);
    let kept = false;
    try {
      const stored = await index.get(path);
      if (stored === undefined) {
        memory.drop(path);
        return undefined;
      }
      const entry = memory.find(path);
      if (entry === undefined || entry.version !== versionOf(stored)) {
        kept = true;
        return memory.keep(path, stored, present, reserved);
      }
      // What was read before a sync says nothing about the tree after it.
      if (present === generation()) entry.seen = present;
      return entry.document;
    } finally {
      if (!kept) reserved.release();
    }
  };
  const reading = new Map<string, Promise<ServedDocument | undefined>>();
  return {
    held,
    async get(path) {
      const found = held(path);
      if (found !== undefined) return found;
      // Concurrent requests between two syncs share one copy.
      const key = `${generation()} ${path}`;
      const shared = reading.get(key) ?? read(path).finally(() => reading.delete(key));
      reading.set(key, shared);
      return await shared;
    },
    ...openFreshness(index, generation),
  };
}

/**
 * The entries by path. Using one only marks it. Moving it in the map would be garbage with each request, and
 * each piece would hold the pieces after it until a collection of the whole heap.
 */
function openMemory(bytesMax: number) {
  const entries = new Map<string, CachedDocument>();
  let bytes = 0;
  const drop = (path: string) => {
    const entry = entries.get(path);
    if (entry === undefined) return;
    entries.delete(path);
    bytes -= entry.document.bytes;
    entry.letGo();
  };
  /** Drops documents that have not been used for long; one that was used is passed over once. */
  const shrink = () => {
    for (const [path, entry] of entries) {
      if (bytes <= bytesMax) break;
      if (!entry.used) drop(path);
      else {
        entry.used = false;
        entries.delete(path);
        entries.set(path, entry);
      }
    }
  };
  return {
    drop,
    find(path: string): CachedDocument | undefined {
      const entry = entries.get(path);
      if (entry !== undefined) entry.used = true;
      return entry;
    },
    keep(
      path: string,
      stored: IndexDocument,
      seen: number,
      reserved: Reservation,
    ): ServedDocument {
      const document = serve(stored, {
        grown: (more) => {
          reserved.resize(reserved.bytes + more);
          if (entries.get(path)?.document !== document) return;
          bytes += more;
          shrink();
        },
        unused: () => reserved.release(),
      });
      reserved.resize(document.bytes);
      drop(path);
      const letGo = document.hold();
      entries.set(path, { document, version: versionOf(stored), seen, used: true, letGo });
      bytes += document.bytes;
      shrink();
      return document;
    },
  };
}

function openFreshness(
  index: IndexStore,
  generation: () => number,
): Pick<DocumentCache, "freshness" | "heldFreshness"> {
  let comparedAtMs: number | undefined;
  let fresh: { seen: number; value: Promise<Freshness>; held?: Freshness } | undefined;
  return {
    async freshness() {
      const seen = generation();
      if (fresh?.seen !== seen) {
        const renewed: NonNullable<typeof fresh> = {
          seen,
          value: readFreshness(index, comparedAtMs),
        };
        fresh = renewed;
        try {
          renewed.held = await renewed.value;
        } catch (error) {
          // The next request tries again.
          if (fresh === renewed) fresh = undefined;
          throw error;
        }
        comparedAtMs = renewed.held.atMs;
      }
      return await fresh.value;
    },
    heldFreshness: () => fresh?.seen === generation() ? fresh.held : undefined,
  };
}

/** Built from what an answer shows of a document, so each version has its own. */
function versionOf({ sha256, last_modified, fetched_at }: IndexDocument): string {
  return `${sha256} ${last_modified ?? fetched_at}`;
}

async function readFreshness(
  index: IndexStore,
  knownMs: number | undefined,
): Promise<Freshness> {
  const latest = await index.lastSync();
  if (latest === undefined) return { atMs: undefined, reportFromMs: Number.POSITIVE_INFINITY };
  if (latest.outcome !== "failed") {
    const atMs = Date.parse(latest.compared_at ?? latest.finished_at);
    return { atMs, reportFromMs: atMs + STALE_MS };
  }
  const { compared_at } = latest;
  const atMs = compared_at === undefined
    ? knownMs ?? await newestFetchMs(index)
    : Date.parse(compared_at);
  return { atMs, reportFromMs: atMs ?? Number.POSITIVE_INFINITY };
}

/** Syncs recorded by earlier versions have no time; the newest document gives the earliest possible one. */
async function newestFetchMs(index: IndexStore): Promise<number | undefined> {
  const newest = (await index.list()).map(({ fetched_at }) => fetched_at).sort().at(-1);
  return newest === undefined ? undefined : Date.parse(newest);
}

/** The age of a stale tree: whole seconds since it was last compared with its upstream. */
export const AGE_HEADER = "x-index-age";

/**
 * Seconds since the tree was last compared; undefined while the age need not be reported.
 * @param nowMs milliseconds since 1970
 */
export function reportedAgeSeconds(
  { atMs, reportFromMs }: Freshness,
  nowMs: number,
): number | undefined {
  if (atMs === undefined || nowMs < reportFromMs) return undefined;
  return Math.max(0, Math.floor((nowMs - atMs) / 1000));
}
