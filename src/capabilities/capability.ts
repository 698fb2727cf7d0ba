// What a capability is, an operation of the agent that tasks call by name, and what the agent knows about each before it
// handles a call. Arguments come from the other side of the wall, so each capability parses them first.

import { abortedError, AgentError, isAway } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import { BOOT_OPTIONS } from "../domain/machine/action.ts";
import { untilDone } from "../runtime/run.ts";
import { SYSTEM_TIMERS } from "../runtime/timers.ts";
import { masked } from "../host/program_output.ts";
import type { Log } from "../metrics/log.ts";
import type { TaskContext } from "../sandbox/task_calls.ts";
import type { CapabilityName } from "../wall/protocol.ts";

/** What a capability knows of the task that calls it, and can report before it ends. */
export interface Call {
  readonly job_uuid: JobUuid;
  readonly task_name: string;
  /** Names of fields that the workflow declares secret. */
  readonly secrets: ReadonlySet<string> | undefined;
  /** Aborted when the task is aborted, its execution ends, or the deadline passes. */
  readonly signal: AbortSignal;
  /** Appends to the job's info for the task, within the task's limits. */
  readonly note: (entry: JsonObject) => Promise<void>;
  /** Appends at once or drops the entry, unless it is given a way to insist. */
  readonly noteNow: (entry: JsonObject, insist?: Insist) => Promise<void>;
  /** Repeats a call of the store that must succeed. */
  readonly insist: Insist;
  /** Counts a note that was dropped for being too large or too many. */
  readonly drop: () => void;
  /** Reports the progress of a long call; most reports are dropped. */
  readonly progress: (phase: ProgressPhase, done: number, total: number | null) => void;
}

/** Phase of a long call. @see docs/tasks.md, info and log */
export type ProgressPhase = "download" | "decompress" | "verify" | "copy";

/** An operation and its deadline. */
export interface Capability {
  readonly deadlineMs: number;
  perform(call: Call, args: readonly JsonValue[]): Promise<JsonValue>;
}

/** Every capability whose name begins with the prefix, so that the compiler finds a missing one. */
export type CapabilitiesOf<Prefix extends string> = Readonly<
  Record<Extract<CapabilityName, Prefix | `${Prefix}.${string}`>, Capability>
>;

/** The execution that a note or an info entry is about. */
export type Noted = Omit<TaskContext, "signal">;

/**
 * Runs a call of the store that may be repeated, until the store has room for it and answers. A task must not fail for
 * a full disk, or for a database that is away; only its own time ends the wait.
 */
export type Insist = <T>(call: () => Promise<T>) => Promise<T>;

const AGAIN_FIRST_MS = 100;
const AGAIN_LONGEST_MS = 2_000;

/** @param over aborted when the task ends, which ends the calls too */
export function openInsist(over: AbortSignal, log: Log, fields: Omit<Noted, "attempt">): Insist {
  const onFailure = (error: unknown, attempt: number) => {
    const isFull = error instanceof AgentError && error.code === "storage_full";
    if (!isFull && !isAway(error)) throw error;
    if (attempt === 1) log.warn("task waits for the store", { ...fields, error });
  };
  const backoff = {
    firstMs: AGAIN_FIRST_MS,
    longestMs: AGAIN_LONGEST_MS,
    signal: () => over,
    onFailure,
  };
  return async (call) => {
    const done = await untilDone(async () => ({ answer: await call() }), backoff);
    if (done === undefined) throw abortedError("Cannot write to the store", over);
    return done.answer;
  };
}

/**
 * Runs with a signal that also fires at the deadline.
 * @param run gets a function for waits that must not count against the deadline
 * @throws {AgentError} `timeout` at the deadline
 */
export async function withDeadline<T>(
  what: string,
  deadlineMs: number,
  signal: AbortSignal,
  run: (signal: AbortSignal, uncounted: Insist) => Promise<T>,
  timers = SYSTEM_TIMERS,
): Promise<T> {
  const late = new AbortController();
  let leftMs = deadlineMs;
  let waits = 0;
  let hasEnded = false;
  let countedFrom = timers.nowMs();
  let cancelTimer = timers.start(leftMs, () => late.abort());
  const uncounted: Insist = async (call) => {
    waits += 1;
    if (waits === 1) {
      cancelTimer();
      leftMs -= timers.nowMs() - countedFrom;
    }
    try {
      return await call();
    } finally {
      waits -= 1;
      if (waits === 0 && !hasEnded) {
        countedFrom = timers.nowMs();
        cancelTimer = timers.start(leftMs, () => late.abort());
      }
    }
  };
  try {
    return await run(AbortSignal.any([signal, late.signal]), uncounted);
  } catch (error) {
    if (!late.signal.aborted || signal.aborted) throw error;
    const message = `Cannot finish ${what}: it took over ${deadlineMs / 1000} s`;
    throw new AgentError("timeout", message, { cause: error });
  } finally {
    hasEnded = true;
    cancelTimer();
  }
}

/** The limits of one execution of a task. */
export interface CapabilityLimits {
  /** Calls of all capabilities by one task. */
  readonly taskCallsMax: number;
  /** Entries of one job's info over all executions. */
  readonly infoEntriesMax: number;
  /** Entries appended to the job's info, those of log.* included. */
  readonly taskInfoEntriesMax: number;
  /** Characters of one such entry as JSON text. */
  readonly taskInfoCharsMax: number;
  /** Characters of a log message; longer ones are cut. */
  readonly taskLogCharsMax: number;
}

/**
 * `act` changes the host or fills its disk: each call gets its own entry in the job's info, and
 * nothing overtakes one that is being cut off. `read` only looks and `note` writes about the task:
 * both are only counted.
 */
type CallKind = "act" | "read" | "note";

interface CallRule {
  readonly kind: CallKind;
  readonly argsMax: number;
  /**
   * Returns to its caller as soon as the task is aborted: it cannot be cut off and changes nothing.
   */
  readonly leftAlone?: true;
  /** The first argument is the uuid of a machine to change. */
  readonly changesMachine?: true;
  /** The arguments shown in the timeline: only fields named here, so that no secret of a payload leaks. */
  readonly brief: (args: readonly JsonValue[]) => JsonObject;
}

/** Longest text that an error shows, characters. */
const TEXT_CHARS_MAX = 128;
const NAMES_MAX = 16;
/** Names of properties; a task could send any text instead. */
const PROPERTY = /^[a-z_]{1,40}$/;

/** Every capability with its rule. */
export const CALL_RULES: Readonly<Record<CapabilityName, CallRule>> = {
  "vmadm.validate": read(1),
  "vmadm.create": { kind: "act", argsMax: 1, brief: ([payload]) => payloadWords(payload) },
  "vmadm.get": read(1),
  "vmadm.list": read(0),
  "vmadm.boot": change(2, (args) => picked(args, BOOT_OPTIONS)),
  "vmadm.stop": change(2, (args) => picked(args, ["force", "timeout"])),
  "vmadm.reboot": change(2, (args) => picked(args, ["force"])),
  "vmadm.update": change(2, (changes) => ({ changes: propertyNames(changes) })),
  "vmadm.delete": change(1, () => ({})),
  "vmadm.info": read(2),
  "media.find": { kind: "act", argsMax: 1, brief: ([request]) => requestWords(request) },
  "media.place": change(2, (medium) => picked(medium, ["name", "sha256"])),
  "media.remove": change(2, (file) => picked({ file: file ?? null }, ["file"])),
  "images.find": { ...read(1), leftAlone: true },
  "images.download": { kind: "act", argsMax: 1, brief: ([artifact]) => artifactWords(artifact) },
  "vnc.wait": read(2),
  "info": note(1),
  "log.debug": note(2),
  "log.info": note(2),
  "log.warn": note(2),
  "log.error": note(2),
};

/** Number of arguments; a trailing null counts as missing. */
export function argumentCount(args: readonly JsonValue[]): number {
  return args.findLastIndex((arg) => arg !== null) + 1;
}

function read(argsMax: number): CallRule {
  return { kind: "read", argsMax, brief: () => ({}) };
}

function note(argsMax: number): CallRule {
  return { kind: "note", argsMax, leftAlone: true, brief: () => ({}) };
}

function change(argsMax: number, second: (value: JsonValue | undefined) => JsonObject): CallRule {
  const brief: CallRule["brief"] = ([uuid, value]) => ({
    ...picked({ uuid: uuid ?? null }, ["uuid"]),
    ...second(value),
  });
  return { kind: "act", argsMax, changesMachine: true, brief };
}

/** The named fields that are texts, numbers or booleans. */
function picked(value: JsonValue | undefined, names: readonly string[]): JsonObject {
  if (!isJsonObject(value)) return {};
  const shown: [string, JsonValue][] = [];
  for (const name of names) {
    const field = Object.hasOwn(value, name) ? value[name] : undefined;
    if (typeof field === "string") shown.push([name, masked(field.slice(0, TEXT_CHARS_MAX))]);
    else if (typeof field === "number" || typeof field === "boolean") shown.push([name, field]);
  }
  return Object.fromEntries(shown);
}

function payloadWords(payload: JsonValue | undefined): JsonObject {
  if (!isJsonObject(payload)) return {};
  const count = (name: string, list: JsonValue | undefined): JsonObject =>
    Array.isArray(list) ? { [name]: list.length } : {};
  return {
    ...picked(payload, ["uuid", "brand", "ram", "vcpus", "quota"]),
    ...count("disks", payload.disks),
    ...count("nics", payload.nics),
  };
}

function propertyNames(changes: JsonValue | undefined): string[] {
  if (!isJsonObject(changes)) return [];
  return Object.keys(changes).filter((name) => PROPERTY.test(name)).slice(0, NAMES_MAX);
}

function requestWords(request: JsonValue | undefined): JsonObject {
  if (!isJsonObject(request)) return {};
  const { url, artifact } = request;
  return {
    ...picked(request, ["path", "digest"]),
    ...(isJsonObject(artifact) ? { artifact: artifactWords(artifact) } : {}),
    ...(typeof url === "string" ? picked({ url: withoutQuery(url) }, ["url"]) : {}),
  };
}

function artifactWords(artifact: JsonValue | undefined): JsonObject {
  return picked(artifact, ["distro", "release", "build", "variant", "arch", "format"]);
}

/**
 * Removes credentials from an address: a signed one has them in its query, others before the host.
 */
function withoutQuery(url: string): string {
  if (!URL.canParse(url)) return "";
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
