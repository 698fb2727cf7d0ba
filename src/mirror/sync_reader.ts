// Reads documents for one sync: conditionally, within a budget, and with an end to patience. What it
// hands out says whether the store already has the same bytes.

import { AgentError } from "../domain/error.ts";
import type { Now } from "../domain/instant.ts";
import { sha256Hex } from "../domain/sha256.ts";
import type { IndexDocument, IndexStore } from "../store/store.ts";
import { isTransient } from "./retry.ts";
import type { Upstream } from "./upstream.ts";

/** Documents of one tree. The largest known one has 103. */
const TREE_DOCUMENTS_MAX = 20_000;
/** Bytes of the documents that one sync may bring, all together. */
const TREE_BYTES_MAX = 256 * 1024 * 1024;
/** Failures in a row after which the upstream is not asked again in the same sync. */
export const FAILURES_MAX = 8;

/** What the store knows of a document without its body. */
export type StoredDocument = Omit<IndexDocument, "body">;

/** A document as the upstream has it now. */
export interface TakenDocument {
  readonly path: string;
  readonly sha256: string;
  /** Against what the store has. */
  readonly state: "added" | "changed" | "unchanged";
  /** What must be written; also set when only the validators are new. */
  readonly put: IndexDocument | null;
  body(): Promise<Uint8Array>;
}

/** Reads documents for one sync, within its limits. */
export interface SyncReader {
  /**
   * @returns undefined when the upstream says that there is no such document
   * @throws {AgentError} `upstream`, `timeout`, `too_large` or `aborted`
   */
  take(path: string): Promise<TakenDocument | undefined>;
}

/** What the documents of a sync are read from and compared with. */
export interface SyncReaderOptions {
  readonly index: IndexStore;
  readonly upstream: Upstream;
  readonly stored: ReadonlyMap<string, StoredDocument>;
  /** Whether the stored validators are those of this upstream. */
  readonly conditional: boolean;
  readonly now: Now;
  readonly signal?: AbortSignal;
}

/** Opens a reader for one sync; its counts begin at zero. */
export function openSyncReader(options: SyncReaderOptions): SyncReader {
  let documents = 0;
  let bytes = 0;
  let failures = 0;
  return {
    async take(path) {
      if (failures >= FAILURES_MAX) {
        const message = `Cannot read ${path}: not asked, as the upstream failed ${failures} ` +
          "times in a row";
        throw new AgentError("upstream", message);
      }
      if (++documents > TREE_DOCUMENTS_MAX) {
        const message = `Cannot read ${path}: the tree has over ${TREE_DOCUMENTS_MAX} documents`;
        throw new AgentError("too_large", message);
      }
      try {
        const taken = await takeOnce(path, options);
        bytes += taken?.put?.body.byteLength ?? 0;
        failures = 0;
        if (bytes > TREE_BYTES_MAX) {
          const message = `Cannot read ${path}: the tree has over ${TREE_BYTES_MAX} new bytes`;
          throw new AgentError("too_large", message);
        }
        return taken;
      } catch (error) {
        if (isTransient(error)) failures += 1;
        throw error;
      }
    },
  };
}

async function takeOnce(
  path: string,
  { index, upstream, stored, conditional, now, signal }: SyncReaderOptions,
): Promise<TakenDocument | undefined> {
  const known = stored.get(path);
  const answer = await upstream.read(path, conditional && known ? known : null, signal);
  if (answer.kind === "not_found") return undefined;
  if (answer.kind === "unchanged") {
    if (known === undefined) {
      throw new AgentError("upstream", `Cannot read ${path}: the server answered 304 unasked`);
    }
    const body = async () => (await index.get(path))?.body ?? new Uint8Array();
    return { path, sha256: known.sha256, state: "unchanged", put: null, body };
  }
  const { body, etag, last_modified } = answer;
  const sha256 = await sha256Hex(body);
  const same = known?.sha256 === sha256;
  const put = { path, body, sha256, etag, last_modified, fetched_at: now() };
  return {
    path,
    sha256,
    state: same ? "unchanged" : known === undefined ? "added" : "changed",
    // Validators that are not kept up to date would make every later request unconditional.
    put: same && known.etag === etag && known.last_modified === last_modified ? null : put,
    body: () => Promise.resolve(body),
  };
}
