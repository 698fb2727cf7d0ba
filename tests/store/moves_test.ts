// The states of jobs as conditions on columns: each row is in one state, and SQL agrees about which.

import { assertEquals } from "@std/assert";
import { Database } from "@db/sqlite";
import {
  decide,
  executionOf,
  isAtRest,
  isClaimable,
  isFinal,
  isHeld,
  JOB_STATES,
} from "../../src/domain/job/state.ts";
import { FINISHED, HOLDS_TARGET, IS_UNFINISHED, REMOVABLE } from "../../src/store/sql.ts";
import { T0 } from "../support/job.ts";

function withStates(
  run: (statesWhere: (condition: string) => string[]) => void,
  kept = 0,
): void {
  const db = new Database(":memory:");
  try {
    db.exec(
      `CREATE TABLE jobs (state TEXT, execution TEXT, runner_id TEXT, claimable_at TEXT,
         finished_at TEXT, kept INTEGER)`,
    );
    for (const state of JOB_STATES) {
      const runner = isHeld(state) ? "runner" : null;
      const finished = isFinal(executionOf(state)) ? T0 : null;
      db.prepare("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?)")
        .run(state, executionOf(state), runner, isClaimable(state) ? T0 : null, finished, kept);
    }
    run((condition) =>
      db.prepare(`SELECT state FROM jobs WHERE ${condition} ORDER BY rowid`)
        .all<{ state: string }>().map(({ state }) => state)
    );
  } finally {
    db.close();
  }
}

Deno.test("retention may remove exactly the jobs that the state machine allows, unless they are kept", () => {
  withStates((statesWhere) => {
    const prunable = JOB_STATES.filter((state) =>
      decide({ state, phase: "chain" }, { kind: "prune" }).kind === "move"
    );
    assertEquals(statesWhere(REMOVABLE), prunable);
  });
  withStates((statesWhere) => assertEquals(statesWhere(REMOVABLE), []), 1);
});

Deno.test("a job holds its target and its locks until it is at rest", () => {
  withStates((statesWhere) => {
    assertEquals(statesWhere(HOLDS_TARGET), JOB_STATES.filter((state) => !isAtRest(state)));
  });
});

Deno.test("the lists of executions in SQL are those of the state machine", () => {
  withStates((statesWhere) => {
    const states = (final: boolean) =>
      JOB_STATES.filter((state) => isFinal(executionOf(state)) === final);
    assertEquals(statesWhere(`execution IN ${FINISHED}`), states(true));
    assertEquals(statesWhere(IS_UNFINISHED), states(false));
  });
});
