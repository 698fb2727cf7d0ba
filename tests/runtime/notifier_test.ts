import { assert, assertEquals } from "@std/assert";
import { Notifier, Notifiers } from "../../src/runtime/notifier.ts";
import { pause } from "../../src/runtime/wait.ts";

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
