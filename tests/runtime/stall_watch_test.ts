import { assertEquals } from "@std/assert";
import { watchOperations } from "../../src/runtime/stall_watch.ts";
import { heldTimers } from "../support/timers.ts";

Deno.test("watchOperations() reports an operation that never ends, and no pause of the process", async () => {
  const timers = heldTimers();
  const stalls: number[] = [];
  let end = () => {};
  const operate = () => new Promise<void>((resolve) => end = resolve);
  const stop = watchOperations({
    operate,
    stalled: (seconds) => void stalls.push(seconds),
    timers,
  });
  const look = async () => {
    timers.advance(10_000);
    await Promise.resolve();
  };
  for (let times = 0; times < 5; times++) await look();
  end();
  await Promise.resolve();
  // A process that was stopped looks once when it goes on, however long that was.
  timers.advance(3_600_000);
  for (let times = 0; times < 5; times++) await look();
  assertEquals(stalls, []);
  await look();
  assertEquals(stalls, [60]);
  stop();
});

Deno.test("watchOperations() goes on after an operation that fails, until it is ended", async () => {
  const timers = heldTimers();
  let operations = 0;
  const operate = () => {
    operations += 1;
    return Promise.reject(new Error("no memory"));
  };
  const stop = watchOperations({ operate, stalled: () => {}, timers });
  assertEquals(operations, 0);
  for (let times = 0; times < 3; times++) {
    await Promise.resolve();
    timers.advance(10_000);
  }
  assertEquals(operations, 3);
  stop();
  timers.advance(10_000);
  assertEquals(operations, 3);
});
