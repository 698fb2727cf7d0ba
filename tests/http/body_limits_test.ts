// How large a body may be on which route, how long it may take, and that slow ones keep nobody from
// looking.

import { systemNow } from "../../src/domain/instant.ts";
import { assertEquals, assertMatch } from "@std/assert";
import { createApp } from "../../src/http/app.ts";
import { indexSyncRoutes } from "../../src/http/routes/index/mirror.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { withMirror } from "../mirror/test_mirror.ts";
import { until } from "../support/until.ts";
import { type HttpAgent, JSON_TYPE, withHttpAgent } from "./http_agent.ts";
import { isRefused, type Operation, OPERATIONS, pathOf } from "./openapi_operations.ts";
import { listed, rawCall } from "./raw_call.ts";

const HEAD = ["POST /workflows HTTP/1.1", "Host: localhost", "Content-Type: application/json"];

/** Bytes that the body of each route may have, under the limits of the test below. */
const SIZES: Readonly<Record<string, number>> = {
  "POST /workflows": 1000,
  "POST /agent/v1/workflows/validate": 1000,
  "PUT /workflows/{wf_uuid}": 1000,
  "POST /jobs": 1000,
  "POST /jobs/{job_uuid}/resume": 1000,
  "POST /jobs/{job_uuid}/cancel": 100,
  // Written with escapes and spaces, an entry may be four times as large as it is.
  "POST /jobs/{job_uuid}/info": 200,
  "POST /agent/v1/jobs/{job_uuid}/retry": 100,
  "POST /agent/v1/jobs/cancel": 100,
  "POST /agent/v1/jobs/retry": 100,
  "POST /agent/v1/jobs/prune": 100,
  "POST /agent/v1/machines": 1000,
  "POST /agent/v1/machines/{uuid}/boot": 1000,
  "POST /agent/v1/machines/{uuid}/stop": 1000,
  "POST /agent/v1/machines/{uuid}/reboot": 1000,
  "POST /agent/v1/machines/{uuid}/eject": 1000,
  "POST /agent/v1/machines/{uuid}/console-tickets": 100,
  "POST /agent/v1/media": 1000,
  "POST /agent/v1/media/{digest}/verify": 1000,
  "POST /agent/v1/hosts/{host}/cordon": 100,
  "POST /agent/v1/hosts/{host}/uncordon": 100,
  "POST /agent/v1/index/sync": 100,
  "POST /agent/v1/session": 100,
};

/** Bodies of these are files, which have limits of their own. */
const TAKES_FILES = /^\/agent\/v1\/media\/library\//;

Deno.test("a declared length limits the body even beside a transfer encoding", async () => {
  await withHttpAgent(async ({ context }) => {
    const headers = { ...JSON_TYPE, host: "localhost", "content-length": "2" };
    const body = new Blob([" ".repeat(98) + "{}"]).stream();
    const request = new Request("http://localhost/jobs", { method: "POST", headers, body });
    assertEquals((await createApp(context).fetch(request, {})).status, 413);
  });
});

Deno.test("a refusal that leaves a large body unread closes its connection", async () => {
  await withHttpAgent(async ({ context }) => {
    const app = createApp(context);
    const closes = async (path: string, body: string, type = "application/json") => {
      const headers = {
        "content-type": type,
        host: "localhost",
        "content-length": `${body.length}`,
      };
      const request = new Request(`http://localhost${path}`, { method: "POST", headers, body });
      const answer = await app.fetch(request, {});
      await answer.body?.cancel();
      return [answer.status, answer.headers.get("connection")];
    };
    const { bodyBytesMax } = DEFAULT_HTTP_LIMITS;
    assertEquals(await closes("/workflows", " ".repeat(bodyBytesMax + 1)), [413, "close"]);
    const large = " ".repeat(100_000) + "{}";
    assertEquals(await closes("/workflows", large, "text/plain"), [415, "close"]);
    assertEquals(await closes("/nowhere", large), [404, "close"]);
    assertEquals(await closes("/workflows", large), [409, null]);
    assertEquals(await closes("/nowhere", "{}"), [404, null]);
  });
});

Deno.test("every route accepts a body at its limit, and refuses one more byte", async () => {
  const withBody = OPERATIONS.filter((one) =>
    !isRefused(one) && /^P(?:OST|UT|ATCH)$/.test(one.method) && !TAKES_FILES.test(one.path)
  );
  const nameOf = ({ method, path }: Operation) => `${method} ${path}`;
  assertEquals(withBody.map(nameOf).sort(), Object.keys(SIZES).sort());
  const limits = {
    ...DEFAULT_HTTP_LIMITS,
    bodyBytesMax: 1000,
    smallBodyBytesMax: 100,
    infoEntryBytesMax: 50,
  };
  await withMirror(({ mirror, store: { index } }) => {
    const routes = [indexSyncRoutes({ mirror, index, limits, log: silentLog, now: systemNow })];
    return withHttpAgent(async (agent) => {
      for (const one of withBody) {
        const bytesMax = SIZES[nameOf(one)] ?? 0;
        for (const send of [declared, undeclared]) {
          const fitting = await send(agent, one, bytesMax);
          assertEquals([nameOf(one), fitting === 413], [nameOf(one), false]);
          assertEquals([nameOf(one), await send(agent, one, bytesMax + 1)], [nameOf(one), 413]);
        }
      }
      // A sync that was begun is joined.
      await mirror.sync();
    }, { limits, routes });
  });
});

/** Sends an object of that many bytes; the status of the answer. */
type Send = (agent: HttpAgent, operation: Operation, bytes: number) => Promise<number>;

const objectOf = (bytes: number) => `{${" ".repeat(bytes - 2)}}`;

const declared: Send = async (agent, operation, bytes) =>
  (await agent.call(operation.method, pathOf(operation), objectOf(bytes))).status;

/** In chunks, with no length before them. */
const undeclared: Send = async ({ url }, operation, bytes) => {
  const body = new Blob([objectOf(bytes)]).stream();
  const { method } = operation;
  const answer = await fetch(url + pathOf(operation), { method, headers: JSON_TYPE, body });
  await answer.body?.cancel();
  return answer.status;
};

Deno.test("a body that takes too long is refused", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, bodySeconds: 1 };
  await withHttpAgent(async ({ port }) => {
    const half = `${listed([...HEAD, "Content-Length: 100"])}{`;
    const answer = await rawCall(port, half, { firstOnly: true });
    assertEquals(answer.status, 408);
    assertMatch(answer.text, /did not arrive within 1 seconds.*"error_code":"too_slow"/);
  }, { limits });
});

Deno.test("a large body that takes too long is read no further", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, bodySeconds: 1 };
  await withHttpAgent(async ({ context }) => {
    let canceled = false;
    const body = new ReadableStream({ cancel: () => void (canceled = true) });
    const headers = { ...JSON_TYPE, host: "localhost", "content-length": "100000" };
    const request = new Request("http://localhost/jobs", { method: "POST", headers, body });
    assertEquals((await createApp(context).fetch(request, {})).status, 408);
    assertEquals(canceled, true);
  }, { limits });
});

Deno.test("slow bodies leave places for requests without a body", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, requestsMax: 16 };
  await withHttpAgent(async (agent) => {
    const slow = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const connection = await Deno.connect({ hostname: "127.0.0.1", port: agent.port });
        const half = `${listed([...HEAD, "Content-Length: 100"])}{`;
        await connection.write(new TextEncoder().encode(half));
        return connection;
      }),
    );
    try {
      await until(
        "the places to be taken",
        async () => (await agent.call("POST", "/workflows", {})).status === 503,
      );
      assertEquals((await agent.call("GET", "/stats")).status, 200);
    } finally {
      for (const connection of slow) connection.close();
    }
    await until(
      "the places to be free",
      async () => (await agent.call("POST", "/workflows", {})).status === 409,
    );
  }, { limits });
});
