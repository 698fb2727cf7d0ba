// The most frequent writes of a runner: claims of jobs that it has started already, and ends of their tasks. If a job
// ends before its claim is written, one update of its row does both, at half the cost.

import type { JobUuid } from "../../../domain/id.ts";
import type { Job } from "../../../domain/job/job.ts";
import type { Pace } from "../../limits.ts";
import type { JobStore } from "../../job_store.ts";
import type { RunnerLife, TaskRecord } from "../../run_store.ts";
import type { SharedDatabase, Transaction, WriteKind } from "../connection.ts";
import { isBadData } from "../errors.ts";
import { type ByLife, type ColumnTypes, tableOf, Values } from "../statements.ts";
import { TOGETHER_BYTES } from "../write_groups.ts";
import { bytesOfEnd, type EndedTask, moveAfter, recordTasks } from "./changes.ts";
import { mayClaim } from "./claims.ts";
import { readyWhereNeeded } from "./turns.ts";

/** With this many ends waiting for others, they are written: more slots must not wait for them. */
const ENDS_GATHERED = 24;

/** The claim of jobs that a life of the runner has started, and ends of tasks. */
interface RunnerWrite {
  readonly claim?: BegunJobs;
  /** Ends of tasks of the claimed jobs; without a claim, the end of one task. */
  readonly ends: Map<JobUuid, TaskRecord & ByLife>;
}

interface BegunJobs {
  readonly life: RunnerLife;
  readonly jobs: readonly Job[];
}

/** The result of a transaction. */
interface WrittenRun {
  /** The jobs whose claims hold. */
  readonly held: readonly JobUuid[];
  /** Whether each end was recorded. */
  readonly ended: ReadonlyMap<JobUuid, boolean>;
}

/** A claim that waits to be written. */
interface UnwrittenClaim {
  readonly write: RunnerWrite;
  readonly written: Promise<WrittenRun>;
}

/** The writes that this file opens. */
export interface RunWrites extends Pick<JobStore, "hold"> {
  end(record: TaskRecord & ByLife, pace: Pace): Promise<boolean>;
}

/** Opens the writes of claims and ends for the jobs of a host. */
export function openRunWrites(db: SharedDatabase, host: string): RunWrites {
  const waiting = new Map<JobUuid, UnwrittenClaim>();
  let gathered = 0;
  // From now on no end can be added to this write.
  const leave = (write: RunnerWrite) => {
    for (const { uuid } of write.claim?.jobs ?? []) {
      if (waiting.get(uuid)?.write === write) waiting.delete(uuid);
    }
  };
  const kind = runsOf(host, (write) => {
    leave(write);
    gathered = 0;
  });
  const gather = (pace: Pace) => {
    gathered += 1;
    if (pace === "prompt" || gathered >= ENDS_GATHERED) db.hurry();
  };
  return {
    async hold(life, jobs) {
      const write: RunnerWrite = { claim: { life, jobs }, ends: new Map() };
      const written = writeClaim(db, kind, write).finally(() => leave(write));
      for (const { uuid } of jobs) waiting.set(uuid, { write, written });
      return (await written).held;
    },
    async end(record, pace) {
      const { job_uuid } = record;
      const claim = waiting.get(job_uuid);
      if (claim !== undefined && saysAll(claim.write, record)) {
        claim.write.ends.set(job_uuid, record);
        gather(pace);
        const recorded = (await claim.written).ended.get(job_uuid);
        if (recorded !== undefined) return recorded;
      }
      const written = db.writeTogether(kind, { ends: new Map([[job_uuid, record]]) }, pace);
      gather(pace);
      return (await written).ended.get(job_uuid) === true;
    },
  };
}

/** Writes a claim. If the server can never accept one of the ends, the claim is written without them. */
async function writeClaim(
  db: SharedDatabase,
  kind: WriteKind<RunnerWrite, WrittenRun>,
  write: RunnerWrite,
): Promise<WrittenRun> {
  try {
    return await db.writeTogether(kind, write, "patient");
  } catch (error) {
    if (write.ends.size === 0 || !isBadData(error)) throw error;
    return await db.writeTogether(kind, { ...write, ends: new Map() });
  }
}

/** Whether a record ends its job, and contains everything that happened to the job since it was started. */
function saysAll({ claim, ends }: RunnerWrite, record: TaskRecord & ByLife): boolean {
  const job = claim?.jobs.find(({ uuid }) => uuid === record.job_uuid);
  if (job?.machine_uuid !== null || job.phase !== record.phase || job.lease !== record.lease) {
    return false;
  }
  const { attempts = [], phase, runner_id } = record;
  return runner_id === claim?.life.runner_id && phase !== "oncancel" && attempts.length === 0 &&
    moveAfter(record).ends && bytesOf([...ends.values(), record]) <= TOGETHER_BYTES;
}

function bytesOf(ends: Iterable<TaskRecord>): number {
  return Array.from(ends, bytesOfEnd).reduce((sum, bytes) => sum + bytes, 0);
}

/**
 * The kind of write for claims and ends, which share their statements. Writing a group earlier than some other writes
 * is safe, because a runner awaits each write about a job before it makes the next one.
 * @param writes called with each write before its first run
 */
function runsOf(
  host: string,
  writes: (write: RunnerWrite) => void,
): WriteKind<RunnerWrite, WrittenRun> {
  return {
    first: true,
    bytesOf: ({ ends }) => bytesOf(ends.values()),
    run: async (tx, all) => {
      all.forEach(writes);
      const written: WrittenRun[] = [];
      for (const part of partsOf(all)) written.push(...await writeRuns(tx, host, part));
      return written;
    },
  };
}

/** Splits the writes where one statement cannot change all rows: when lives differ, or a job has two ends. */
function partsOf(all: readonly RunnerWrite[]): readonly (readonly RunnerWrite[])[] {
  const lives = new Set(all.flatMap(({ claim }) => claim?.life.incarnation ?? []));
  const ended = all.flatMap(({ ends }) => [...ends.keys()]);
  const isOne = lives.size <= 1 && new Set(ended).size === ended.length;
  return isOne ? [all] : all.map((one) => [one]);
}

async function writeRuns(
  tx: Transaction,
  host: string,
  all: readonly RunnerWrite[],
): Promise<WrittenRun[]> {
  const jobs = all.flatMap(({ claim }) => claim?.jobs ?? []);
  const began = new Map(jobs.map(({ uuid, started_at }) => [uuid, started_at]));
  const ends = all.flatMap(({ claim, ends }) =>
    Array.from(
      ends.values(),
      (record): EndedTask =>
        claim === undefined ? record : { ...record, began: began.get(record.job_uuid) ?? null },
    )
  );
  const life = all.find(({ claim }) => claim !== undefined)?.claim?.life;
  const { held, ended } = life === undefined
    ? { held: new Set<JobUuid>(), ended: await endTasks(tx, ends) }
    : await holdJobs(tx, host, life, jobs, ends);
  return all.map(({ claim, ends }) => ({
    held: (claim?.jobs ?? []).flatMap(({ uuid }) => held.has(uuid) ? uuid : []),
    ended: new Map([...ended].filter(([uuid]) => ends.has(uuid))),
  }));
}

async function endTasks(tx: Transaction, ends: readonly EndedTask[]) {
  const recorded = await recordTasks(tx, ends);
  return new Map(ends.map(({ job_uuid }, at) => [job_uuid, recorded[at] === true]));
}

/**
 * Claims the jobs that readyJobs() returned, except those that have changed since.
 * @param ends ends of tasks, of these jobs and of others
 */
export async function holdJobs(
  tx: Transaction,
  host: string,
  life: RunnerLife,
  jobs: readonly Job[],
  ends: readonly EndedTask[] = [],
) {
  const may = await mayClaim(tx, life);
  const isWhole = ({ began = null }: EndedTask) => began !== null;
  const whole = new Set(ends.filter(isWhole).map(({ job_uuid }) => job_uuid));
  // Both statements are pipelined. A job that has ended is claimed by the update that ends it.
  const [claimed, ended] = await Promise.all([
    may ? updateHeld(tx, life, jobs.filter(({ uuid }) => !whole.has(uuid))) : [],
    endTasks(tx, ends.filter((one) => may || !isWhole(one))),
  ]);
  const held = new Set(claimed);
  for (const uuid of whole) if (ended.get(uuid) === true) held.add(uuid);
  const others = jobs.filter(({ uuid }) => !held.has(uuid));
  // Adds jobs that an earlier call claimed before its answer was lost.
  for (const uuid of await selectHeld(tx, life, others)) held.add(uuid);
  await readyWhereNeeded(tx, host);
  return { held, ended };
}

const HELD_TYPES: ColumnTypes<
  Pick<Job, "uuid" | "phase" | "lease" | "execution" | "starts" | "started_at" | "elapsed_at">
> = {
  uuid: "text",
  phase: "text",
  lease: "bigint",
  execution: "text",
  starts: "bigint",
  started_at: "text",
  elapsed_at: "text",
};

async function updateHeld(
  tx: Transaction,
  { runner_id }: RunnerLife,
  jobs: readonly Job[],
): Promise<JobUuid[]> {
  if (jobs.length === 0) return [];
  const values = new Values();
  const rows = await tx.rows<{ uuid: JobUuid }>(
    `UPDATE jobs
        SET execution = new.execution, runner_id = ${values.add(runner_id)}, lease = new.lease,
            claimable_at = NULL, turn = NULL, starts = new.starts, started_at = new.started_at,
            elapsed_at = new.elapsed_at
       FROM ${tableOf(HELD_TYPES, jobs, values)}
      WHERE jobs.uuid = new.uuid AND jobs.phase = new.phase AND jobs.lease = new.lease - 1
        AND claimable_at IS NOT NULL
     RETURNING jobs.uuid`,
    ...values.all,
  );
  return rows.map(({ uuid }) => uuid);
}

async function selectHeld(
  tx: Transaction,
  { runner_id, incarnation }: RunnerLife,
  jobs: readonly Job[],
): Promise<JobUuid[]> {
  if (jobs.length === 0) return [];
  const rows = await tx.rows<{ uuid: JobUuid }>(
    // A later life has the same runner id, and may have made claims with the same lease numbers.
    `SELECT uuid FROM jobs JOIN unnest($1::text[], $2::bigint[]) AS new (uuid, lease)
      USING (uuid, lease) WHERE runner_id = $3 AND NOT EXISTS (
        SELECT 1 FROM runners WHERE runners.runner_id = $3 AND incarnation <> $4)`,
    jobs.map(({ uuid }) => uuid),
    jobs.map(({ lease }) => lease),
    runner_id,
    incarnation,
  );
  return rows.map(({ uuid }) => uuid);
}
