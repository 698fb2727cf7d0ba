import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { AgentError } from "../../src/domain/error.ts";
import {
  CREATED,
  decide,
  denialOf,
  executionOf,
  EXECUTIONS,
  heldIn,
  isAtRest,
  isCancelable,
  isClaimable,
  isFinal,
  isHeld,
  isRetryable,
  JOB_STATES,
  type JobEvent,
  type JobState,
  type Move,
  moveOf,
  type Phase,
  PHASES,
  type Standing,
  startsAfter,
  stateOf,
  UNFINISHED,
} from "../../src/domain/job/state.ts";

/** Every event with every fact that makes a difference. */
const EVENTS = {
  claim: { kind: "claim" },
  continue: { kind: "continue" },
  succeed: { kind: "succeed" },
  fail: { kind: "fail", onerror: false },
  "fail, onerror": { kind: "fail", onerror: true },
  cb_queue: { kind: "cb_queue" },
  cb_wait: { kind: "cb_wait" },
  cb_retry: { kind: "cb_retry" },
  cb_cancel: { kind: "cb_cancel", oncancel: false },
  "cb_cancel, oncancel": { kind: "cb_cancel", oncancel: true },
  release: { kind: "release" },
  abandon: { kind: "abandon" },
  rescue: { kind: "rescue", lapsed: true, attempting: true },
  "rescue, between attempts": { kind: "rescue", lapsed: true, attempting: false },
  "rescue, lease": { kind: "rescue", lapsed: false, attempting: true },
  host_lost: { kind: "host_lost" },
  cancel: { kind: "cancel", oncancel: false, begun: true, elsewhere: false },
  "cancel, elsewhere": { kind: "cancel", oncancel: false, begun: true, elsewhere: true },
  "cancel, oncancel": { kind: "cancel", oncancel: true, begun: true, elsewhere: true },
  "cancel, not begun": { kind: "cancel", oncancel: true, begun: false, elsewhere: false },
  resume: { kind: "resume" },
  resume_failed: { kind: "resume_failed" },
  retry: { kind: "retry", retried: false },
  "retry, retried": { kind: "retry", retried: true },
  prune: { kind: "prune" },
} as const satisfies Record<string, JobEvent>;
type EventName = keyof typeof EVENTS;

/** What stands for each decision: the state that a job goes to, a minus and the reason, a plus when it was made. */
const TABLE: Readonly<Record<EventName, string>> = {
  // queued running waiting | succeeded failed canceled retried | stopping undo_queued undoing
  claim: "running -not_queued -not_queued  @finalized  -not_queued undoing -not_queued",
  continue: "-not_running running -not_running  @finalized  -not_running -not_running undoing",
  succeed: "-not_running succeeded -not_running  @finalized  -not_running -not_running canceled",
  fail: "-not_running failed -not_running  @finalized  -not_running -not_running canceled",
  "fail, onerror":
    "-not_running running -not_running  @finalized  -not_running -not_running canceled",
  cb_queue: "-not_running queued -not_running  @finalized  -not_running -not_running canceled",
  cb_wait: "-not_running waiting -not_running  @finalized  -not_running -not_running canceled",
  cb_retry: "-not_running retried -not_running  @finalized  -not_running -not_running canceled",
  cb_cancel: "-not_running canceled -not_running  @finalized  -not_running -not_running canceled",
  "cb_cancel, oncancel":
    "-not_running undoing -not_running  @finalized  -not_running -not_running canceled",
  release: "-not_running queued -not_running  @finalized  canceled -not_running undo_queued",
  abandon: "-not_running queued -not_running  @finalized  canceled -not_running undo_queued",
  rescue: "-not_running queued -not_running  @finalized  canceled -not_running undo_queued",
  "rescue, between attempts":
    "-not_running queued -not_running  @finalized  canceled -not_running undo_queued",
  "rescue, lease":
    "-not_running -lease_holds -not_running  @finalized  -lease_holds -not_running -lease_holds",
  host_lost: "failed failed failed  @finalized  canceled canceled canceled",
  cancel: "canceled canceled canceled  -finalized -finalized + -finalized  + + +",
  "cancel, elsewhere": "canceled stopping canceled  -finalized -finalized + -finalized  + + +",
  "cancel, oncancel": "undo_queued undoing undo_queued  -finalized -finalized + -finalized  + + +",
  "cancel, not begun": "canceled canceled canceled  -finalized -finalized + -finalized  + + +",
  resume: "-not_waiting -not_waiting queued  @not_waiting  -not_waiting -not_waiting -not_waiting",
  resume_failed:
    "-not_waiting -not_waiting failed  @not_waiting  -not_waiting -not_waiting -not_waiting",
  retry: "-unfinished -unfinished -unfinished  =  -unfinished -unfinished -unfinished",
  "retry, retried":
    "-unfinished -unfinished -unfinished  @retried  -unfinished -unfinished -unfinished",
  prune: "-unfinished -unfinished -unfinished  =  -unfinished -unfinished -unfinished",
};
const AT_REST: readonly JobState[] = ["succeeded", "failed", "canceled", "retried"];

/** The decisions of a row of the table, by state. */
function expected(row: string): Map<JobState, string> {
  const words = row.split(/\s+/).flatMap((word): readonly string[] => {
    if (word === "=") return AT_REST;
    return word.startsWith("@") ? AT_REST.map(() => `-${word.slice(1)}`) : [word];
  });
  assertEquals(words.length, JOB_STATES.length, row);
  return new Map(JOB_STATES.map((state, index) => [state, words[index] ?? ""]));
}

function standing(state: JobState): Standing {
  return { state, phase: state.startsWith("undo") ? "oncancel" : "chain" };
}

function wordOf(at: Standing, event: JobEvent): string {
  const decision = decide(at, event);
  if (decision.kind === "made") return "+";
  return decision.kind === "move" ? decision.to : `-${decision.reason}`;
}

for (const [name, event] of Object.entries(EVENTS)) {
  const row = expected(TABLE[name as EventName]);
  Deno.test(`decide() answers "${name}" in every state: with a move, a named denial, or as already made`, () => {
    const found = new Map(JOB_STATES.map((state) => [state, wordOf(standing(state), event)]));
    assertEquals(found, row);
  });
}

Deno.test("denialOf() agrees with decide() in every phase", () => {
  for (const [name, event] of Object.entries(EVENTS)) {
    const row = expected(TABLE[name as EventName]);
    for (const state of JOB_STATES) {
      const word = row.get(state) ?? "";
      assertEquals(denialOf(state, event), word.startsWith("-") ? word.slice(1) : undefined);
      for (const phase of PHASES) {
        assertEquals(wordOf({ state, phase }, event).startsWith("-"), word.startsWith("-"), name);
      }
    }
  }
});

Deno.test("the onerror chain ends a job as failed, even if the chain itself succeeds", () => {
  const at = heldIn("onerror");
  for (const name of ["succeed", "fail", "fail, onerror"] as const) {
    assertEquals(wordOf(at, EVENTS[name]), "failed");
  }
  for (const name of ["continue", "cb_queue", "cb_wait", "cb_retry"] as const) {
    assertEquals(wordOf(at, EVENTS[name]), expected(TABLE[name]).get("running"));
  }
});

Deno.test("a move names the phase that follows: onerror after a failure, oncancel after a cancel", () => {
  const phaseAfter = (at: Standing, name: EventName) => moveOf(at, EVENTS[name]).phase;
  assertEquals(phaseAfter(heldIn("chain"), "fail, onerror"), "onerror");
  for (const phase of ["chain", "onerror"] as const) {
    assertEquals(phaseAfter(heldIn(phase), "cb_cancel, oncancel"), "oncancel");
    assertEquals(phaseAfter({ state: "waiting", phase }, "cancel, oncancel"), "oncancel");
    for (const name of ["continue", "fail", "cb_queue", "cb_cancel", "release"] as const) {
      assertEquals(phaseAfter(heldIn(phase), name), phase, name);
    }
  }
});

Deno.test("a move counts the starts of the task that follows", () => {
  const starts = (at: Standing, name: EventName, before: number) =>
    startsAfter(moveOf(at, EVENTS[name]), before);
  assertEquals(starts(CREATED, "claim", 2), 3);
  const cases: [EventName, number][] = [
    ["continue", 1],
    ["fail, onerror", 1],
    ["cb_cancel, oncancel", 1],
    ["cancel, oncancel", 1],
    ["release", 1],
    ["abandon", 2],
    ["rescue", 2],
    ["rescue, between attempts", 1],
    ["succeed", 0],
    ["cb_queue", 0],
    ["cb_wait", 0],
  ];
  for (const [name, after] of cases) assertEquals(starts(heldIn("chain"), name, 2), after, name);
  assertEquals(starts(heldIn("chain"), "release", 0), 0);
  const waiting: Standing = { state: "waiting", phase: "chain" };
  assertEquals([starts(waiting, "resume", 0), starts(waiting, "cancel, oncancel", 0)], [0, 0]);
});

/** The moves that are made when these events happen to a job, denied ones left out. */
function movesOf(names: readonly EventName[]): { at: Standing; move: Move }[] {
  let at = CREATED;
  return names.flatMap((name) => {
    const decision = decide(at, EVENTS[name]);
    if (decision.kind !== "move") return [];
    const made = { at, move: decision };
    at = { state: decision.to, phase: decision.phase };
    return [made];
  });
}

const anyEvents = fc.array(fc.constantFrom(...Object.keys(EVENTS) as EventName[]), {
  maxLength: 60,
});

Deno.test("after any sequence of events, a job ends once, and then keeps its execution", () => {
  fc.assert(fc.property(anyEvents, (names) => {
    const moves = movesOf(names);
    assert(moves.filter(({ move }) => move.ends).length <= 1);
    for (const { at, move } of moves) {
      const before = executionOf(at.state);
      if (isFinal(before)) assertEquals(executionOf(move.to), before);
      assertEquals(move.ends, isFinal(executionOf(move.to)) && !isFinal(before));
    }
  }));
});

Deno.test("after any sequence of events, a job runs its oncancel chain exactly when it is in that phase", () => {
  fc.assert(fc.property(anyEvents, (names) => {
    for (const { move: { to, phase } } of movesOf(names)) {
      const undoes = isFinal(executionOf(to)) && !isAtRest(to);
      if (to === "stopping") assert(phase !== "oncancel");
      else if (undoes) assertEquals(phase, "oncancel");
      if (!isFinal(executionOf(to))) assert(phase !== "oncancel");
    }
  }));
});

Deno.test("a job is held only after a claim, and waits only after it was held", () => {
  fc.assert(fc.property(anyEvents, (names) => {
    for (const { at, move } of movesOf(names)) {
      if (isHeld(move.to)) assert(isClaimable(at.state) || isHeld(at.state));
      if (move.to === "waiting") assert(isHeld(at.state));
    }
  }));
});

Deno.test("every state can be reached", () => {
  const reached = new Map<string, Standing>([["queued", CREATED]]);
  for (const at of reached.values()) {
    for (const event of Object.values(EVENTS)) {
      const decision = decide(at, event);
      if (decision.kind === "move") {
        reached.set(`${decision.to} ${decision.phase}`, {
          state: decision.to,
          phase: decision.phase,
        });
      }
    }
  }
  const states = new Set([...reached.values()].map(({ state }) => state));
  assertEquals([...states].sort(), [...JOB_STATES].sort());
});

Deno.test("a state is known from the stored columns of a job, and shown as its execution", () => {
  for (const state of JOB_STATES) {
    const kept = {
      execution: executionOf(state),
      phase: standing(state).phase,
      runner_id: isHeld(state) ? "runner" : null,
      claimable_at: isClaimable(state) ? "2026-01-01T00:00:00.000Z" : null,
    };
    assertEquals(stateOf(kept), state);
    assertEquals(isAtRest(state), AT_REST.includes(state));
  }
  assertEquals(new Set(JOB_STATES.map(executionOf)), new Set(EXECUTIONS));
  const phases: Phase[] = ["chain", "onerror", "oncancel"];
  assertEquals(phases.map((phase) => heldIn(phase).state), ["running", "running", "undoing"]);
});

Deno.test("a job can be canceled until it ends, and retried once it is at rest", () => {
  assertEquals(JOB_STATES.filter(isCancelable), [...UNFINISHED]);
  assertEquals(JOB_STATES.filter((state) => isRetryable(state, false)), [...AT_REST]);
  assertEquals(JOB_STATES.filter((state) => isRetryable(state, true)), []);
});

Deno.test("moveOf() throws with event, state and reason for a denial", () => {
  const error = assertThrows(() => moveOf(CREATED, { kind: "cb_wait" }), AgentError);
  assertEquals([error.code, error.message], [
    "internal",
    "Cannot cb_wait a job in queued: not_running",
  ]);
});
