// Likely slips in a workflow that an agent would accept. The list is short on purpose: each of them
// is almost never meant, and makes a job fail, or do something else than was written.

import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { nearName } from "./near_name.ts";
import type { Place } from "./workflow_place.ts";
import { sourceSlips } from "./workflow_source.ts";

/** A likely slip at a field. */
export interface Slip {
  /** Path of the field, such as `chain[0].timeout`. */
  readonly field: string;
  readonly code: "LikelySlip";
  /** A sentence that begins with the field. */
  readonly message: string;
  /** Where in the source of the field. */
  readonly place?: Place;
}

/** Chains of a workflow, and their other spelling. */
const LISTS = ["chain", "onerror", "oncancel"] as const;
const WORKFLOW_KEYS = [
  "name",
  ...LISTS,
  "timeout",
  "max_attempts",
  "initial_delay",
  "max_delay",
];
/** Known keys that are no slips and no suggestions either. */
const OTHER_WORKFLOW_KEYS = ["uuid", "wf_uuid", "chain[]", "onerror[]"];
const TASK_KEYS = ["name", "body", "fallback", "retry", "timeout", "retry_delay"];
const OTHER_TASK_KEYS = ["uuid", "modules"];

const HOUR_SECONDS = 3600;
const DAY_SECONDS = 86_400;
const MS_PER_SECOND = 1000;

/** Every likely slip of the body of a workflow, whether or not the rest of it is right. */
export function slipsOf(body: JsonObject): Slip[] {
  return [
    ...unknownKeys(body, "", WORKFLOW_KEYS, OTHER_WORKFLOW_KEYS),
    ...timeoutSlips(body, "timeout"),
    ...LISTS.flatMap((list) => listSlips(list, body[list] ?? body[`${list}[]`])),
  ];
}

function listSlips(list: string, tasks: unknown): Slip[] {
  if (!Array.isArray(tasks) || tasks.length === 0) {
    const empty = list === "chain" && (tasks === undefined || Array.isArray(tasks));
    return empty ? [slip("chain", "has no tasks: no job can be made of it")] : [];
  }
  const seen = new Map<string, number>();
  return tasks.flatMap((task, index) => {
    if (!isJsonObject(task)) return [];
    const field = `${list}[${index}]`;
    const name = typeof task.name === "string" ? task.name : undefined;
    const first = name === undefined ? undefined : seen.get(name);
    if (name !== undefined && first === undefined) seen.set(name, index);
    return [
      ...(first === undefined ? [] : [
        slip(
          `${field}.name`,
          `is also that of ${list}[${first}]: no result, log or retry can ` +
            "tell the two apart",
        ),
      ]),
      ...taskSlips(task, field),
    ];
  });
}

function taskSlips(task: JsonObject, field: string): Slip[] {
  const sources = (["body", "fallback"] as const).flatMap((kind) => {
    const source = task[kind];
    if (typeof source !== "string") return [];
    return sourceSlips(source, kind).map(({ words, place }) => ({
      ...slip(`${field}.${kind}`, words),
      ...(place === undefined ? {} : { place }),
    }));
  });
  return [
    ...unknownKeys(task, `${field}.`, TASK_KEYS, OTHER_TASK_KEYS),
    ...timeoutSlips(task, `${field}.timeout`),
    ...sources,
  ];
}

/** Keys that are not known are kept as sent, so only what looks like a known one is told. */
function unknownKeys(
  object: JsonObject,
  prefix: string,
  known: readonly string[],
  others: readonly string[],
): Slip[] {
  return Object.keys(object).flatMap((key) => {
    if (known.includes(key) || others.includes(key)) return [];
    const near = nearName(key, known);
    const words = `is unknown and means nothing: did you mean ${JSON.stringify(near)}?`;
    return near === undefined ? [] : [slip(`${prefix}${key}`, words)];
  });
}

/** Thousands of seconds that are no round time to people are most often milliseconds. */
function timeoutSlips({ timeout }: JsonObject, field: string): Slip[] {
  if (typeof timeout !== "number" || timeout < MS_PER_SECOND) return [];
  const roundSeconds = timeout % (timeout < 2 * DAY_SECONDS ? HOUR_SECONDS : DAY_SECONDS) === 0;
  if (roundSeconds || timeout % MS_PER_SECOND !== 0) return [];
  const meant = timeout / MS_PER_SECOND;
  const words = `counts seconds: if ${timeout} are milliseconds, write ${meant}`;
  return [slip(field, words)];
}

function slip(field: string, words: string): Slip {
  return { field, code: "LikelySlip", message: `${field} ${words}` };
}
