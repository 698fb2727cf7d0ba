// All capabilities together, as run_task.ts calls them on behalf of one execution of a task. Here a
// name becomes a capability; a call is counted, held against what is allowed, gets its deadline and
// its place in the job's timeline; and what it throws becomes something that a task may read.

import { AgentError, invalidArgument, messageOf } from "../domain/error.ts";
import type { Now } from "../domain/instant.ts";
import type { JsonValue } from "../domain/json.ts";
import type { Policy } from "../domain/policy.ts";
import { orAborted } from "../host/abort.ts";
import type { Transport } from "../host/transport.ts";
import type { Turns } from "../host/turns.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import type { Log } from "../metrics/log.ts";
import type { Mirror } from "../mirror/mirror.ts";
import {
  CALLS_IN_FLIGHT_MAX,
  type CapabilityName,
  TASK_NAME_CHARS_MAX,
} from "../sandbox/protocol.ts";
import type { Perform } from "../sandbox/run_task.ts";
import type { Store } from "../store/store.ts";
import { argumentCount, CALL_RULES, type CallEnd, openCallRecord } from "./calls.ts";
import {
  type Call,
  type Capability,
  type CapabilityLimits,
  type TaskContext,
  withDeadline,
} from "./capability.ts";
import { imagesCapabilities, openFoundMedia } from "./images.ts";
import { openChangeTurns, withReadTurns } from "./host_turns.ts";
import { infoCapabilities, openNotes, openProgress } from "./info.ts";
import { logCapabilities } from "./log.ts";
import { mediaCapabilities } from "./media.ts";
import { machineUuid, openOwnMachines, type OwnMachines, vmadmCapabilities } from "./vmadm.ts";
import { vncCapabilities } from "./vnc.ts";

/** What the capabilities work with; the same for every task. */
export interface CapabilityDeps {
  readonly vmadm: Vmadm;
  readonly transport: Transport;
  readonly mirror: Mirror;
  readonly store: Store;
  readonly policy: Policy;
  /** Absolute folders from which media may be taken by path. */
  readonly mediaDirs: readonly string[];
  /** Jobs that run at the same time; 1 when not given. */
  readonly slots?: number;
  readonly log: Log;
  readonly now: Now;
  /** Entries that tasks may write into one job's info; without it there is no bound. */
  readonly infoEntriesMax?: number;
  readonly limits: CapabilityLimits;
  /** Deadlines that differ from those of the capabilities. */
  readonly deadlinesMs?: Partial<Readonly<Record<CapabilityName, number>>>;
}

/** What one execution of a task may call. */
export type TaskPerform = Perform & {
  /** The execution is over: nothing more is performed, and its calls are counted in the job's info. */
  readonly close: () => void;
};

type Table = Readonly<Record<CapabilityName, Capability>>;

/**
 * Opens the capabilities.
 * @returns makes what one execution of a task may call
 * @see docs/tasks.md
 */
export function openCapabilities(given: CapabilityDeps): (context: TaskContext) => TaskPerform {
  const deps = { ...given, vmadm: withReadTurns(given.vmadm, given.slots ?? 1) };
  const own = openOwnMachines(deps);
  const table = capabilityTable(deps, own);
  return (context) => performFor(context, { table, own, deps });
}

/** Every capability by its name; the compiler refuses it while one of the protocol is missing. */
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

interface Ground {
  readonly table: Table;
  readonly own: OwnMachines;
  readonly deps: CapabilityDeps & { readonly limits: CapabilityLimits };
}

function performFor(context: TaskContext, ground: Ground): TaskPerform {
  const { job_uuid, signal: over } = context;
  // Every entry of the info carries it, and no rule bounds the name of a task.
  const task_name = context.task_name.slice(0, TASK_NAME_CHARS_MAX);
  const { deps } = ground;
  const record = openCallRecord(deps, job_uuid, task_name);
  const note = openNotes(deps, job_uuid);
  const gate = openGate(deps.limits.taskCallsMax);
  const changes = openChangeTurns();
  let dropped = 0;
  const drop = () => void (dropped += 1);
  const perform: Perform = async (name, args, signal) => {
    if (!Object.hasOwn(ground.table, name)) {
      throw new AgentError("forbidden", `Cannot call ${JSON.stringify(name)}: no such capability`);
    }
    if (gate.closed || over.aborted || signal.aborted) throw overAlready(name);
    const progress = openProgress(deps, job_uuid, task_name);
    const both = AbortSignal.any([over, signal]);
    const call = { job_uuid, task_name, note, drop, progress: progress.tell };
    const began = performance.now();
    let ended: CallEnd = "ok";
    let leave = () => {};
    try {
      leave = gate.enter(name, args);
      return await inTurn(changes, name, both, () => run(ground, name, args, both, call));
    } catch (error) {
      const told = readable(error, name, deps.log, { job_uuid, task_name });
      ended = told.code;
      throw told;
    } finally {
      await progress.end();
      await record.add({ name, args, ms: performance.now() - began, ended });
      leave();
    }
  };
  const close = () => {
    if (gate.closed) return;
    gate.closed = true;
    record.close(dropped);
  };
  return Object.assign(perform, { close });
}

/** Counts the calls of one execution, and refuses those that are too many or have a wrong form. */
function openGate(taskCallsMax: number) {
  let calls = 0;
  let underWay = 0;
  return {
    closed: false,
    /** @returns what is called when the call has ended */
    enter(name: CapabilityName, args: readonly JsonValue[]): () => void {
      const { kind, argsMax } = CALL_RULES[name];
      calls += 1;
      if (calls > taskCallsMax) throw tooMany(name, `the task has made ${taskCallsMax} calls`);
      // Nobody waits for log lines, so any number of them may be on their way.
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

/** The time until its turn is no part of the time that a call may take. */
async function inTurn(
  changes: Turns,
  name: CapabilityName,
  signal: AbortSignal,
  perform: () => Promise<JsonValue>,
): Promise<JsonValue> {
  const changing = CALL_RULES[name].changesMachine || name === "vmadm.create";
  return changing ? await changes.take(`Cannot call ${name}`, signal, perform) : await perform();
}

async function run(
  { table, own, deps }: Ground,
  name: CapabilityName,
  args: readonly JsonValue[],
  both: AbortSignal,
  call: Omit<Call, "signal">,
): Promise<JsonValue> {
  const capability = table[name];
  const { leftAlone, changesMachine } = CALL_RULES[name];
  const deadlineMs = deps.deadlinesMs?.[name] ?? capability.deadlineMs;
  return await withDeadline(name, deadlineMs, both, async (signal) => {
    if (changesMachine) await own.require(machineUuid(args[0]), call.job_uuid, signal);
    const performed = capability.perform({ ...call, signal }, args);
    if (leftAlone) return await orAborted(`Cannot finish ${name}`, performed, signal);
    // Waited for until it has really ended, so that no undoing overtakes it.
    return await performed;
  });
}

function overAlready(name: string): AgentError {
  return new AgentError("aborted", `Cannot call ${name}: its task has ended`);
}

function tooMany(name: string, why: string): AgentError {
  return new AgentError("overloaded", `Cannot call ${name}: ${why}, more are not allowed`);
}

/** A defect of the agent is logged here; a task learns only that there was one. */
function readable(
  error: unknown,
  name: CapabilityName,
  log: Log,
  fields: { job_uuid: string; task_name: string },
): AgentError {
  if (error instanceof AgentError) return error;
  if (error instanceof DOMException && error.name === "AbortError") {
    return new AgentError("aborted", `Cannot finish ${name}: given up`, { cause: error });
  }
  log.error("capability failed", { ...fields, name, error: messageOf(error) });
  return new AgentError("internal", `Cannot perform ${name}: internal error`, { cause: error });
}
