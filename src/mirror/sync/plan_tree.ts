// Reads the whole tree of an upstream and plans a sync of it.

import { AgentError } from "../../domain/error.ts";
import type { DistroList } from "../../domain/index/image_index.ts";
import { refuse } from "../../domain/index/index_document.ts";
import {
  DISTRO_LIST_PATH,
  distroPath,
  IMAGES_PATH,
  OPENAPI_PATH,
  placeOf,
} from "../../domain/index/index_path.ts";
import type { Instant, Now } from "../../domain/instant.ts";
import { sha256Hex } from "../../domain/digest.ts";
import { mapLimited } from "../../program/loop.ts";
import type { IndexDocument } from "../../store/store.ts";
import type { ListedState } from "./index_reading.ts";
import { type DistroOutcome, syncDistro, type SyncDistroOptions } from "./distro.ts";
import { addComposed, addPins, addTaken, emptyPlan, planRemovals, type SyncPlan } from "./plan.ts";
import { isProblem, problemOf, type TakenDocument } from "./reader.ts";

/** Distros read at the same time. */
const DISTROS_AT_ONCE = 4;
/** Documents read besides those of the distros. */
const TREE_DOCUMENTS = 3;

export interface PlanTreeOptions extends SyncDistroOptions {
  readonly now: Now;
}

/** @throws {AgentError} `aborted` when the caller gave up; every other failure is in the plan */
export async function planTree(options: PlanTreeOptions): Promise<SyncPlan> {
  const { reader, reading, index, now } = options;
  const plan = emptyPlan();
  reader.expect(TREE_DOCUMENTS);
  const listed = await readList(plan, options);
  if (listed === undefined) return plan;
  const { distros } = listed.list;
  reader.expect(distros.length);
  const outcomes = new Map<string, DistroOutcome>();
  await mapLimited(distros, DISTROS_AT_ONCE, async (summary) => {
    outcomes.set(summary.id, await syncDistro(summary, options));
  });
  const accepted: TakenDocument[] = [];
  for (const { id } of distros) {
    const outcome = outcomes.get(id);
    if (outcome?.kind === "kept") {
      plan.problems.push({ ...outcome.problem, kept: reader.stored.has(distroPath(id)) });
    }
    if (outcome?.kind !== "accepted") continue;
    accepted.push(...outcome.taken.documents);
    addPins(plan, outcome.taken.pins);
  }
  // With nothing accepted, an empty list would replace the stored one.
  plan.failed = distros.length > 0 && accepted.length === 0;
  if (plan.failed) return plan;
  const whole = plan.problems.length === 0;
  const stays = new Set<string>();
  for (const path of [IMAGES_PATH, OPENAPI_PATH]) {
    const read = await readOptional(plan, path, options);
    // The document of all images also covers distros that were not taken.
    if (read === "kept" || path === IMAGES_PATH && !whole) stays.add(path);
    else if (read !== undefined) accepted.push(read);
  }
  const stateOf = (distro: string): ListedState => {
    if (outcomes.get(distro)?.kind === "accepted") return "accepted";
    return reader.stored.has(distroPath(distro)) ? "kept" : "absent";
  };
  const heldList = (await index.get(DISTRO_LIST_PATH))?.body;
  const states = distros.map(({ id }) => [id, stateOf(id)] as const);
  const composed = await reading.compose(await listed.taken.body(), heldList, states);
  for (const document of accepted) addTaken(plan, document);
  if (composed === null) addTaken(plan, listed.taken);
  else addComposed(plan, await madeList(composed, now()), reader.stored.get(DISTRO_LIST_PATH));
  const here = new Set([...accepted.map(({ path }) => path), ...stays, DISTRO_LIST_PATH]);
  const isKept = (path: string) => {
    const place = placeOf(path);
    return place.kind !== "tree" && outcomes.get(place.distro)?.kind === "kept";
  };
  await planRemovals(plan, reader.stored, { index, reading }, {
    isHere: (path) => here.has(path) || isKept(path),
    isListed: (distro) => outcomes.has(distro),
  });
  return plan;
}

/** A list composed here. */
async function madeList(body: Uint8Array, now: Instant): Promise<IndexDocument> {
  return {
    path: DISTRO_LIST_PATH,
    body,
    sha256: await sha256Hex(body),
    // The upstream's validators belong to other bytes; without them the list is read in full next
    // time.
    etag: null,
    last_modified: null,
    fetched_at: now,
  };
}

async function readList(
  plan: SyncPlan,
  { reader, reading, acceptChanged, signal }: PlanTreeOptions,
): Promise<{ list: DistroList; taken: TakenDocument } | undefined> {
  try {
    const taken = await reader.take(DISTRO_LIST_PATH);
    if (taken === undefined) {
      throw new AgentError("upstream", `Cannot read ${DISTRO_LIST_PATH}: it does not exist`);
    }
    const list = await reading.list(await taken.body());
    const holdsDistros = [...reader.stored.keys()].some((path) => placeOf(path).kind !== "tree");
    if (list.distros.length === 0 && holdsDistros && !acceptChanged) {
      const place = { document: DISTRO_LIST_PATH, path: "$.distros" };
      refuse(place, "is empty while distros are stored; the operator must allow this");
    }
    return { list, taken };
  } catch (error) {
    if (!isProblem(error, signal)) throw error;
    plan.failed = true;
    const kept = reader.stored.has(DISTRO_LIST_PATH);
    plan.problems.push({ ...problemOf(error, DISTRO_LIST_PATH), kept });
    return undefined;
  }
}

/**
 * Reads a document that may be missing from the tree.
 * @returns undefined when it is missing, `kept` when it is refused and the stored one stays
 */
async function readOptional(
  plan: SyncPlan,
  path: string,
  { reader, reading, signal }: PlanTreeOptions,
): Promise<TakenDocument | "kept" | undefined> {
  try {
    const taken = await reader.take(path);
    if (taken === undefined) return undefined;
    await reading.optional({ path, body: await taken.body() });
    return taken;
  } catch (error) {
    if (!isProblem(error, signal)) throw error;
    plan.problems.push({ ...problemOf(error, path), kept: reader.stored.has(path) });
    return "kept";
  }
}
