import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  decide,
  type DenialReason,
  type Execution,
  EXECUTIONS,
  isFinal,
  JOB_EVENTS,
  type JobEvent,
} from "../../src/domain/job/state.ts";

/** Every move that there is; all else is denied. */
const MOVES: Readonly<Record<string, Execution>> = {
  "queued claim": "running",
  "queued cancel": "canceled",
  "running queue": "queued",
  "running rescue": "queued",
  "running wait": "waiting",
  "running succeed": "succeeded",
  "running fail": "failed",
  "running retry": "retried",
  "running cancel": "canceled",
  "waiting resume": "queued",
  "waiting resume_failed": "failed",
  "waiting cancel": "canceled",
};

Deno.test("decide() makes exactly the moves of document 2, in every state for every event", () => {
  for (const execution of EXECUTIONS) {
    for (const event of JOB_EVENTS) {
      const decision = decide(execution, event);
      const to = decision.kind === "move" ? decision.to : undefined;
      assertEquals([execution, event, to], [execution, event, MOVES[`${execution} ${event}`]]);
    }
  }
});

Deno.test("decide() names the reason of each denial", () => {
  const cases: [Execution, JobEvent, DenialReason][] = [
    ["running", "claim", "not_queued"],
    ["waiting", "claim", "not_queued"],
    ["succeeded", "claim", "finalized"],
    ["queued", "succeed", "not_running"],
    ["waiting", "fail", "not_running"],
    ["queued", "rescue", "not_running"],
    ["canceled", "succeed", "finalized"],
    ["queued", "resume", "not_waiting"],
    ["running", "resume_failed", "not_waiting"],
    ["succeeded", "resume", "not_waiting"],
    ["canceled", "resume_failed", "not_waiting"],
    ["failed", "cancel", "finalized"],
    ["canceled", "cancel", "finalized"],
    ["retried", "cancel", "finalized"],
  ];
  for (const [execution, event, reason] of cases) {
    assertEquals(decide(execution, event), { kind: "denied", reason });
  }
});

/** The states that a job goes through when these events happen to it, denied ones left out. */
function path(events: readonly JobEvent[]): Execution[] {
  const states: Execution[] = ["queued"];
  for (const event of events) {
    const decision = decide(states.at(-1) ?? "queued", event);
    if (decision.kind === "move") states.push(decision.to);
  }
  return states;
}

const anyEvents = fc.array(fc.constantFrom(...JOB_EVENTS), { maxLength: 60 });

Deno.test("whatever happens, a job that is final stays as it is", () => {
  fc.assert(fc.property(anyEvents, (events) => {
    const states = path(events);
    assertEquals(states.slice(0, -1).filter(isFinal), []);
  }));
});

Deno.test("whatever has happened, cancel ends an unfinished job", () => {
  fc.assert(fc.property(anyEvents, (events) => {
    const last = path(events).at(-1) ?? "queued";
    const decision = decide(last, "cancel");
    assertEquals(decision.kind === "move", !isFinal(last));
    if (decision.kind === "move") assertEquals(decision.to, "canceled");
  }));
});

Deno.test("every way to running leads through queued, and to waiting through running", () => {
  fc.assert(fc.property(anyEvents, (events) => {
    const states = path(events);
    for (const [index, state] of states.entries()) {
      if (state === "running") assertEquals(states[index - 1], "queued");
      if (state === "waiting") assertEquals(states[index - 1], "running");
    }
  }));
});

Deno.test("every state can be reached", () => {
  const reached = new Set<Execution>(["queued"]);
  for (let round = 0; round < EXECUTIONS.length; round++) {
    for (const state of reached) {
      for (const event of JOB_EVENTS) {
        const decision = decide(state, event);
        if (decision.kind === "move") reached.add(decision.to);
      }
    }
  }
  assert(EXECUTIONS.every((execution) => reached.has(execution)));
});
