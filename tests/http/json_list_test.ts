// Lists that are written while they are read: whole for who reads on, cheap for who does not.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Hono } from "hono";
import type { JobUuid } from "../../src/domain/id.ts";
import { createApp } from "../../src/http/app.ts";
import type { HttpEnv, ServedAgent } from "../../src/http/served_agent.ts";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { bounded } from "../../src/http/request/request_gate.ts";
import { errorResponse } from "../../src/http/answer/error_response.ts";
import { listResponse, type NextPage } from "../../src/http/answer/json_list.ts";
import { listen } from "../../src/http/server.ts";
import { textBytes } from "../../src/http/answer/text_answer.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { readText } from "../../src/store/stored_text.ts";
import type { Timers } from "../../src/runtime/timers.ts";
import { GRACE_MS, LISTENING } from "../support/listening.ts";
import { heldTimers, quickTimers } from "../support/timers.ts";
import { DEFAULT_HTTP_LIMITS, NO_LIMIT } from "../support/limits.ts";
import { jobOf, T0, uuidOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { type HttpAgent, jobIn, listOf, newJob, withHttpAgent } from "./http_agent.ts";
import { fillWithJobs, watchedStore } from "./long_list.ts";
import { listed, rawCall } from "./raw_call.ts";

const ONE_REQUEST = { ...DEFAULT_HTTP_LIMITS, requestsMax: 1 };
const GET_JOBS = ["GET /jobs HTTP/1.1", "host: localhost", "accept-encoding: identity"];

async function uuidsOf(agent: HttpAgent, query: string): Promise<unknown[]> {
  const answer = await agent.call("GET", `/jobs${query}`);
  assertEquals([answer.status, answer.headers.get("content-type")], [200, "application/json"]);
  return listOf(answer).map(({ uuid }) => uuid);
}

/** The application without a socket: what it reads is what the test takes. */
async function withApp(
  run: (app: ReturnType<typeof createApp>, context: ServedAgent) => Promise<void>,
  changes: Partial<ServedAgent>,
): Promise<void> {
  // An agent that listens is what has all the parts; here only its application is needed.
  await withHttpAgent(async (agent) => {
    const app = createApp(agent.context);
    await run(app, agent.context);
  }, changes);
}

function get(app: ReturnType<typeof createApp>, path: string, method = "GET"): Promise<Response> {
  const request = new Request(`http://localhost${path}`, {
    method,
    headers: { host: "localhost" },
  });
  return Promise.resolve(app.fetch(request, {}));
}

Deno.test("a list of many pages is one array, newest first, with the number of all", async () => {
  await withHttpAgent(async (agent) => {
    const jobs = await fillWithJobs(agent.store, 350);
    const answer = await agent.call("GET", "/jobs");
    assertEquals(listOf(answer).map(({ uuid }) => uuid), jobs);
    assertEquals(answer.headers.get("x-count"), "350");
    assertEquals(await uuidsOf(agent, "?execution=queued"), jobs);
    assertEquals(await uuidsOf(agent, "?offset=3"), jobs.slice(3));
    assertEquals(await uuidsOf(agent, "?offset=350"), []);
    assertEquals(await uuidsOf(agent, "?limit=116"), jobs.slice(0, 116));
    assertEquals(await uuidsOf(agent, "?limit=200&offset=149"), jobs.slice(149, 349));
    assertEquals(await uuidsOf(agent, "?limit=200&offset=300"), jobs.slice(300));
    assertEquals(await uuidsOf(agent, "?limit=16"), jobs.slice(0, 16));
  });
});

Deno.test("the info of a job is listed to its end or limit, over many pages", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const entries = Array.from({ length: 450 }, (_, n) => ({ n }));
    for (const entry of entries) agent.store.info.append(uuid, entry, T0, NO_LIMIT);
    const path = `/jobs/${uuid}/info`;
    await until("all to be there", async () => (await agent.store.info.list(uuid, 449))?.length);
    assertEquals((await agent.call("GET", path)).body, entries);
    assertEquals((await agent.call("GET", `${path}?after=100`)).body, entries.slice(100));
    const part = await agent.call("GET", `${path}?after=17&limit=300`);
    assertEquals(part.body, entries.slice(17, 317));
  });
});

Deno.test("a list may contain entries of any size, even megabytes", async () => {
  await withHttpAgent(async (agent) => {
    const large = "ü".repeat(700_000);
    for (let n = 1; n <= 40; n++) {
      await agent.store.jobs.create(
        jobOf(n, { params: n % 10 === 0 ? { large } : { n } }),
        NO_LIMIT,
      );
    }
    const jobs = listOf(await agent.call("GET", "/jobs"));
    assertEquals(jobs.map(({ uuid }) => uuid).reverse(), jobs.map((_, n) => uuidOf(n + 1)));
    assertEquals(jobs.filter(({ params }) => Object.hasOwn(Object(params), "large")).length, 4);
  });
});

Deno.test("each page is read only after the caller took the previous one", async () => {
  const { store, reads } = await watchedStore();
  await withApp(async (app) => {
    const jobs = await fillWithJobs(store, 300);
    const { body } = await get(app, "/jobs");
    assert(body !== null);
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    assertEquals(reads(), 1);
    let text = (await reader.read()).value ?? "";
    const after = reads();
    assert(after <= 2, `${after} pages were read for one`);
    // What comes in meanwhile is newer than the first page.
    await store.jobs.create(jobOf(999), NO_LIMIT);
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    assertEquals(JSON.parse(text).map(({ uuid }: { uuid: string }) => uuid), jobs);
  }, { store });
  await store.close();
});

Deno.test("a list counts as an active request until it was read to its end", async () => {
  const { store } = await watchedStore();
  await withApp(async (app) => {
    await fillWithJobs(store, 100);
    const list = await get(app, "/jobs");
    assertEquals((await get(app, "/ping")).status, 503);
    await list.text();
    assertEquals((await get(app, "/ping")).status, 200);
    const left = await get(app, "/jobs");
    assertEquals((await get(app, "/ping")).status, 503);
    await left.body?.cancel();
    assertEquals((await get(app, "/ping")).status, 200);
  }, { store, limits: ONE_REQUEST });
  await store.close();
});

Deno.test("HEAD of a long list gets its headers from the first page, and frees its slot", async () => {
  const { store, reads } = await watchedStore();
  await withApp(async (app) => {
    await fillWithJobs(store, 100);
    for (const _ of [1, 2]) {
      const head = await get(app, "/jobs", "HEAD");
      assertEquals([head.status, head.headers.get("x-count"), head.body], [200, "100", null]);
      assertEquals(head.headers.get("content-length"), null);
    }
    assertEquals(reads(), 2);
  }, { store, limits: ONE_REQUEST });
  await store.close();
});

Deno.test("a caller who leaves ends the reading, and frees its slot", async () => {
  const { store, reads } = await watchedStore();
  await withHttpAgent(async (agent) => {
    // More than the buffers of a connection hold.
    const params = { text: "x".repeat(200_000) };
    for (let n = 1; n <= 200; n++) await store.jobs.create(jobOf(n, { params }), NO_LIMIT);
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: agent.port });
    await connection.write(new TextEncoder().encode(listed(GET_JOBS)));
    await connection.read(new Uint8Array(1000));
    connection.close();
    const status = async () => (await agent.call("GET", "/ping")).status;
    await until("the place to be free", async () => await status() === 200);
    const pages = reads();
    assert(pages < 200, `${pages} pages were read`);
  }, { store, limits: ONE_REQUEST });
  await store.close();
});

Deno.test("an error after the first byte breaks the connection, and is logged", async () => {
  const { store } = await watchedStore((read) => read % 2 === 0);
  await withHttpAgent(async (agent) => {
    await fillWithJobs(store, 100);
    const answer = await rawCall(
      agent.port,
      listed([...GET_JOBS, "x-request-id: broken-1", "connection: close"]),
    );
    assertEquals(answer.status, 200);
    assertStringIncludes(answer.text, `[{"uuid"`);
    // The end of a chunked body is a chunk of no bytes.
    assertEquals(answer.text.includes("\r\n0\r\n"), false);
    await assertRejects(() => agent.call("GET", "/jobs"), TypeError);
    const reported = await until(
      "the log to tell",
      () => agent.log.find(({ msg }) => msg === "answer broken off"),
    );
    assertEquals([reported.request_id, reported.reason], ["broken-1", "the disk is gone"]);
    assertStringIncludes(String(reported.stack), "long_list.ts");
    assertEquals((await agent.call("GET", "/ping")).status, 200);
  }, { store, limits: ONE_REQUEST });
  await store.close();
});

Deno.test("an error before the first byte is answered like any other", async () => {
  const { store } = await watchedStore(() => true);
  await withHttpAgent(async (agent) => {
    assertEquals((await agent.call("GET", "/jobs")).status, 500);
  }, { store });
  await store.close();
});

Deno.test("removing a job while its info is read cuts the list off", async () => {
  const { store } = await watchedStore();
  await withApp(async (app, context) => {
    const uuid = await finishedJob(context);
    for (let n = 0; n < 100; n++) await store.info.append(uuid, { n }, T0, NO_LIMIT);
    const list = await get(app, `/jobs/${uuid}/info`);
    const keep = { age_ms: null, finished_max: 0, limit: 10 };
    assertEquals(await store.jobs.prune(keep), 1);
    await assertRejects(() => list.text(), Error, `Cannot find job ${uuid}`);
  }, { store });
  await store.close();
});

/** A job that has ended, in the store that the application has. */
async function finishedJob({ store }: ServedAgent): Promise<JobUuid> {
  const outcome = await store.jobs.create(jobOf(1), NO_LIMIT);
  assert(outcome.kind === "created");
  await store.jobs.cancel(outcome.job.uuid);
  return outcome.job.uuid;
}

/** Pages of a list that never ends. */
const ENDLESS: NextPage = (size) =>
  Promise.resolve({
    texts: [readText(new TextEncoder().encode(`"${"x".repeat(50_000 * size)}"`))],
    entries: 1,
    last: false,
  });

/** An application that takes one request at a time, and has a list that never ends. */
function endlessApp(timers: Timers): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.use(bounded(1));
  app.get("/endless", (c) => {
    c.set("request_id", "stalled-1");
    return listResponse(c, ENDLESS, {
      timers,
      log: silentLog,
      budget: openMemoryBudget(),
      shown: textBytes,
    });
  });
  app.get("/ping", (c) => c.json({}));
  app.onError((error) => errorResponse(error, "refused"));
  return app;
}

Deno.test("a caller who accepts nothing for too long is disconnected, and frees its slot", async () => {
  const app = endlessApp(quickTimers(1500));
  const tcp = { hostname: "127.0.0.1", port: 0 };
  const server = await listen(app, {
    ...LISTENING,
    tcp,
  });
  const port = server.port ?? 0;
  try {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    const request = listed(["GET /endless HTTP/1.1", "host: localhost"]);
    await connection.write(new TextEncoder().encode(request));
    const ping = () =>
      rawCall(port, listed(["GET /ping HTTP/1.1", "connection: close", "host: x"]));
    await connection.read(new Uint8Array(100));
    await until("the place to be free", async () => (await ping()).status === 200);
    // What lies in the buffers can still be read, then the connection ends.
    const rest = new Uint8Array(1 << 20);
    while (await connection.read(rest).catch(() => null) !== null);
    connection.close();
  } finally {
    await server.shutdown(GRACE_MS);
  }
});

Deno.test("the log line about a list that was cut off has its request id", async () => {
  const timers = heldTimers();
  const app = endlessApp(timers);
  const response = await app.request("/endless");
  timers.advance(30_000);
  await until("its place to be free", async () => (await app.request("/ping")).status === 200);
  await assertRejects(
    () => response.text(),
    Error,
    "Cannot finish the answer to request stalled-1: the caller read nothing for 30000 ms",
  );
});

Deno.test("the list without a query has jobs in every execution", async () => {
  await withHttpAgent(async (agent) => {
    for (const execution of ["failed", "waiting", "queued"] as const) await jobIn(agent, execution);
    const found = listOf(await agent.call("GET", "/jobs")).map(({ execution }) => execution);
    assertEquals(found, ["queued", "waiting", "failure"]);
  });
});
