import { assert, assertEquals } from "@std/assert";
import {
  Notifier,
  Notifiers,
  pause,
  untilDone,
  watchOperations,
} from "../../src/runtime/waiting.ts";
import { heldTimers } from "../support/timers.ts";

/** A signal that tells how many listeners it has. */
function countedSignal(): { signal: AbortSignal; listeners: () => number } {
  const { signal } = new AbortController();
  const listeners = new Set<unknown>();
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (type: string, listener: EventListener, options?: unknown) => {
    listeners.add(listener);
    add(type, listener, options as AddEventListenerOptions);
  };
  signal.removeEventListener = (type: string, listener: EventListener) => {
    listeners.delete(listener);
    remove(type, listener);
  };
  return { signal, listeners: () => listeners.size };
}

Deno.test("a notifier leaves no listener on a signal that outlives its waits", async () => {
  const { signal, listeners } = countedSignal();
  const notifier = new Notifier();
  for (let wait = 0; wait < 10; wait++) {
    const waited = notifier.wait(60_000, signal);
    assertEquals(listeners(), 1);
    notifier.notify();
    await waited;
  }
  await pause(1, signal);
  assertEquals(listeners(), 0);
});

Deno.test("a notification without a waiter ends the next wait at once, and only that", async () => {
  const notifier = new Notifier();
  const { signal } = new AbortController();
  notifier.notify();
  await notifier.wait(60_000, signal);
  const startMs = performance.now();
  await notifier.wait(20, signal);
  assert(performance.now() - startMs >= 10);
});

Deno.test("pause() ends with its signal", async () => {
  const controller = new AbortController();
  const paused = pause(60_000, controller.signal);
  controller.abort();
  await paused;
  await pause(60_000, controller.signal);
});

Deno.test("a notification reaches every listener of its key, even one that waits later", async () => {
  const notifiers = new Notifiers<string>();
  const { signal } = new AbortController();
  const [first, second, other] = [
    notifiers.listen("a"),
    notifiers.listen("a"),
    notifiers.listen("b"),
  ];
  notifiers.notify("a");
  await Promise.all([first.wait(60_000, signal), second.wait(60_000, signal)]);
  let heard = false;
  const waiting = other.wait(60_000, signal).then(() => heard = true);
  notifiers.notify("a");
  await Promise.resolve();
  assertEquals(heard, false);
  notifiers.notify("b");
  await waiting;
  for (const listener of [first, second, other]) listener[Symbol.dispose]();
  notifiers.notify("a");
});

Deno.test("untilDone() tries once although its signal has ended, and then no more", async () => {
  const failures: number[] = [];
  const options = {
    firstMs: 1,
    longestMs: 1,
    signal: AbortSignal.abort(),
    onFailure: (_error: unknown, attempt: number) => void failures.push(attempt),
  };
  assertEquals(await untilDone(() => Promise.resolve("written"), options), "written");
  assertEquals(await untilDone(() => Promise.reject(new Error("full")), options), undefined);
  assertEquals(failures, [1]);
});

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
