// Sequences of events over a few workflows, all of it chosen by fast-check.

import fc from "fast-check";

/**
 * One letter for each execution of a body: success, failure, wait, queue, retry, cancel, and never.
 */
const anyScript = fc.string({
  unit: fc.constantFrom("s", "s", "s", "s", "f", "f", "w", "q", "r", "c", "n"),
  minLength: 1,
  maxLength: 3,
});

const anyTask = fc.record({
  body: anyScript,
  retry: fc.constantFrom(0, 0, 1, 2),
  fallback: fc.option(anyScript, { nil: undefined, freq: 3 }),
  timeout: fc.constantFrom(undefined, undefined, 10),
});

const anyTasks = (maxLength: number) => fc.array(anyTask, { maxLength, size: "max" });

const anyWorkflow = fc.record({
  chain: anyTasks(4),
  onerror: anyTasks(2),
  oncancel: anyTasks(2),
  timeout: fc.constantFrom(undefined, 10, 60, 3600),
  max_attempts: fc.constantFrom(1, 2, 3),
  initial_delay: fc.constantFrom(0, 5_000),
});
/** What is chosen of a workflow. */
export type SomeWorkflow = typeof anyWorkflow extends fc.Arbitrary<infer T> ? T : never;

/** Everything that happens to a runner from outside. `which` chooses among what there is. */
export type SomeEvent =
  | {
    readonly kind: "post";
    readonly which: number;
    readonly target: string | null;
    readonly variant: number;
    readonly delayMs: number;
  }
  /** An execution answers, as its script says. */
  | { readonly kind: "answer"; readonly which: number }
  /** No guest starts for an execution. */
  | { readonly kind: "deny"; readonly which: number }
  | { readonly kind: "pass"; readonly ms: number }
  /** The clock of the wall is set. */
  | { readonly kind: "set"; readonly ms: number }
  | { readonly kind: "cancel"; readonly which: number }
  /** Somebody wants the job made anew. */
  | { readonly kind: "retry"; readonly which: number }
  | { readonly kind: "resume"; readonly which: number; readonly failed: boolean }
  /** The agent dies and begins anew so many times; when none, it stays dead. */
  | { readonly kind: "kill"; readonly lives: number }
  /** It dies at a later write, before or after that is made. */
  | { readonly kind: "doom"; readonly writes: number; readonly made: boolean }
  | { readonly kind: "stop" }
  | { readonly kind: "start" };

const which = fc.nat(99);
const kindOf = <const Kind extends SomeEvent["kind"]>(kind: Kind) => fc.constant(kind);

const anyEvent: fc.Arbitrary<SomeEvent> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: kindOf("post"),
      which,
      target: fc.constantFrom(null, null, "/a", "/b"),
      variant: fc.nat(1),
      delayMs: fc.constantFrom(0, 0, 0, 1, 5_000, 100_000),
    }),
  },
  { weight: 16, arbitrary: fc.record({ kind: kindOf("answer"), which }) },
  { weight: 2, arbitrary: fc.record({ kind: kindOf("deny"), which }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: kindOf("pass"),
      ms: fc.constantFrom(1, 999, 9_999, 10_000, 61_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: kindOf("set"),
      ms: fc.constantFrom(-86_400_000, -1, 1, 86_400_000),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: kindOf("cancel"), which }) },
  { weight: 2, arbitrary: fc.record({ kind: kindOf("retry"), which }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: kindOf("resume"), which, failed: fc.boolean() }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ kind: kindOf("kill"), lives: fc.constantFrom(0, 0, 1, 1, 1, 2, 5) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: kindOf("doom"), writes: fc.nat(5), made: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ kind: kindOf("stop") }) },
  { weight: 4, arbitrary: fc.record({ kind: kindOf("start") }) },
);

/** A sequence; an event that is `joined` comes while the one before it is still at work. */
export const anySequence = fc.record({
  slots: fc.integer({ min: 1, max: 3 }),
  // Whether bodies answer before the claims of their jobs are written, instead of when they are told to.
  eager: fc.boolean(),
  workflows: fc.array(anyWorkflow, { minLength: 1, maxLength: 3, size: "max" }),
  events: fc.array(fc.record({ event: anyEvent, joined: fc.boolean() }), {
    minLength: 1,
    maxLength: 60,
    // Without it most sequences would be of a few events.
    size: "max",
  }),
});
export type Sequence = typeof anySequence extends fc.Arbitrary<infer T> ? T : never;
