import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter, systemNow } from "../../src/domain/instant.ts";
import { openLog } from "../../src/metrics/log.ts";
import { type Callbacks, openCallbacks } from "../../src/runner/callbacks.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { register } from "../store/host_suite.ts";
import { jobOf, RUNNER, uuidOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { NO_LIMIT } from "../support/limits.ts";

const JOB = uuidOf<JobUuid>(1);

interface Called {
  readonly path: string;
  readonly contentType: string | null;
  readonly body: { uuid: string; execution: string; host?: string; host_uuid?: string };
}

interface Receiver {
  readonly host: string;
  readonly calls: Called[];
  /** Status of each answer in turn; the last one stays. */
  answers: number[];
}

interface Under {
  readonly store: Store;
  readonly receiver: Receiver;
  readonly messages: string[];
  /** Why attempts failed. */
  readonly reasons: string[];
  /** How far the clock of the store is ahead. */
  readonly ahead: { ms: number };
  open(settings?: { hosts?: string[] }): Callbacks;
}

async function withReceiver(run: (under: Under) => Promise<void>): Promise<void> {
  const calls: Called[] = [];
  const receiver: Receiver = { host: "", calls, answers: [204] };
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      calls.push({
        path: new URL(request.url).pathname,
        contentType: request.headers.get("content-type"),
        body: await request.json(),
      });
      const status =
        (receiver.answers.length > 1 ? receiver.answers.shift() : receiver.answers[0]) ?? 204;
      const headers = status === 302 ? { location: `http://${receiver.host}/elsewhere` } : {};
      return new Response(null, { status, headers });
    },
  );
  const host = `127.0.0.1:${server.addr.port}`;
  Object.assign(receiver, { host });
  const ahead = { ms: 0 };
  const store = await openSqliteStore(":memory:", {
    now: () => instantAfter(systemNow(), ahead.ms),
  });
  const messages: string[] = [];
  const reasons: string[] = [];
  const opened: Callbacks[] = [];
  try {
    await run({
      store,
      receiver,
      messages,
      reasons,
      ahead,
      open: (settings = {}) => {
        const callbacks = openCallbacks({
          budget: openMemoryBudget(),
          store,
          hosts: settings.hosts ?? [host],
          wording: "document",
          fetch,
          userAgent: "zonewright/test",
          now: systemNow,
          log: openLog({
            level: "debug",
            format: "json",
            write: (line) => {
              const { msg, reason } = JSON.parse(line);
              messages.push(msg);
              if (reason !== undefined) reasons.push(reason);
            },
            now: systemNow,
          }),
        });
        opened.push(callbacks);
        return callbacks;
      },
    });
  } finally {
    await Promise.all(opened.map((callbacks) => callbacks.stop()));
    await store.close();
    await server.shutdown();
  }
}

/** A job that is final by a cancel, and owes a callback. */
async function owe(store: Store, host: string, path = "/done"): Promise<void> {
  await store.jobs.create(jobOf(1, { callback_url: `http://${host}${path}` }), NO_LIMIT);
  await store.jobs.cancel(JOB);
}

const nothingOwed = (store: Store) =>
  until("no callback to be pending", async () => (await store.callbacks.nextDue()).kind === "none");

Deno.test("a callback posts the final job as JSON, and is no longer pending", async () => {
  await withReceiver(async ({ store, receiver, open }) => {
    await register(store);
    const callbacks = open();
    await owe(store, receiver.host);
    callbacks.wake();
    await nothingOwed(store);
    assertEquals(receiver.calls.length, 1);
    const [call] = receiver.calls;
    assertEquals([call?.path, call?.contentType], ["/done", "application/json"]);
    const { uuid, execution, host, host_uuid } = call?.body ?? {};
    assertEquals([uuid, execution, host, host_uuid], [JOB, "canceled", "gz01", RUNNER]);
  });
});

Deno.test("a refused callback is made again later, and logged once it is accepted", async () => {
  await withReceiver(async ({ store, receiver, open, messages, ahead }) => {
    receiver.answers = [500, 503, 200];
    const callbacks = open();
    await owe(store, receiver.host);
    for (const calls of [1, 2, 3]) {
      callbacks.wake();
      await until(`call ${calls}`, () => receiver.calls.length === calls);
      await until(
        "its outcome to be written",
        () => messages.filter((message) => message.startsWith("callback")).length === calls,
      );
      // The next attempt is due within an hour, whatever the number of failures.
      ahead.ms += 3_600_000;
    }
    await nothingOwed(store);
    assertEquals(messages, ["callback failed", "callback failed", "callback sent"]);
  });
});

Deno.test("a callback does not follow a redirect", async () => {
  await withReceiver(async ({ store, receiver, open, messages }) => {
    receiver.answers = [302];
    const callbacks = open();
    await owe(store, receiver.host);
    callbacks.wake();
    await until("the failure", () => messages.includes("callback failed"));
    assertEquals(receiver.calls.map(({ path }) => path), ["/done"]);
    assertEquals((await store.callbacks.nextDue()).kind, "in");
  });
});

Deno.test("a callback to a host that is not allowed any more is given up unmade", async () => {
  await withReceiver(async ({ store, receiver, open, messages }) => {
    const callbacks = open({ hosts: ["hooks.example.org"] });
    await owe(store, receiver.host);
    callbacks.wake();
    await nothingOwed(store);
    assertEquals([receiver.calls.length, messages], [0, ["callback given up"]]);
  });
});

Deno.test("the log of a callback that fails names the host and not the address, which may hold a token", async () => {
  await withReceiver(async ({ store, receiver, open, reasons, ahead }) => {
    receiver.answers = [500];
    const path = "/hooks/hunter2?token=hunter2";
    const callbacks = open();
    await owe(store, receiver.host, path);
    callbacks.wake();
    await until("a refusal", () => reasons.length === 1);
    await callbacks.stop();
    ahead.ms += 3_600_000;
    open({ hosts: ["hooks.example.org"] }).wake();
    await nothingOwed(store);
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const closed = `127.0.0.1:${listener.addr.port}`;
    listener.close();
    await store.jobs.create(jobOf(2, { callback_url: `http://${closed}${path}` }), NO_LIMIT);
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    open({ hosts: [closed] }).wake();
    await until("no connection", () => reasons.length === 3);
    for (const reason of reasons) assert(!reason.includes("hunter2"), reason);
    for (const reason of reasons.slice(0, 2)) assert(reason.includes(receiver.host), reason);
  });
});

Deno.test("a callback that is never accepted is given up in the end", async () => {
  await withReceiver(async ({ store, receiver, open, messages, ahead }) => {
    receiver.answers = [404];
    const callbacks = open();
    await owe(store, receiver.host);
    while (!messages.includes("callback given up")) {
      const told = messages.length;
      callbacks.wake();
      await until("the next attempt", () => messages.length > told);
      ahead.ms += 3_600_000;
    }
    await nothingOwed(store);
    assert(
      receiver.calls.length > 30 && receiver.calls.length < 40,
      `${receiver.calls.length} calls`,
    );
  });
});

Deno.test("a callback that was pending when the agent ended is made by the next one", async () => {
  await withReceiver(async ({ store, receiver, open }) => {
    await owe(store, receiver.host, "/after");
    open();
    await nothingOwed(store);
    assertEquals(receiver.calls.map(({ path }) => path), ["/after"]);
  });
});

Deno.test("a receiver that never answers does not delay another one", async () => {
  await withReceiver(async ({ store, receiver, open }) => {
    const silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const held: Deno.Conn[] = [];
    const accepting = (async () => {
      for await (const connection of silent) held.push(connection);
    })();
    const silentHost = `127.0.0.1:${silent.addr.port}`;
    const callbacks = open({ hosts: [silentHost, receiver.host] });
    for (let number = 10; number < 34; number++) {
      await store.jobs.create(jobOf(number, { callback_url: `http://${silentHost}/` }), NO_LIMIT);
      await store.jobs.cancel(uuidOf<JobUuid>(number));
    }
    await owe(store, receiver.host);
    callbacks.wake();
    await until("the call to the other one", () => receiver.calls.length === 1);
    assert(held.length <= 2, `${held.length} attempts at a time`);
    await callbacks.stop();
    silent.close();
    await accepting;
    for (const connection of held) connection.close();
  });
});
