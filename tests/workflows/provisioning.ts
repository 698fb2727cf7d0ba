// Runs jobs of the built-in workflow as the agent does: real guests, real capabilities, a simulated
// host, and the job's rows in a real store. A test may step in before and after every task.

import { assertEquals } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import type { CapabilityName } from "../../src/wall/protocol.ts";
import {
  type JobUuid,
  type MachineUuid,
  randomUuid,
  type RunnerId,
  type WorkflowUuid,
} from "../../src/domain/id.ts";
import { type Now, systemNow } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import type { Task, Workflow } from "../../src/domain/job/workflow.ts";
import { openGuestOwners } from "../../src/sandbox/process.ts";
import { parseWorkflow, sourceChecksHere } from "../support/parsed_workflow.ts";
import { type GuestPool, openPool } from "../../src/sandbox/pool.ts";
import type { TaskOutcome } from "../../src/sandbox/run_task.ts";
import type { SelfCommand } from "../../src/runtime/executable.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import { type SubcommandMs, withDeadlines } from "../support/deadlines.ts";
import { runJob } from "../../src/runner/run_job.ts";
import type { RunningJob } from "../../src/runner/running_job.ts";
import type { Perform } from "../../src/sandbox/task_calls.ts";
import { openCapabilities } from "../../src/capabilities/capabilities.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { PROVISION_MACHINE } from "../../src/machines/workflows/provision_machine.ts";
import { notesOf, type SimulatedHost, withHost } from "../capabilities/simulated_host.ts";
import { claimJobs } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** What may come over a task. */
export type Mishap = "dies" | "fails";

/** What a failure that a test makes says. */
export const MADE_FAILURE = "a failure that the test made";

/** What a test does around tasks. */
export interface Steps {
  /** Before an execution of a body of this task begins. */
  before?(task: string, times: number): Promise<void> | void;
  /** Instead of running the body of a task: the agent dies, or the task fails. */
  insteadOf?(task: string, times: number): Mishap | undefined;
  /** Instead of recording the end of a task, whose body has run: the agent dies. */
  diesAfter?(task: string, times: number): boolean;
  /** Instead of recording a success: the task fails, though its body has run. */
  failsAfter?(task: string, times: number): boolean;
  /** Before a capability is performed. */
  calling?(name: CapabilityName, running: RunningJob): Promise<void> | void;
}

export interface Provisioning {
  readonly host: SimulatedHost;
  readonly workflow: Workflow;
  /** Runs a job of a body of POST /workflows; a job that waits is resumed at once. */
  runWorkflow(body: JsonObject, params: JsonObject): Promise<Job>;
  /** Makes a job and runs it to its end, as often as the agent has to be started for that. */
  provision(params: JsonObject, steps?: Steps): Promise<Job>;
}

const LIMITS = {
  tasksMax: 100,
  sourceCharsMax: 65_536,
  retryMax: 100,
  timeoutSecondsMax: 7 * 86_400,
};
/** Starts of the agent in one test. */
const STARTS_MAX = 10;

/** How long tasks wait for a machine to appear whose create may be under way. */
const APPEAR = /APPEAR_SECONDS = [0-9]+/;

/**
 * The workflow as the agent keeps it.
 * @param appearSeconds that wait, for tests that know that nothing will appear
 */
export function provisionWorkflow(appearSeconds?: number): Workflow {
  const { uuid, definition } = PROVISION_MACHINE;
  const workflow = parseWorkflow(definition, uuid, randomUuid, LIMITS);
  // Pauses between tries are for hosts that are busy.
  const sooner = (task: Task): Task => {
    if (appearSeconds === undefined) return task;
    return { ...task, body: task.body.replace(APPEAR, `APPEAR_SECONDS = ${appearSeconds}`) };
  };
  const hasty = workflow.onerror.map((task) => ({ ...sooner(task), retry_delay: 0 }));
  return { ...workflow, chain: workflow.chain.map(sooner), onerror: hasty, oncancel: hasty };
}

/** What differs from an agent's. */
export interface ProvisioningOptions {
  readonly upstream?: string;
  readonly vmadmDeadlinesMs?: SubcommandMs;
  readonly appearSeconds?: number;
  readonly self?: SelfCommand;
  /** The clock of the store; that of the system unless given. */
  readonly storeNow?: Now;
  /** Guests that are there already; else one is started, and ended. */
  readonly pool?: GuestPool;
}

export async function withProvisioning(
  run: (provisioning: Provisioning) => Promise<void>,
  options: ProvisioningOptions = {},
): Promise<void> {
  await withHost(async (host) => {
    const { self, folder, log } = host;
    const pool = options.pool ??
      await openPool({
        limits: DEFAULT_LIMITS,
        self,
        slots: 1,
        runtimeDir: folder,
        log,
        checkSource: sourceChecksHere().runnable,
      });
    try {
      const workflow = provisionWorkflow(options.appearSeconds);
      const deadlinesMs = options.vmadmDeadlinesMs ?? {};
      const provision = (params: JsonObject, steps: Steps = {}) =>
        provisionOnce({ host, pool, workflow, deadlinesMs }, params, steps);
      const runWorkflow = (body: JsonObject, params: JsonObject) => {
        const other = parseWorkflow(body, randomUuid<WorkflowUuid>(), randomUuid, LIMITS);
        return provisionOnce({ host, pool, workflow: other, deadlinesMs }, params, {});
      };
      await run({ host, workflow, provision, runWorkflow });
    } finally {
      if (options.pool === undefined) await pool.close();
    }
  }, options);
}

interface Ground {
  readonly host: SimulatedHost;
  readonly pool: GuestPool;
  readonly workflow: Workflow;
  readonly deadlinesMs: SubcommandMs;
}

async function provisionOnce(ground: Ground, params: JsonObject, steps: Steps): Promise<Job> {
  const { store } = ground.host;
  const uuid = randomUuid<JobUuid>();
  const { workflow } = ground;
  await store.jobs.create({
    uuid,
    workflow,
    params,
    target: null,
  }, NO_LIMIT);
  const times = new Map<string, number>();
  for (let start = 1; start <= STARTS_MAX; start += 1) {
    await runClaimed(ground, steps, times);
    const job = await store.jobs.get(uuid);
    if (job === undefined) throw new Error("The job is gone");
    if (job.finished_at !== null && job.runner_id === null) return job;
    if (job.execution === "waiting") {
      await store.jobs.resume(uuid, { kind: "result", result: "OK" });
    }
  }
  throw new Error(`The job is not finished after ${STARTS_MAX} starts of the agent`);
}

/** One life of the agent: it claims the job and runs it until it is done or the agent dies. */
async function runClaimed(
  { host, pool, deadlinesMs }: Ground,
  steps: Steps,
  times: Map<string, number>,
): Promise<void> {
  const { store, log } = host;
  const runner_id = randomUuid<RunnerId>();
  const [job] = await claimJobs(store, runner_id, 1);
  if (job === undefined) throw new Error("There is no job to claim");
  // What the capabilities remember is lost with the agent.
  const performFor = openCapabilities({
    ...host,
    vmadm: openVmadm(withDeadlines(host.transport, deadlinesMs)),
    policy: DEFAULT_POLICY,
    mediaDirs: [host.mediaDir],
    slots: 1,
    limits: DEFAULT_LIMITS,
    now: systemNow,
  });
  const madeFailure: TaskOutcome = {
    kind: "failure",
    error: { name: "Error", message: MADE_FAILURE },
    job: null,
  };
  const die = (): TaskOutcome => {
    running.stop("shutdown");
    return { kind: "aborted" };
  };
  const running: RunningJob = runJob(job, {
    store,
    runner_id,
    ownerOf: openGuestOwners(),
    budget: openMemoryBudget(),
    performFor: (context) => {
      const perform = performFor(context);
      const watched: Perform = async (capability, args, over) => {
        await steps.calling?.(capability, running);
        return await perform(capability, args, over);
      };
      return Object.assign(watched, { close: perform.close });
    },
    guests: {
      run: async (run, perform, signal) => {
        const name = run.taskName;
        times.set(name, (times.get(name) ?? 0) + 1);
        const count = times.get(name) ?? 0;
        await steps.before?.(name, count);
        const mishap = steps.insteadOf?.(name, count);
        if (mishap === "fails") return madeFailure;
        if (mishap === "dies") return die();
        const outcome = await pool.run(run, perform, signal);
        if (steps.failsAfter?.(name, count)) return madeFailure;
        return steps.diesAfter?.(name, count) ? die() : outcome;
      },
    },
    mayAct: () => Promise.resolve(),
    now: systemNow,
    monotonicMs: () => performance.now(),
    newUuid: randomUuid,
    backlog: () => false,
    retryCountsFirst: false,
    leaving: () => {},
    notStarted: () => {},
    log,
  });
  await running.done;
}

/** The params of a machine that boots from the ISO of the host. */
export function paramsFor(
  host: SimulatedHost,
  uuid: MachineUuid,
  machine: JsonObject = {},
): JsonObject {
  return {
    uuid,
    machine: {
      brand: "kvm",
      ram: 512,
      vcpus: 1,
      autoboot: false,
      disks: [{ boot: true, model: "virtio", size: 1024 }],
      nics: [{ nic_tag: "admin", model: "virtio", ip: "dhcp", primary: true }],
      ...machine,
    },
    media: { path: host.iso },
    boot: "cd",
  };
}

/** The sentences for people in the info of a job, with their tasks. */
export async function messagesOf(host: SimulatedHost, job: Job): Promise<string[]> {
  const notes = await notesOf(host.store, job.uuid);
  return notes.map(({ task, message }) => `${task}: ${message}`);
}

/** Fails unless the console at the job's address speaks RFB. */
export async function assertConsole(job: Job): Promise<void> {
  const { host, port } = job.props.vnc as { host: string; port: number };
  using connection = await Deno.connect({ hostname: host, port });
  const banner = new Uint8Array(12);
  await connection.read(banner);
  assertEquals(new TextDecoder().decode(banner).slice(0, 8), "RFB 003.");
}
