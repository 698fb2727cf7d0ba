import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { errorResponse } from "../../src/http/answer/error_response.ts";
import {
  BACKOFF_MS_MAX,
  isTransient,
  retryAfterSeconds,
  transientError,
  TRIES_MAX,
  withRetries,
} from "../../src/mirror/web/retry.ts";

Deno.test("withRetries() waits longer each time, spread by chance, and then gives up", async () => {
  const waits: number[] = [];
  let tries = 0;
  const attempt = () => {
    tries += 1;
    return Promise.reject(transientError(`failure ${tries}`));
  };
  const options = { wait: noted(waits), random: () => 0 };
  const error = await assertRejects(() => withRetries(attempt, options), AgentError);
  assertEquals([error.message, tries, waits], [`failure ${TRIES_MAX}`, TRIES_MAX, [500, 1000]]);
});

Deno.test("withRetries() waits as long as the server asks, and asks no more when that is long", async () => {
  const waits: number[] = [];
  const longest = BACKOFF_MS_MAX / 1000;
  const errors = [transientError("a", 5), transientError("b", longest)];
  const attempt = () => {
    const error = errors.shift();
    return error === undefined ? Promise.resolve("done") : Promise.reject(error);
  };
  const options = { wait: noted(waits), random: () => 1 };
  assertEquals(await withRetries(attempt, options), "done");
  assertEquals(waits, [5000, BACKOFF_MS_MAX]);
  errors.push(transientError("later", longest + 1), transientError("never thrown"));
  const error = await assertRejects(() => withRetries(attempt, options), AgentError);
  assertEquals([error.message, errors.length], ["later", 1]);
});

Deno.test("withRetries() does not repeat a permanent failure, nor after its caller has given up", async () => {
  const giveUp = new AbortController();
  giveUp.abort();
  const { signal } = giveUp;
  for (
    const [error, more] of [
      [new AgentError("upstream", "no"), {}],
      [new AgentError("too_large", "no"), {}],
      [new TypeError("a defect"), {}],
      [transientError("no"), { signal }],
    ] as const
  ) {
    let tries = 0;
    const attempt = () => {
      tries += 1;
      return Promise.reject(error);
    };
    const wait = noted([]);
    await assertRejects(() => withRetries(attempt, { wait, random: () => 0, ...more }));
    assertEquals(tries, 1);
  }
});

Deno.test("isTransient() is true for time-outs and for failures that were marked so", () => {
  assert(isTransient(new AgentError("timeout", "slow")));
  assert(isTransient(transientError("cut")));
  assert(!isTransient(new AgentError("upstream", "403")));
  assert(!isTransient(new Error("cut")));
});

Deno.test("transientError() gives a time to try again only when the server did", () => {
  const headerOf = (error: AgentError) => errorResponse(error, "r").headers.get("retry-after");
  assertEquals(transientError("cut").retryAfterSeconds, undefined);
  assertEquals(transientError("cut", 0).retryAfterSeconds, undefined);
  assertEquals([headerOf(transientError("cut")), headerOf(transientError("cut", 0))], [null, null]);
  assertEquals(headerOf(transientError("busy", 120)), "120");
});

Deno.test("retryAfterSeconds() reads seconds, and dates by the server's clock", () => {
  const date = "Fri, 20 Nov 2026 12:00:00 GMT";
  const read = (value: string | null) =>
    retryAfterSeconds(new Headers({ date, ...(value === null ? {} : { "retry-after": value }) }));
  assertEquals(read(null), 0);
  assertEquals(read("120"), 120);
  assertEquals(read("Fri, 20 Nov 2026 12:01:30 GMT"), 90);
  assertEquals(read("Fri, 20 Nov 2026 11:00:00 GMT"), 0);
  assertEquals(read("later"), 0);
  // Nobody may send a host away for longer than a day.
  const day = 24 * 3600;
  for (const long of ["99999999", "9".repeat(400), "Fri, 20 Nov 2099 12:00:00 GMT"]) {
    assertEquals(read(long), day);
  }
});

Deno.test("withRetries() counts from the start after an attempt that got further", async () => {
  const waits: number[] = [];
  let attempts = 0;
  const fail = () => {
    attempts += 1;
    return Promise.reject(transientError("cut"));
  };
  const advanced = () => attempts <= 4;
  await assertRejects(() => withRetries(fail, { wait: noted(waits), random: () => 1, advanced }));
  assertEquals([attempts, waits], [6, [1000, 1000, 1000, 1000, 2000]]);
});

function noted(waits: number[]): (ms: number) => Promise<void> {
  return (ms) => {
    waits.push(ms);
    return Promise.resolve();
  };
}
