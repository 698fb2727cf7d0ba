// One sync of the image index: reads the upstream's tree and exchanges ours for it in one
// transaction, so that readers see the tree before or the tree after.
//
// The distro is the unit of acceptance. A distro with a document that is unreachable or breaks a
// rule stays as it is here, and the others go on. Only the list of distros can remove one, and only
// a 404 or 410 can remove an archive: silence and errors never remove anything.

import { AgentError, messageOf } from "../domain/error.ts";
import { checkOpenapi, type DistroList, parseDistroList } from "../domain/image_index.ts";
import { decodeDocument } from "../domain/index_document.ts";
import { DISTRO_LIST_PATH, distroPath, OPENAPI_PATH } from "../domain/index_path.ts";
import type { Now } from "../domain/instant.ts";
import type { Log } from "../log.ts";
import { mapLimited } from "../map_limited.ts";
import type { IndexDocument, IndexStore, IndexSync } from "../store/store.ts";
import { composeDistroList, type ListedState } from "./distro_list.ts";
import { type DistroOutcome, syncDistro } from "./sync_distro.ts";
import {
  openSyncReader,
  type StoredDocument,
  type SyncReader,
  type TakenDocument,
} from "./sync_reader.ts";
import { openDeadline } from "./time_limits.ts";
import type { Upstream } from "./upstream.ts";

/** Distros that are read at the same time. */
const DISTROS_AT_ONCE = 4;
/** Longest time of one sync; what was not read by then is kept as it was. */
const SYNC_MS_MAX = 30 * 60_000;

/** What a sync works with. */
export interface SyncDependencies {
  readonly index: IndexStore;
  readonly upstream: Upstream;
  readonly log: Log;
  readonly now: Now;
}

/** How one sync is made. */
export interface SyncOptions {
  readonly signal?: AbortSignal;
  /** Takes changed digests of known builds as well, see pins.ts. */
  readonly acceptChanged?: boolean;
}

/** What a sync would write. */
interface Plan {
  readonly put: Map<string, IndexDocument>;
  readonly remove: string[];
  readonly counts: { added: number; changed: number; removed: number; unchanged: number };
  readonly problems: { document: string; message: string }[];
  failed: boolean;
}

/**
 * Runs one sync to its end and records it.
 * @returns what was done; an upstream that fails is an outcome, not an error
 * @throws {AgentError} `aborted` when the caller gave up: nothing is changed or recorded then
 */
export async function syncIndex(deps: SyncDependencies, o: SyncOptions = {}): Promise<IndexSync> {
  const { index, upstream, log, now } = deps;
  const started_at = now();
  const stored = new Map((await index.list()).map((document) => [document.path, document]));
  const before = await index.lastSync();
  const moved = before !== undefined && before.upstream !== upstream.address;
  const deadline = openDeadline(SYNC_MS_MAX, "sync the index", o.signal);
  const plan: Plan = {
    put: new Map(),
    remove: [],
    counts: { added: 0, changed: 0, removed: 0, unchanged: 0 },
    problems: [],
    failed: false,
  };
  try {
    const { signal } = deadline;
    const reader = openSyncReader({ index, upstream, stored, conditional: !moved, now, signal });
    await planSync(plan, reader, stored, deps, o);
  } finally {
    deadline.clear();
  }
  if (o.signal?.aborted) throw new AgentError("aborted", "Cannot sync the index: given up");
  if (moved) await forgetValidators(plan, stored, index);
  const sync: IndexSync = {
    started_at,
    finished_at: now(),
    upstream: upstream.address,
    outcome: plan.failed ? "failed" : plan.problems.length > 0 ? "partial" : "complete",
    ...plan.counts,
    problems: plan.problems,
  };
  await index.swap([...plan.put.values()], plan.remove, sync);
  const level = sync.outcome === "complete" ? "info" : "warn";
  log[level]("index synced", { ...sync, problems: plan.problems.slice(0, 5) });
  return sync;
}

async function planSync(
  plan: Plan,
  reader: SyncReader,
  stored: ReadonlyMap<string, StoredDocument>,
  { index, now }: SyncDependencies,
  o: SyncOptions,
): Promise<void> {
  const listed = await readList(plan, reader, o.signal);
  if (listed === undefined) return;
  const options = {
    reader,
    index,
    acceptChanged: o.acceptChanged ?? false,
    ...(o.signal === undefined ? {} : { signal: o.signal }),
  };
  const outcomes = new Map<string, DistroOutcome>();
  await mapLimited(listed.list.distros, DISTROS_AT_ONCE, async (summary) => {
    outcomes.set(summary.id, await syncDistro(summary, options));
  });
  const accepted = [...outcomes.values()].filter((outcome) => outcome.kind === "accepted");
  for (const { id } of listed.list.distros) {
    const outcome = outcomes.get(id);
    if (outcome?.kind === "kept") plan.problems.push(outcome.problem);
  }
  // With nothing accepted, an empty list would take the place of what is here.
  plan.failed = listed.list.distros.length > 0 && accepted.length === 0;
  if (plan.failed) return;
  const taken = accepted.flatMap((outcome) => outcome.documents);
  const openapi = await readOpenapi(plan, reader, o.signal);
  if (openapi !== undefined) taken.push(openapi);
  const stateOf = (distro: string): ListedState => {
    if (outcomes.get(distro)?.kind === "accepted") return "accepted";
    return stored.has(distroPath(distro)) ? "kept" : "absent";
  };
  const heldList = (await index.get(DISTRO_LIST_PATH))?.body;
  const composed = await composeDistroList(await listed.taken.body(), heldList, stateOf, now());
  for (const document of taken) addTaken(plan, document);
  if (composed === null) addTaken(plan, listed.taken);
  else addComposed(plan, composed, stored.get(DISTRO_LIST_PATH));
  const here = new Set([...taken.map((document) => document.path), DISTRO_LIST_PATH]);
  const refused = plan.problems.some((problem) => problem.document === OPENAPI_PATH);
  planRemovals(
    plan,
    stored,
    (path) => here.has(path) || refused && path === OPENAPI_PATH,
    (id) => outcomes.get(id)?.kind === "kept",
  );
}

async function readList(
  plan: Plan,
  reader: SyncReader,
  signal: AbortSignal | undefined,
): Promise<{ list: DistroList; taken: TakenDocument } | undefined> {
  try {
    const taken = await reader.take(DISTRO_LIST_PATH);
    if (taken === undefined) {
      throw new AgentError("upstream", `Cannot read ${DISTRO_LIST_PATH}: it is not there`);
    }
    const list = parseDistroList(decodeDocument(await taken.body(), DISTRO_LIST_PATH));
    return { list, taken };
  } catch (error) {
    if (signal?.aborted || !(error instanceof AgentError)) throw error;
    plan.failed = true;
    plan.problems.push({ document: DISTRO_LIST_PATH, message: messageOf(error) });
    return undefined;
  }
}

/** The description is optional: without it, or with a broken one, the mirror serves another. */
async function readOpenapi(
  plan: Plan,
  reader: SyncReader,
  signal: AbortSignal | undefined,
): Promise<TakenDocument | undefined> {
  try {
    const taken = await reader.take(OPENAPI_PATH);
    if (taken !== undefined) checkOpenapi(decodeDocument(await taken.body(), OPENAPI_PATH));
    return taken;
  } catch (error) {
    if (signal?.aborted || !(error instanceof AgentError)) throw error;
    plan.problems.push({ document: OPENAPI_PATH, message: messageOf(error) });
    return undefined;
  }
}

function addTaken(plan: Plan, document: TakenDocument): void {
  plan.counts[document.state] += 1;
  if (document.put !== null) plan.put.set(document.path, document.put);
}

function addComposed(plan: Plan, made: IndexDocument, held: StoredDocument | undefined): void {
  const same = held?.sha256 === made.sha256;
  plan.counts[same ? "unchanged" : held === undefined ? "added" : "changed"] += 1;
  if (!same) plan.put.set(made.path, made);
}

function planRemovals(
  plan: Plan,
  stored: ReadonlyMap<string, StoredDocument>,
  isHere: (path: string) => boolean,
  isKept: (distro: string) => boolean,
): void {
  for (const path of stored.keys()) {
    const distro = /^v1\/distros\/([^/]+)\//.exec(path)?.[1];
    if (isHere(path) || distro !== undefined && isKept(distro)) continue;
    plan.remove.push(path);
    plan.counts.removed += 1;
  }
}

/** After a change of the upstream, what is kept must not be compared with the new one's answers. */
async function forgetValidators(
  plan: Plan,
  stored: ReadonlyMap<string, StoredDocument>,
  index: IndexStore,
): Promise<void> {
  for (const { path, etag, last_modified } of stored.values()) {
    const foreign = etag !== null || last_modified !== null;
    if (!foreign || plan.put.has(path) || plan.remove.includes(path)) continue;
    const document = await index.get(path);
    if (document !== undefined) {
      plan.put.set(path, { ...document, etag: null, last_modified: null });
    }
  }
}
