// What a runner writes most: claims of jobs that have begun before, and ends of their tasks. One that ends before its
// claim is written is claimed and ended by one change of its row: each costs as much as the other.

import type { JobUuid } from "../../../domain/id.ts";
import type { Job } from "../../../domain/job/job.ts";
import type { Pace } from "../../sqlite/group_commit.ts";
import type { JobStore, RunnerLife, TaskRecord } from "../../job_store.ts";
import type { SharedDatabase, Transaction, WriteKind } from "../connection.ts";
import { isBadData } from "../errors.ts";
import { type ByLife, type ColumnTypes, tableOf, Values } from "../statements.ts";
import { TOGETHER_BYTES } from "../write_groups.ts";
import { bytesOfEnd, type EndedTask, moveAfter, recordTasks } from "./changes.ts";
import { mayClaim } from "./claims.ts";
import { readyWhereNeeded } from "./turns.ts";

/** Ends that wait for others until they are written: with so many no slot waits for them. */
const ENDS_GATHERED = 24;

/** Jobs that a life of the runner has begun, and ends of tasks. */
interface RunnerWrite {
  readonly claim?: BegunJobs;
  /** Of those jobs, or the only one. */
  readonly ends: Map<JobUuid, TaskRecord & ByLife>;
}

interface BegunJobs {
  readonly life: RunnerLife;
  readonly jobs: readonly Job[];
}

/** What a transaction made of them. */
interface WrittenRun {
  /** The jobs whose claims stand. */
  readonly held: readonly JobUuid[];
  /** Whether each end was recorded. */
  readonly ended: ReadonlyMap<JobUuid, boolean>;
}

/** A claim that waits to be written. */
interface UnwrittenClaim {
  readonly write: RunnerWrite;
  readonly written: Promise<WrittenRun>;
}

/** Claims of jobs that have begun, and ends of tasks. */
export interface RunWrites extends Pick<JobStore, "hold"> {
  end(record: TaskRecord & ByLife, pace: Pace): Promise<boolean>;
}

/** Writes the claims and ends of the jobs of a host. */
export function openRunWrites(db: SharedDatabase, host: string): RunWrites {
  const waiting = new Map<JobUuid, UnwrittenClaim>();
  let gathered = 0;
  // No end is added any more.
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

/** Writes a claim, without the ends if the server can never take one of these. */
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

/** Whether a record ends its job, and says all that has happened to it since it began. */
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
 * Claims and ends that share their statements. An end may stand behind other writes: none of them is the runner's
 * about that job, which waits for each.
 * @param writes called with each before it is first written
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

/** All of them, in one part unless lives differ, or a job has two ends: a statement changes a row once. */
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
 * Claims the jobs that readyJobs() returned, except any that has changed since.
 * @param ends of these jobs and of others
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
  // Sent one after the other, without waiting. Jobs that have ended are claimed by their ends.
  const [claimed, ended] = await Promise.all([
    may ? updateHeld(tx, life, jobs.filter(({ uuid }) => !whole.has(uuid))) : [],
    endTasks(tx, ends.filter((one) => may || !isWhole(one))),
  ]);
  const held = new Set(claimed);
  for (const uuid of whole) if (ended.get(uuid) === true) held.add(uuid);
  const others = jobs.filter(({ uuid }) => !held.has(uuid));
  // Those that an earlier call, whose answer was lost, has claimed.
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
    // A later life has the same id, and may have made the same claims.
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
