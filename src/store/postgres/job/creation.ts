// Creates jobs: for a caller, for a stored workflow, or in place of another job. One transaction checks for a repeated
// request and creates the job, together with those of all requests that have arrived by then.

import type { JobUuid, WorkflowUuid } from "../../../domain/id.ts";
import type { Job, JobFields, NewJob } from "../../../domain/job/job.ts";
import { decide } from "../../../domain/job/state.ts";
import { type JsonObject, valueWeight } from "../../../domain/json.ts";
import { type JobCreation, standingOf } from "../../sql.ts";
import {
  countedWrite,
  FREE,
  isStale,
  lockOn,
  openLockCheckedWrite,
  type PreparedWrite,
  type StaleLocks,
} from "../../target_locks.ts";
import type {
  CreateJobOutcome,
  JobOrder,
  OrderOutcome,
  OrderRules,
  RetryOutcome,
} from "../../job_store.ts";
import type { Showing, StoredText } from "../../stored_text.ts";
import type { Asking, SharedDatabase, Transaction, WriteKind } from "../connection.ts";
import {
  type AskedWorkflow,
  askWorkflow,
  runnableOf,
  type RunnableWorkflow,
  workflowToRun,
} from "./workflows.ts";
import { recordTask } from "./changes.ts";
import { RecentCount } from "./counts.ts";
import { nameNextAttempt, writtenBefore } from "./jobs.ts";
import {
  earlierJob,
  earlierOf,
  madeOf,
  makeJobs,
  placeJobs,
  type Placing,
  readCheckedLocks,
  selectLocks,
  type UsedKeys,
  usedKeys,
} from "./checked_inserts.ts";
import { lockState } from "./moves.ts";
import type { PlaceHosts } from "./host_queue.ts";
import type { RunWrites } from "./run_writes.ts";
import { type AskedHost, askHosts, byClockOf, hostsOfJobs, jobText, textOfJob } from "./texts.ts";
import type { Lives } from "../statements.ts";

/**
 * Opens the methods of the store that create jobs.
 * @param hosts the uuid of this host, and which jobs it runs
 * @param end records the end of a task without a successor
 * @param handOver called with each ordered job that only this host may run, and without a job when it may have missed
 * one
 */
export function openJobCreation(
  db: SharedDatabase,
  hosts: Pick<PlaceHosts, "own" | "taken">,
  lives: Lives,
  end: RunWrites["end"],
  handOver: (job: Job | undefined) => void,
): JobCreation {
  const lockChecked = openLockCheckedWrite(() => db.read(selectLocks));
  const { creating, created } = countedWrite(lockChecked);
  const orders = ordersOf(hosts);
  return {
    creating,
    recordTask: (named, patient = false) => {
      const record = { ...named, life: lives.get(named.runner_id) };
      const { successor = null } = record;
      if (successor === null) return end(record, patient ? "patient" : "prompt");
      return lockChecked(
        successor,
        Number.MAX_SAFE_INTEGER,
        ({ matches, paramsSha256 }) =>
          db.write(async (tx) => {
            const locks = await readCheckedLocks(tx, [successor]);
            const lock = successor.target === null ? FREE : lockOn(locks, matches, record.job_uuid);
            return lock.kind === "stale"
              ? lock
              : await recordTask(tx, record, { lock, paramsSha256, taken: hosts.taken });
          }),
      );
    },
    create: (job, unfinishedMax) =>
      created(
        job,
        unfinishedMax,
        (ready) => db.write((tx) => createJob(tx, { job, hosts, ready })),
      ),
    order: async (order, rules) => {
      const prepared = { order, rules, hosts, handedOver: true };
      const { made, ...outcome } = await created<Made<OrderOutcome>>(
        order,
        rules.unfinishedMax,
        (ready) => db.writeTogether(orders, { ...prepared, ready }),
      );
      // A created outcome without its job comes from a commit that got no answer: then the job may be this host's.
      if (made === undefined ? outcome.kind === "created" : made.host === hosts.own) handOver(made);
      return outcome;
    },
    retry: (uuid, successor, unfinishedMax) =>
      created(
        successor,
        unfinishedMax,
        (ready) => db.write((tx) => retryJob(tx, uuid, successor, hosts, ready)),
      ),
  };
}

async function createJob(
  tx: Transaction,
  placing: Placing,
): Promise<CreateJobOutcome | StaleLocks> {
  const { job: { idempotency, uuid } } = placing;
  const earlier = idempotency === undefined ? undefined : await earlierJob(tx, idempotency);
  if (earlier !== undefined) return await writtenBefore(tx, uuid) ?? earlier;
  return madeOf(await makeJobs(tx, [placing]), uuid);
}

/** An order with what was prepared for its job. */
interface PreparedOrder extends Omit<Placing, "job"> {
  readonly order: JobOrder;
  readonly rules: OrderRules;
}

/** The job of an order whose workflow was found. */
interface OrderPlacing extends Placing {
  readonly rules: OrderRules;
}

/** An outcome with the job that was created. */
type Made<Outcome> = Outcome & { readonly made?: Job };

/** What is read for all orders together with BEGIN. */
interface AskedOrders {
  readonly used: UsedKeys;
  readonly unfinished: number;
  /** The workflow of the first order: most orders of a commit name the same one. */
  readonly workflow: AskedWorkflow | undefined;
  /** This agent's host, which most of the jobs are for. */
  readonly hosts: readonly AskedHost[];
}

async function askOrders(
  tx: Asking,
  orders: readonly PreparedOrder[],
  own: string,
  recent: RecentCount,
): Promise<AskedOrders> {
  const keys = orders.flatMap(({ order: { idempotency } }) => idempotency?.key ?? []);
  const [first] = orders;
  const [used, unfinished, workflow, hosts] = await Promise.all([
    usedKeys(tx, keys),
    recent.count(tx, orders.length, Math.min(...orders.map(({ rules }) => rules.unfinishedMax))),
    first && askWorkflow(tx, first.order.workflow_uuid, first.rules.workflowBytesMax),
    askHosts(tx, [own]),
  ]);
  return { used, unfinished, workflow, hosts };
}

/** The kind of write for orders, which share their statements. */
function ordersOf(
  { own }: Pick<PlaceHosts, "own">,
): WriteKind<PreparedOrder, Made<OrderOutcome> | StaleLocks, AskedOrders> {
  const recent = new RecentCount();
  return {
    bytesOf: ({ order: { params, requested_params } }) =>
      valueWeight(params) + (requested_params === params ? 0 : valueWeight(requested_params)),
    ask: (tx, orders) => askOrders(tx, orders, own, recent),
    run: async (tx, orders, { used, unfinished, workflow, hosts }) => {
      const outcomes = new Map<JobUuid, Made<OrderOutcome> | StaleLocks>();
      const workflows: RunnableWorkflows = new Map();
      for (const { order: { workflow_uuid: uuid } } of orders.slice(0, 1)) {
        workflows.set(uuid, await runnableOf(tx, uuid, workflow));
      }
      let known: number | undefined = unfinished;
      let accepted: OrderPlacing[] = [];
      for (const { order: { workflow_uuid, ...order }, rules, ...prepared } of orders) {
        const earlier = await earlierOrder(tx, order, rules, used);
        if (earlier !== undefined) {
          outcomes.set(order.uuid, earlier);
          continue;
        }
        const found = workflows.get(workflow_uuid) ??
          await workflowToRun(tx, workflow_uuid, rules.workflowBytesMax);
        workflows.set(workflow_uuid, found);
        const refusal = refusalOf(found, rules);
        if (refusal !== undefined) {
          outcomes.set(order.uuid, await unlessMade(tx, order, rules, refusal));
        } else if (found.kind === "found") {
          accepted.push({ job: { ...order, workflow: found.workflow }, rules, ...prepared });
        }
        if (bytesOfAll(workflows) <= WORKFLOWS_BYTES) continue;
        await placeOrders(tx, accepted, outcomes, hosts, known);
        known = undefined;
        workflows.clear();
        accepted = [];
      }
      await placeOrders(tx, accepted, outcomes, hosts, known);
      return orders.map(({ order: { uuid } }) => madeOf(outcomes, uuid));
    },
  };
}

/** Bytes of workflows in memory at the same time; a single one may be larger. */
const WORKFLOWS_BYTES = 1024 * 1024;

/** The workflows of some orders that are already read. */
type RunnableWorkflows = Map<WorkflowUuid, RunnableWorkflow>;

function bytesOfAll(workflows: RunnableWorkflows): number {
  let bytes = 0;
  for (const one of workflows.values()) if (one.kind === "found") bytes += one.bytes;
  return bytes;
}

/** The answer to a repeated request, whose workflow may have been deleted since. */
async function earlierOrder(
  tx: Transaction,
  { idempotency, uuid }: JobFields,
  { showing }: OrderRules,
  used: UsedKeys,
): Promise<OrderOutcome | undefined> {
  const earlier = idempotency === undefined ? undefined : earlierOf(used, idempotency);
  if (earlier === undefined || earlier.kind === "key_reused") return earlier;
  const kind = earlier.job.uuid === uuid ? "created" : "repeated";
  return { kind, job: earlier.job, text: await shownJob(tx, earlier.job.uuid, showing) };
}

/** Why no job can be created from a workflow; undefined when one can. */
function refusalOf(found: RunnableWorkflow, { needsTasks }: OrderRules): OrderOutcome | undefined {
  if (found.kind === "large") return { kind: "large_workflow", bytes: found.bytes };
  if (found.kind === "missing") return { kind: "no_workflow" };
  return needsTasks && found.workflow.chain.length === 0 ? { kind: "no_tasks" } : undefined;
}

/** Returns the job of a repeated call, which exists even if its workflow was changed or deleted since. */
async function unlessMade(
  tx: Transaction,
  { uuid }: JobFields,
  { showing }: OrderRules,
  refusal: OrderOutcome,
): Promise<OrderOutcome> {
  const text = await jobText(tx, uuid, showing);
  return text === undefined ? refusal : { kind: "created", job: { uuid }, text };
}

/** Creates the jobs of orders. @param outcomes receives the outcome of each */
async function placeOrders(
  tx: Transaction,
  accepted: readonly OrderPlacing[],
  outcomes: Map<JobUuid, Made<OrderOutcome> | StaleLocks>,
  read: readonly AskedHost[],
  known: number | undefined,
): Promise<void> {
  if (accepted.length === 0) return;
  const made = await makeJobs(tx, accepted, known);
  const jobs: Job[] = [];
  for (const [uuid, outcome] of made) {
    if (!isStale(outcome) && outcome.kind === "created") jobs.push(outcome.job);
    else outcomes.set(uuid, outcome);
  }
  const hosts = await hostsOfJobs(tx, jobs, read);
  const showingOf = new Map(accepted.map(({ job: { uuid }, rules }) => [uuid, rules.showing]));
  for (const job of jobs) {
    const { uuid } = job;
    const showing = showingOf.get(uuid);
    if (showing === undefined) continue;
    const text = textOfJob({ job, host: hosts.get(job.host) }, byClockOf(tx, showing));
    outcomes.set(uuid, { kind: "created", job: { uuid }, text, made: job });
  }
}

async function shownJob(tx: Transaction, uuid: JobUuid, showing: Showing): Promise<StoredText> {
  const text = await jobText(tx, uuid, showing);
  if (text === undefined) throw new Error(`Cannot show job ${uuid}: its row is missing`);
  return text;
}

/** Retries a finished job on its host. A job can be retried once; the two jobs refer to each other. */
async function retryJob(
  tx: Transaction,
  uuid: JobUuid,
  successor: NewJob,
  hosts: PlaceHosts,
  ready: PreparedWrite,
): Promise<RetryOutcome | StaleLocks> {
  const row = await lockState(tx, uuid);
  if (row === undefined) return { kind: "not_found" };
  const next = await nextAttemptOf(tx, row.id);
  if (next === successor.uuid) {
    const made = await writtenBefore(tx, successor.uuid);
    if (made !== undefined) return made;
  }
  const decision = decide(standingOf(row), { kind: "retry", retried: next !== undefined });
  if (decision.kind === "denied") {
    if (next === undefined || decision.reason !== "retried") {
      const { execution } = row;
      return { kind: "denied", reason: "unfinished", job: { uuid, execution } };
    }
    return { kind: "denied", reason: "retried", next_attempt: next };
  }
  const placing = { job: successor, hosts: { ...hosts, before: row.queue }, ready };
  const outcome = madeOf(await placeJobs(tx, [placing]), successor.uuid);
  if (!isStale(outcome) && outcome.kind === "created") {
    await nameNextAttempt(tx, row.id, outcome.job.uuid);
  }
  return outcome;
}

/** The uuid of the next attempt, or whatever a task has written into that field. */
async function nextAttemptOf(tx: Transaction, id: number) {
  const row = await tx.row<{ props: string }>("SELECT props FROM jobs WHERE id = $1", id);
  // This store made the text from an object.
  return (JSON.parse(row?.props ?? "{}") as JsonObject).next_attempt;
}
