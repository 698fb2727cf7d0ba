// The statements of an attempt: none for a job whose tasks succeed, and as many for the thousandth
// failure as for the second.

import { assert, assertEquals } from "@std/assert";
import { Connection, IN_MEMORY } from "../../src/store/sqlite/connection.ts";
import { recordAttempt } from "../../src/store/sqlite/job/log.ts";
import { claimJobs } from "../../src/store/sqlite/job/claims.ts";
import { insertJob } from "../../src/store/sqlite/job/jobs.ts";
import { recordTask } from "../../src/store/sqlite/job/changes.ts";
import { randomUuid } from "../../src/domain/id.ts";
import type { Job } from "../../src/domain/job/job.ts";
import { jobOf, RUNNER, T0 } from "../support/job.ts";
import { holdOf, recordOf } from "./store_case.ts";

/** A connection that notes its statements. */
class NotingConnection extends Connection {
  readonly ran: string[] = [];
  override row<T extends object>(sql: string, ...params: never[]): T | undefined {
    this.ran.push(sql);
    return super.row<T>(sql, ...params);
  }
  override rows<T extends object>(sql: string, ...params: never[]): T[] {
    this.ran.push(sql);
    return super.rows<T>(sql, ...params);
  }
  override run(sql: string, ...params: never[]): number {
    this.ran.push(sql);
    return super.run(sql, ...params);
  }
}

async function withClaimed(run: (db: NotingConnection, job: Job) => void): Promise<void> {
  const db = new NotingConnection(IN_MEMORY);
  try {
    await db.write("test", () => {
      insertJob(db, jobOf(1), null, T0);
      db.ran.length = 0;
      const [job] = claimJobs(db, { runner_id: RUNNER, incarnation: randomUuid() }, 1, T0).jobs;
      assert(job !== undefined);
      db.events.write();
      run(db, job);
    });
  } finally {
    await db.close();
  }
}

Deno.test("a job whose tasks succeed runs no statement about attempts", () =>
  withClaimed((db, job) => {
    assert(recordTask(db, recordOf(job, { kind: "succeed" }), T0));
    assert(db.ran.length > 0);
    assertEquals(db.ran.filter((sql) => sql.includes("job_log")), []);
  }));

Deno.test("each failed attempt takes the same statements, however many were before", () =>
  withClaimed((db, job) => {
    const counts = new Set<number>();
    for (let number = 1; number <= 200; number++) {
      db.ran.length = 0;
      const attempt = {
        task: "first",
        index: 0,
        attempt: number,
        fallback: false,
        error: "no",
        started_at: T0,
        finished_at: T0,
        wait_seconds: 0,
      };
      const { params, props } = job;
      const rest = { params, props, failures: number - 1, elapsed_ms: 0 };
      assert(recordAttempt(db, { ...holdOf(job), attempt, ...rest }, T0));
      counts.add(db.ran.length);
    }
    assertEquals(counts.size, 1);
    const kept = db.row<{ lines: number }>("SELECT count(*) AS lines FROM job_log");
    assertEquals(kept?.lines, 25);
  }));
