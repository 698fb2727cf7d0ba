// The states of jobs as conditions on columns: each row is in one state, and SQL agrees about which.

import { assertEquals } from "@std/assert";
import { Database } from "@db/sqlite";
import {
  executionOf,
  EXECUTIONS,
  isAtRest,
  isClaimable,
  isFinal,
  isHeld,
  JOB_STATES,
} from "../../src/domain/job/state.ts";
import { conditionOf, FINISHED, UNFINISHED } from "../../src/store/sqlite/job/moves.ts";
import { HOLDS_TARGET } from "../../src/store/sqlite/schema.ts";
import { T0 } from "../support/job.ts";

function withStates(run: (statesWhere: (condition: string) => string[]) => void): void {
  const db = new Database(":memory:");
  try {
    db.exec("CREATE TABLE jobs (state TEXT, execution TEXT, runner_id TEXT, claimable_at TEXT)");
    for (const state of JOB_STATES) {
      const runner = isHeld(state) ? "runner" : null;
      db.prepare("INSERT INTO jobs VALUES (?, ?, ?, ?)")
        .run(state, executionOf(state), runner, isClaimable(state) ? T0 : null);
    }
    run((condition) =>
      db.prepare(`SELECT state FROM jobs WHERE ${condition} ORDER BY rowid`)
        .all<{ state: string }>().map(({ state }) => state)
    );
  } finally {
    db.close();
  }
}

Deno.test("conditionOf() holds for the jobs of its states and for no others", () => {
  withStates((statesWhere) => {
    for (const state of JOB_STATES) assertEquals(statesWhere(conditionOf([state])), [state]);
    assertEquals(statesWhere(conditionOf(JOB_STATES)), [...JOB_STATES]);
  });
});

Deno.test("a job holds its target and its locks until it is at rest", () => {
  withStates((statesWhere) => {
    assertEquals(statesWhere(HOLDS_TARGET), JOB_STATES.filter((state) => !isAtRest(state)));
  });
});

Deno.test("the lists of executions in SQL are those of the state machine", () => {
  withStates((statesWhere) => {
    const shown = (list: string) => new Set(statesWhere(`execution IN ${list}`).map(String));
    const states = (final: boolean) =>
      new Set<string>(JOB_STATES.filter((state) => isFinal(executionOf(state)) === final));
    assertEquals([shown(FINISHED), shown(UNFINISHED)], [states(true), states(false)]);
    assertEquals(
      EXECUTIONS.every((word) => `${FINISHED}${UNFINISHED}`.includes(`'${word}'`)),
      true,
    );
  });
});
