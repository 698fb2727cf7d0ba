// All capabilities, as sandbox/run_task.ts calls them for one execution of a task. A call is looked
// up by name, counted, checked against the rules, given a deadline and an entry in the job's
// timeline; its errors are reduced to what a task may read.

import { AgentError, invalidArgument, messageOf } from "../domain/error.ts";
import type { Now } from "../domain/instant.ts";
import { ANY_HOST } from "../domain/job/workflow.ts";
import type { JsonValue } from "../domain/json.ts";
import { nearestOrAll } from "../domain/near_word.ts";
import type { Policy } from "../domain/policy.ts";
import { openTurns, type Turns } from "../host/locks.ts";
import type { Timers } from "../runtime/timers.ts";
import { orAborted } from "../runtime/wait.ts";
import type { Transport } from "../host/transport.ts";
import { type Vmadm, withReadTurns } from "../host/vmadm/vmadm.ts";
import type { Log } from "../metrics/log.ts";
import type { Mirror } from "../mirror/mirror.ts";
import { CALLS_IN_FLIGHT_MAX, type CapabilityName, TASK_NAME_CHARS_MAX } from "../wall/protocol.ts";
import type { Perform, TaskContext, TaskPerform } from "../sandbox/task_calls.ts";
import type { Store } from "../store/store.ts";
import { type CallEnd, openCallRecord } from "./call_record.ts";
import {
  argumentCount,
  type Call,
  CALL_RULES,
  type Capability,
  type CapabilityLimits,
  type Insist,
  openInsist,
  withDeadline,
} from "./capability.ts";
import { imagesCapabilities } from "./images.ts";
import { openFoundMedia } from "./found_media.ts";
import { infoCapabilities, logCapabilities, openNotes, openProgress } from "./info.ts";
import { mediaCapabilities } from "./media.ts";
import { openOwnMachines, type OwnMachines } from "./own_machines.ts";
import { machineUuid, vmadmCapabilities, vncCapabilities } from "./vmadm.ts";

interface CapabilityDeps {
  readonly vmadm: Vmadm;
  readonly transport: Transport;
  readonly mirror: Mirror;
  readonly store: Store;
  readonly policy: Policy;
  /** Absolute folders from which tasks may take media by path. */
  readonly mediaDirs: readonly string[];
  /** Concurrent jobs. */
  readonly slots: number;
  readonly log: Log;
  readonly now: Now;
  readonly limits: CapabilityLimits;
  /** Counts the bytes placed in zones. */
  readonly mediaCounts?: { placed: number } | undefined;
  /** The clock of deadlines; the system's unless given. */
  readonly timers?: Timers;
}

type Table = Readonly<Record<CapabilityName, Capability>>;

/**
 * @returns makes the calls of one execution
 * @see docs/tasks.md
 */
export function openCapabilities(given: CapabilityDeps): (context: TaskContext) => TaskPerform {
  const deps = { ...given, vmadm: withReadTurns(given.vmadm, given.slots) };
  const own = openOwnMachines(deps);
  const table = capabilityTable(deps, own);
  return (context) => performFor(context, { table, own, deps });
}

/** Every capability by name; the compiler checks it against the protocol. */
export function capabilityTable(deps: CapabilityDeps, own = openOwnMachines(deps)): Table {
  const found = openFoundMedia();
  return {
    ...vmadmCapabilities({ ...deps, own }),
    ...mediaCapabilities({ ...deps, found }),
    ...imagesCapabilities(deps.mirror, found),
    ...vncCapabilities(deps.vmadm),
    ...infoCapabilities,
    ...logCapabilities(deps.log, deps.limits.taskLogCharsMax),
  };
}

interface CapabilityContext {
  readonly table: Table;
  readonly own: OwnMachines;
  readonly deps: CapabilityDeps & { readonly limits: CapabilityLimits };
}

function performFor(context: TaskContext, shared: CapabilityContext): TaskPerform {
  const { job_uuid, secrets, signal: over } = context;
  // Every info entry repeats the name, and no rule limits its length.
  const task_name = context.task_name.slice(0, TASK_NAME_CHARS_MAX);
  const { deps } = shared;
  const of = { job_uuid, task_name, attempt: context.attempt };
  const record = openCallRecord(deps, of);
  const note = openNotes(deps, of);
  const gate = openGate(deps.limits.taskCallsMax);
  const changes = openChangeTurns();
  let dropped = 0;
  const drop = () => void (dropped += 1);
  const perform: Perform = async (name, args, signal) => {
    if (!Object.hasOwn(shared.table, name)) {
      throw unknownName(name, Object.keys(shared.table));
    }
    if (context.free === true && OF_HOST.test(name)) throw notOfHost(name);
    if (gate.closed || over.aborted || signal.aborted) throw overAlready(name);
    const progress = openProgress(deps, of);
    const both = AbortSignal.any([over, signal]);
    const insist = openInsist(both, deps.log, { job_uuid, task_name });
    const call = { job_uuid, task_name, secrets, noteNow: note, drop, progress: progress.report };
    const began = performance.now();
    let ended: CallEnd = "ok";
    let leave = () => {};
    try {
      leave = gate.enter(name, args);
      return await inTurn(
        changes,
        name,
        both,
        () => run(shared, { name, args, both, insist }, call),
      );
    } catch (error) {
      const readableError = readable(error, name, deps.log, { job_uuid, task_name });
      ended = readableError.code;
      throw readableError;
    } finally {
      await progress.end();
      await record.add({ name, args, ms: performance.now() - began, ended }, insist);
      leave();
    }
  };
  const close = () => {
    if (gate.closed) return;
    gate.closed = true;
    if (gate.underWay > 0) deps.log.error("calls not ended", { job_uuid, task: task_name });
    record.close(dropped);
  };
  return Object.assign(perform, { close });
}

/** Counts the calls of one execution, and refuses excess and malformed ones. */
function openGate(taskCallsMax: number) {
  let calls = 0;
  let underWay = 0;
  return {
    closed: false,
    /** Calls that a task waits for and that have not ended. */
    get underWay() {
      return underWay;
    },
    /** @returns to be called when the call has ended */
    enter(name: CapabilityName, args: readonly JsonValue[]): () => void {
      const { kind, argsMax } = CALL_RULES[name];
      calls += 1;
      if (calls > taskCallsMax) throw tooMany(name, `the task has made ${taskCallsMax} calls`);
      // Nothing waits for log lines, so any number may be under way.
      const waitedFor = kind !== "note" || name === "info";
      if (waitedFor && underWay >= CALLS_IN_FLIGHT_MAX) {
        throw tooMany(name, `${underWay} calls are under way`);
      }
      const given = argumentCount(args);
      if (given > argsMax) {
        const words = `it takes at most ${argsMax} ${argsMax === 1 ? "argument" : "arguments"}`;
        throw invalidArgument("arguments", `Cannot call ${name}: ${words}, found ${given}`);
      }
      if (!waitedFor) return () => {};
      underWay += 1;
      return () => void (underWay -= 1);
    },
  };
}

/** Waiting for a turn does not count against the call's deadline. */
async function inTurn(
  changes: Turns,
  name: CapabilityName,
  signal: AbortSignal,
  perform: () => Promise<JsonValue>,
): Promise<JsonValue> {
  const changing = CALL_RULES[name].changesMachine || name === "vmadm.create";
  return changing ? await changes.take(`Cannot call ${name}`, signal, perform) : await perform();
}

interface Called {
  readonly name: CapabilityName;
  readonly args: readonly JsonValue[];
  readonly both: AbortSignal;
  readonly insist: Insist;
}

async function run(
  { table, own, deps }: CapabilityContext,
  { name, args, both, insist: repeated }: Called,
  { noteNow, ...more }: Omit<Call, "signal" | "insist" | "note">,
): Promise<JsonValue> {
  const capability = table[name];
  const { leftAlone, changesMachine } = CALL_RULES[name];
  const limited = async (signal: AbortSignal, uncounted: Insist) => {
    const insist: Insist = (call) => uncounted(() => repeated(call));
    const note: Call["note"] = (entry) => noteNow(entry, insist);
    const call: Call = { ...more, signal, insist, note, noteNow };
    if (changesMachine) await own.require(machineUuid(args[0]), call);
    const performed = capability.perform(call, args);
    if (leftAlone) return await orAborted(`Cannot finish ${name}`, performed, signal);
    // Waits for the real end, so that no undo overtakes it.
    return await performed;
  };
  return await withDeadline(name, capability.deadlineMs, both, limited, deps.timers);
}

/** Capabilities that act on a host or read from one; jobs that any host may run get none of them. */
const OF_HOST = /^(?:vmadm|media|images|vnc)\./;

/** A guest may send any text, and finding a near name takes time by its length. */
function unknownName(name: string, known: readonly string[]): AgentError {
  const shown = name.slice(0, TASK_NAME_CHARS_MAX);
  const message = `Cannot call ${JSON.stringify(shown)}${nearestOrAll(shown, known)}`;
  return new AgentError("forbidden", message);
}

function notOfHost(name: string): AgentError {
  const message =
    `Cannot call ${name}: its workflow has placement ${
      JSON.stringify(ANY_HOST)
    }, so that every host may ` +
    "run this job, expected a job of one host";
  return new AgentError("forbidden", message);
}

function overAlready(name: string): AgentError {
  return new AgentError("aborted", `Cannot call ${name}: its task has ended`);
}

function tooMany(name: string, why: string): AgentError {
  return new AgentError("overloaded", `Cannot call ${name}: ${why}, which is the limit`);
}

/** Logs a defect of the agent; the task learns only that there was one. */
function readable(
  error: unknown,
  name: CapabilityName,
  log: Log,
  fields: { job_uuid: string; task_name: string },
): AgentError {
  if (error instanceof AgentError) return error;
  if (error instanceof DOMException && error.name === "AbortError") {
    return new AgentError("aborted", `Cannot finish ${name}: the task was aborted`, {
      cause: error,
    });
  }
  log.error("capability failed", { ...fields, name, error: messageOf(error) });
  return new AgentError("internal", `Cannot perform ${name}: an internal error`, { cause: error });
}

/**
 * Machine changes that one execution may make at the same time; each is a process of vmadm. The limit is per
 * execution: a change may take minutes, and another job's undo must not wait for it.
 */
export const CHANGES_AT_ONCE = 4;

function openChangeTurns(): Turns {
  return openTurns(CHANGES_AT_ONCE);
}
