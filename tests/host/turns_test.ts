// Turns: how many run at once, who comes next, and giving up.

import { assertEquals } from "@std/assert";
import { openTurns } from "../../src/host/locks.ts";
import { refused } from "./refused.ts";

Deno.test("take() runs up to its limit at once, and the others in order", async () => {
  const turns = openTurns(2);
  const begun: number[] = [];
  const gates = [0, 1, 2, 3].map(() => Promise.withResolvers<void>());
  const runs = gates.map((gate, at) =>
    turns.take("Cannot run", undefined, async () => {
      begun.push(at);
      await gate.promise;
    })
  );
  assertEquals(begun, [0, 1]);
  gates[1]?.resolve();
  await runs[1];
  gates[0]?.resolve();
  await runs[0];
  gates[2]?.resolve();
  gates[3]?.resolve();
  await Promise.all(runs);
  assertEquals(begun, [0, 1, 2, 3]);
});

Deno.test("take() passes the turn of a failed or aborted call to the next", async () => {
  const turns = openTurns(1);
  const gate = Promise.withResolvers<void>();
  const first = turns.take("Cannot run", undefined, () => gate.promise);
  const caller = new AbortController();
  const second = turns.take("Cannot run", caller.signal, () => Promise.resolve("second"));
  const third = turns.take("Cannot run", undefined, () => Promise.resolve("third"));
  caller.abort();
  await refused(() => second, "aborted", "Cannot run");
  gate.reject(new Error("broken"));
  await first.catch(() => {});
  assertEquals(await third, "third");
  const late = new AbortController();
  late.abort();
  assertEquals(await turns.take("Cannot run", undefined, () => Promise.resolve(1)), 1);
});
