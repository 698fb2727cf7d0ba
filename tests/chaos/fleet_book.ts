// What a fleet was asked for and has acknowledged, as a model: every such job ends on the host that it is bound to, with
// one result for each of its tasks, and a canceled one stays canceled.

import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import type { AgentProcess } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import type { Random } from "./random.ts";

/** One of so many jobs is canceled once it is acknowledged. */
const CANCEL_EVERY = 4;
/** After which a request to an agent that stands still is sent to another. */
const ANSWER_MS_MAX = 20_000;

/** Tasks that end by themselves, and one that a fault may meet while it runs. */
export const CHAIN = {
  name: "chain",
  chain: [
    { name: "first", body: "(job, cb) => cb(null, job.params.n)" },
    { name: "long", body: "(job, cb) => sleep(200).then(() => cb(null, job.params.n))" },
    { name: "last", body: "(job, cb) => cb(null, job.params.n)" },
  ],
};

/** A host of the fleet. */
export interface FleetHost {
  readonly uuid: string;
  readonly agent: AgentProcess;
  /** How often its agents were killed. */
  readonly kills: number;
  /** What its earlier agents have logged. */
  readonly logged: string;
}

/** The uuid of the host of an agent, once its database has answered. */
export async function hostOf(agent: AgentProcess): Promise<string> {
  const own = await until("the agent to list its host", async () => {
    const { status, body } = await agent.get("/agent/v1/hosts");
    if (status === 503) return undefined;
    return (body.items as JsonObject[]).find(({ this_host }) => this_host);
  });
  return String(own.uuid);
}

/** The jobs of one test. */
export class FleetBook {
  readonly #random: Random;
  readonly #hosts: () => readonly FleetHost[];
  /** The number of each acknowledged job. */
  readonly #acknowledged = new Map<string, number>();
  /** Jobs whose cancel was acknowledged. */
  readonly #canceled = new Set<string>();
  /** Jobs that may have been canceled without an answer, or ended before. */
  readonly #unknown = new Set<string>();
  #next = 1;

  /** @param hosts those whose agents may be asked at present */
  constructor(random: Random, hosts: () => readonly FleetHost[]) {
    this.#random = random;
    this.#hosts = hosts;
  }

  /** How many jobs are acknowledged. */
  get size(): number {
    return this.#acknowledged.size;
  }

  /**
   * Posts jobs of CHAIN, some at the same time, from now on, and cancels some.
   * @returns ends that, once each one that was begun is acknowledged
   */
  postAll(workflow: string, posters: number): () => Promise<void> {
    let posting = true;
    const post = async () => {
      while (posting) await this.#post(workflow, this.#next++);
    };
    const ended = Promise.all(Array.from({ length: posters }, post));
    // Whoever ends it hears of it.
    ended.catch(() => {});
    return async () => {
      posting = false;
      await ended;
    };
  }

  /** Waits until so many more jobs are acknowledged. */
  async more(jobs: number, after: string): Promise<void> {
    const before = this.size;
    await until(`jobs to be acknowledged after: ${after}`, () => this.size >= before + jobs);
  }

  /** Posts a job until it is acknowledged, always with one key. */
  async #post(workflow: string, n: number): Promise<void> {
    const { status, text } = await this.#ask("/jobs", { workflow, n }, `job-${n}`);
    assertEquals(status, 201, text);
    const job = String(JSON.parse(text).uuid);
    this.#acknowledged.set(job, n);
    if (n % CANCEL_EVERY > 0) return;
    const cancel = await this.#ask(`/jobs/${job}/cancel`, {}, `cancel-${n}`);
    // It had ended before, unless a cancel that was not answered stands.
    if (cancel.status === 409) return void (cancel.asked > 1 && this.#unknown.add(job));
    assertEquals(cancel.status, 200, cancel.text);
    this.#canceled.add(job);
  }

  /** Asks any agent, again and again, until one has answered. */
  async #ask(
    path: string,
    body: JsonObject,
    key: string,
  ): Promise<{ readonly status: number; readonly text: string; readonly asked: number }> {
    let asked = 0;
    return await until(`an answer to ${path}`, async () => {
      asked += 1;
      const { agent } = this.#random.pick(this.#hosts());
      const response = await agent.fetch(path, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": key },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(ANSWER_MS_MAX),
      }).catch(() => undefined);
      const text = await response?.text().catch(() => undefined);
      if (response === undefined || text === undefined) return undefined;
      if (response.status !== 503) return { status: response.status, text, asked };
      assert(response.headers.has("retry-after"), text);
      return undefined;
    });
  }

  /**
   * Waits until every job has ended, and compares all with what was acknowledged.
   * @param hosts all, as they are at the end
   * @param sql asks the database
   */
  async check(
    hosts: readonly FleetHost[],
    sql: (text: string) => Promise<string>,
  ): Promise<void> {
    const of = `jobs JOIN workflows w ON w.uuid = workflow_uuid AND w.name = '${CHAIN.name}'`;
    const left = `SELECT count(*) FROM ${of} WHERE finished_at IS NULL`;
    // Each question starts a program.
    await until("the jobs to end", async () => await sql(`SELECT pg_sleep(0.5); ${left}`) === "0");
    const ended = await sql(
      `SELECT json_build_object('job', jobs.uuid, 'host', host, 'execution', execution, 'results',
          (SELECT coalesce(json_agg(entry::json ORDER BY position), '[]') FROM task_results
            WHERE job_id = jobs.id AND task_results.phase = 'chain'))
         FROM ${of}`,
    );
    const rows = ended.split("\n").map((line) => JSON.parse(line) as EndedJob);
    assertEquals(this.size, this.#next - 1, "a key made two jobs, or a job is missing");
    assertEquals(
      rows.map(({ job }) => job).sort(),
      [...this.#acknowledged.keys()].sort(),
      "an acknowledged job is lost, or a refused post has left a job",
    );
    const logs = new Map(hosts.map((host) => [host.uuid, host.logged + host.agent.log()]));
    for (const row of rows) {
      const host = hosts.find(({ uuid }) => uuid === row.host);
      assert(host !== undefined, `job ${row.job} has no host`);
      this.#checkJob(row, host);
      for (const [other, log] of logs) {
        const elsewhere = other !== host.uuid &&
          log.includes(`"job finished","job_uuid":"${row.job}"`);
        assert(!elsewhere, `job ${row.job} of host ${host.uuid} was run by ${other}`);
      }
    }
  }

  #checkJob({ job, execution, results }: EndedJob, host: FleetHost): void {
    const isUnknown = this.#unknown.has(job) && execution === "canceled";
    const isCanceled = isUnknown || this.#canceled.has(job);
    assertEquals(execution, isCanceled ? "canceled" : "succeeded", job);
    const n = this.#acknowledged.get(job);
    const ended = isCanceled ? CHAIN.chain.slice(0, results.length) : CHAIN.chain;
    assertEquals(
      results.map(({ name, result }) => ({ name, result })),
      ended.map(({ name }) => ({ name, result: n })),
    );
    for (const { name, attempts } of results) {
      const most = 1 + host.kills;
      assert(attempts <= most, `task ${name} of job ${job} was run ${attempts} times`);
    }
  }
}

/** A job as the database has it at the end. */
interface EndedJob {
  readonly job: string;
  readonly host: string;
  readonly execution: string;
  readonly results: readonly {
    readonly name: string;
    readonly result: unknown;
    readonly attempts: number;
  }[];
}
