import { assertEquals, assertRejects } from "@std/assert";
import { withDeadline } from "../../src/capabilities/capability.ts";
import { AgentError } from "../../src/domain/error.ts";

/** Ends only by its signal. */
function forever(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(new AgentError("aborted", "Cannot go on")));
  });
}

Deno.test("withDeadline() returns a result that arrives in time", async () => {
  const { signal } = new AbortController();
  assertEquals(await withDeadline("x", 60_000, signal, () => Promise.resolve(5)), 5);
});

Deno.test("withDeadline() ends a call that takes too long, and names it", async () => {
  const { signal } = new AbortController();
  const run = () => withDeadline("vmadm.get", 20, signal, forever);
  const error = await assertRejects(
    run,
    AgentError,
    "Cannot finish vmadm.get: it took over 0.02 s",
  );
  assertEquals(error.code, "timeout");
});

Deno.test("withDeadline() keeps the reason when its caller aborts", async () => {
  const gone = new AbortController();
  const run = withDeadline("vmadm.get", 60_000, gone.signal, forever);
  gone.abort();
  assertEquals((await assertRejects(() => run, AgentError)).code, "aborted");
});

Deno.test("withDeadline() rethrows other errors unchanged", async () => {
  const { signal } = new AbortController();
  const fail = () => Promise.reject(new AgentError("host", "Cannot run"));
  const run = () => withDeadline("x", 60_000, signal, fail);
  assertEquals((await assertRejects(run, AgentError)).code, "host");
});
