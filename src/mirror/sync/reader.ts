// Reads documents for one sync: conditional requests, a limit on concurrency, a budget, and an end
// after repeated failures. Each result says whether the store already has the same bytes.

import { AgentError, messageOf } from "../../domain/error.ts";
import { RefusedDocument } from "../../domain/index/index_document.ts";
import type { Now } from "../../domain/instant.ts";
import { sha256Hex } from "../../domain/digest.ts";
import type { IndexDocument, IndexProblem, IndexStore } from "../../store/store.ts";
import { BACKOFF_MS_MAX, isTransient } from "../web/retry.ts";
import type { Upstream } from "../web/upstream.ts";

/** Documents requested at the same time. */
const REQUESTS_AT_ONCE = 8;
/** Documents of one tree. The largest known tree has 103. */
const TREE_DOCUMENTS_MAX = 20_000;
/** Bytes that one sync may read in all: they stay in memory until the tree is replaced. */
const TREE_BYTES_MAX = 64 * 1024 * 1024;
/** New artifacts of one sync: all rows are written in one transaction. The known tree has 830. */
export const TREE_ARTIFACTS_MAX = 50_000;
/** Consecutive failures after which a sync stops asking the upstream. */
export const FAILURES_MAX = 8;

/** A stored document without its body. */
export type StoredDocument = Omit<IndexDocument, "body">;

/** A document as the upstream has it now. */
export interface TakenDocument {
  readonly path: string;
  readonly sha256: string;
  /** Compared with the stored one. */
  readonly state: "added" | "changed" | "unchanged";
  /** What to write; set even if only the validators are new. */
  readonly put: IndexDocument | null;
  body(): Promise<Uint8Array>;
}

/** Reads documents for one sync, within its limits. */
export interface SyncReader {
  readonly stored: ReadonlyMap<string, StoredDocument>;
  /** The longest pause the upstream asked for; 0 for none. */
  readonly retryAfterSeconds: number;
  /**
   * @returns undefined when the upstream has no such document
   * @throws {AgentError} `upstream`, `timeout`, `too_large` or `aborted`
   */
  take(path: string): Promise<TakenDocument | undefined>;
  /**
   * Counts the artifacts of a new list.
   * @throws {AgentError} `too_large` when the tree has too many: their rows are written at once
   */
  countArtifacts(path: string, artifacts: number): void;
  /** Raises the total for progress reports. */
  expect(documents: number): void;
}

interface ReadProgress {
  readonly documents: number;
  /** Documents known so far; more may turn up. */
  readonly total: number;
  readonly bytes: number;
}

interface SyncReaderOptions {
  readonly index: IndexStore;
  readonly upstream: Upstream;
  readonly stored: ReadonlyMap<string, StoredDocument>;
  /** Whether the stored validators belong to this upstream. */
  readonly conditional: boolean;
  /** Accepts documents older than the stored ones. */
  readonly acceptOlder: boolean;
  readonly now: Now;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: ReadProgress) => void;
}

/**
 * Limits the documents and bytes of one sync. After many failures in a row, or when the upstream
 * asks for a long pause, the rest is not requested.
 */
export function openSyncReader(options: SyncReaderOptions): SyncReader {
  const counts = { documents: 0, total: 0, bytes: 0, asked: 0, failures: 0, retryAfter: 0 };
  const inTurn = openTurns(REQUESTS_AT_ONCE);
  const report = () => {
    const { documents, total, bytes } = counts;
    options.onProgress?.({ documents, total: Math.max(documents, total), bytes });
  };
  const refuseMore = (path: string) => {
    const refuse = (code: "upstream" | "too_large", reason: string) =>
      new UnreadDocument(path, new AgentError(code, `Cannot read ${path}: ${reason}`));
    if (counts.retryAfter * 1000 > BACKOFF_MS_MAX) {
      throw refuse("upstream", `not requested: the upstream asked to wait ${counts.retryAfter} s`);
    }
    if (counts.failures >= FAILURES_MAX) {
      const reason = `not requested: the upstream failed ${counts.failures} times in a row`;
      throw refuse("upstream", reason);
    }
    if (counts.bytes > TREE_BYTES_MAX) throw new UnreadDocument(path, tooManyBytes(path));
    if (++counts.asked > TREE_DOCUMENTS_MAX) {
      throw refuse("too_large", `the tree has more than ${TREE_DOCUMENTS_MAX} documents`);
    }
  };
  const take = async (path: string) => {
    refuseMore(path);
    try {
      const taken = await takeOnce(path, options, (bytes) => {
        counts.bytes += bytes;
        if (counts.bytes > TREE_BYTES_MAX) throw tooManyBytes(path);
        report();
      });
      counts.failures = 0;
      return taken;
    } catch (error) {
      if (isTransient(error)) counts.failures += 1;
      const asked = error instanceof AgentError ? error.retryAfterSeconds ?? 0 : 0;
      counts.retryAfter = Math.max(counts.retryAfter, asked);
      if (!(error instanceof AgentError) || error instanceof RefusedDocument) throw error;
      throw new UnreadDocument(path, error);
    } finally {
      counts.documents += 1;
      report();
    }
  };
  return {
    stored: options.stored,
    get retryAfterSeconds() {
      return counts.retryAfter;
    },
    take: (path) => inTurn(() => take(path)),
    countArtifacts: openArtifactCount(),
    expect(documents) {
      counts.total += documents;
      report();
    },
  };
}

function tooManyBytes(path: string): AgentError {
  const message = `Cannot read ${path}: the tree has more than ${TREE_BYTES_MAX} new bytes`;
  return new AgentError("too_large", message);
}

function openArtifactCount(): SyncReader["countArtifacts"] {
  let all = 0;
  return (path, artifacts) => {
    all += artifacts;
    if (all <= TREE_ARTIFACTS_MAX) return;
    const message =
      `Cannot read ${path}: the tree has more than ${TREE_ARTIFACTS_MAX} new artifacts`;
    throw new UnreadDocument(path, new AgentError("too_large", message));
  };
}

/** Runs up to `limit` calls at the same time; the others wait in order of arrival. */
function openTurns(limit: number): <T>(run: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (run) => {
    if (running < limit) running += 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await run();
    } finally {
      // The next caller takes over the slot, so that no other can take it.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}

async function takeOnce(
  path: string,
  { index, upstream, stored, conditional, acceptOlder, now, signal }: SyncReaderOptions,
  onBytes: (bytes: number) => void,
): Promise<TakenDocument | undefined> {
  const known = stored.get(path);
  const answer = await upstream.read(path, {
    known: conditional && known ? known : null,
    onBytes,
    ...(signal === undefined ? {} : { signal }),
  });
  if (answer.kind === "not_found") return undefined;
  if (answer.kind === "unchanged") {
    if (known === undefined) {
      throw new AgentError(
        "upstream",
        `Cannot read ${path}: the server answered 304 to an unconditional request`,
      );
    }
    const body = async () => (await index.get(path))?.body ?? new Uint8Array();
    return { path, sha256: known.sha256, state: "unchanged", put: null, body };
  }
  const { body, etag, last_modified } = answer;
  const sha256 = await sha256Hex(body);
  const same = known?.sha256 === sha256;
  if (!same && conditional && !acceptOlder) refuseOlder(path, known, last_modified);
  const put = { path, body, sha256, etag, last_modified, fetched_at: now() };
  return {
    path,
    sha256,
    state: same ? "unchanged" : known === undefined ? "added" : "changed",
    // Stale validators would make every later answer a full one.
    put: same && known.etag === etag && known.last_modified === last_modified ? null : put,
    body: () => Promise.resolve(body),
  };
}

/** Refuses a document older than the stored one, such as a proxy's stale copy or a replay. */
function refuseOlder(path: string, known: StoredDocument | undefined, found: string | null): void {
  const held = known?.last_modified ?? null;
  if (held === null || found === null || !(Date.parse(found) < Date.parse(held))) return;
  const reason = `is of ${found}, older than the stored one of ${held}; the operator ` +
    "must allow this";
  throw new RefusedDocument({ document: path, path: "$" }, reason);
}

/**
 * A sound document that contradicts another of its tree. The tree may have changed while it was read, so a
 * second attempt is worthwhile.
 */
export class Contradiction extends RefusedDocument {}

/** A document that could not be read. */
class UnreadDocument extends AgentError {
  readonly document: string;

  constructor(document: string, error: AgentError) {
    super(error.code, error.message, { cause: error });
    this.document = document;
  }
}

/**
 * Describes what is wrong with a document, for reports and the log.
 * @param parent the document to name when the error names none
 */
export function problemOf(error: AgentError, parent: string): IndexProblem {
  const message = messageOf(error);
  if (error instanceof UnreadDocument) return { document: error.document, message };
  if (!(error instanceof RefusedDocument)) return { document: parent, message };
  const { place, reason } = error;
  return { document: place.document, message, json_path: place.path, reason };
}

/** Whether an error is about the upstream, not the caller's or a defect. */
export function isProblem(error: unknown, signal: AbortSignal | undefined): error is AgentError {
  return error instanceof AgentError && signal?.aborted !== true;
}
