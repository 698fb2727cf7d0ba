import { assert, assertEquals } from "@std/assert";
import { callAfter } from "../../src/runtime/timers.ts";

/** Settles when `count` calls were noted. */
function noted(count: number) {
  const calls: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const note = (word: string) => () => {
    calls.push(word);
    if (calls.length === count) resolve();
  };
  return { calls, note, all: promise };
}

Deno.test("deadlines come in the order of their times, whatever the order they were set in", async () => {
  const { calls, note, all } = noted(3);
  const began = performance.now();
  callAfter(400, note("last"));
  callAfter(1, note("first"));
  callAfter(200, note("second"));
  await all;
  assert(performance.now() - began >= 400);
  assertEquals(calls, ["first", "second", "last"]);
});

Deno.test("deadlines that pass while the thread is busy come in the order of their times too", async () => {
  const { calls, note, all } = noted(3);
  callAfter(400, note("last"));
  callAfter(1, note("first"));
  callAfter(200, note("second"));
  const began = performance.now();
  while (performance.now() - began < 500);
  await all;
  assertEquals(calls, ["first", "second", "last"]);
});

Deno.test("a canceled deadline never fires, also when canceled by one of the same moment", async () => {
  const { calls, note, all } = noted(2);
  callAfter(1, note("canceled"))();
  let cancel = () => {};
  callAfter(5, () => {
    cancel();
    note("stays")();
  });
  cancel = callAfter(5, note("canceled at its moment"));
  callAfter(40, note("after it"));
  await all;
  assertEquals(calls, ["stays", "after it"]);
});

Deno.test("a deadline that is canceled twice takes no other with it", async () => {
  const { calls, note, all } = noted(2);
  const cancel = callAfter(1, note("canceled"));
  callAfter(5, note("second"));
  callAfter(1, note("first"));
  cancel();
  cancel();
  await all;
  assertEquals(calls, ["first", "second"]);
});

Deno.test("a deadline set by a deadline fires too, and with none set no timer is left", async () => {
  const { calls, note, all } = noted(2);
  callAfter(1, () => {
    note("outer")();
    callAfter(1, note("inner"));
  });
  const long = callAfter(3_600_000, note("never"));
  await all;
  assertEquals(calls, ["outer", "inner"]);
  // The test itself fails when a timer is left.
  long();
});
