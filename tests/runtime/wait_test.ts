import { assertEquals } from "@std/assert";
import { untilDone } from "../../src/runtime/run.ts";
import { pause } from "../../src/runtime/wait.ts";

Deno.test("pause() ends with its signal", async () => {
  const controller = new AbortController();
  const paused = pause(60_000, controller.signal);
  controller.abort();
  await paused;
  await pause(60_000, controller.signal);
});

Deno.test("untilDone() tries once although its signal has ended, and then no more", async () => {
  const failures: number[] = [];
  const options = {
    firstMs: 1,
    longestMs: 1,
    signal: () => AbortSignal.abort(),
    onFailure: (_error: unknown, attempt: number) => void failures.push(attempt),
  };
  assertEquals(await untilDone(() => Promise.resolve("written"), options), "written");
  assertEquals(await untilDone(() => Promise.reject(new Error("full")), options), undefined);
  assertEquals(failures, [1]);
});
