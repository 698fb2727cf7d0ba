// Requests that no well-behaved client sends. After each the agent must still answer.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { until } from "../support/until.ts";
import {
  assertRefused,
  listOf,
  newJob,
  newWorkflow,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";
import { listed, rawCall } from "./raw_call.ts";

const JSON_POST = [
  "POST /workflows HTTP/1.1",
  "Host: localhost",
  "Content-Type: application/json",
];

function post(extra: readonly string[], body: string): string {
  return listed([...JSON_POST, "Connection: close", ...extra]) + body;
}

Deno.test("bodies with broken framing are refused and leave nothing behind", async () => {
  await withHttpAgent(async (agent) => {
    const body = '{"name":"x"}';
    const chunked = "Transfer-Encoding: chunked";
    const cases: [string, string][] = [
      ["a chunk size that is no number", post([chunked], `zz\r\n${body}\r\n0\r\n\r\n`)],
      ["a chunk longer than its size", post([chunked], `2\r\n${body}\r\n0\r\n\r\n`)],
      ["chunks without an end", post([chunked], `c\r\n${body}\r\n`)],
      ["a body shorter than its length", post(["Content-Length: 99"], body)],
      ["a length that is no number", post(["Content-Length: ten"], body)],
      ["a negative length", post(["Content-Length: -1"], body)],
      ["two lengths", post(["Content-Length: 12", "Content-Length: 13"], body)],
      ["a length and chunks", post(["Content-Length: 12", chunked], `c\r\n${body}\r\n0\r\n\r\n`)],
      ["an unknown transfer coding", post(["Transfer-Encoding: gzip"], body)],
    ];
    for (const [name, request] of cases) {
      const { status } = await rawCall(agent.port, request, { halfClose: true });
      assert(status === 0 || status === 400 || status === 501, `${name}: ${status}`);
      assertEquals((await agent.call("GET", "/workflows")).body, [], name);
    }
  });
});

Deno.test("a caller that hangs up during its body is distinguished from one that sent all of it", async () => {
  await withHttpAgent(async (agent) => {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: agent.port });
    const text = listed([...JSON_POST, "Content-Length: 500"]) + '{"name":"x"}';
    await connection.write(new TextEncoder().encode(text));
    connection.close();
    const line = await until("the log line", () => agent.log.find(({ status }) => status === 400));
    assertEquals(line.reason, "Cannot read the body: it was cut off");
    assertEquals((await agent.call("GET", "/workflows")).body, []);
  });
});

Deno.test("a length that is sent twice is refused before memory is asked for", async () => {
  await withHttpAgent(async (agent) => {
    const request = post(["Content-Length: 12", "Content-Length: 12"], '{"name":"x"}');
    const answer = await rawCall(agent.port, request);
    assertEquals(answer.status, 400);
    assertMatch(answer.text, /Content-Length is \\"12, 12\\", expected one number/);
  });
});

Deno.test("a body declared larger than the limit is refused before it is sent", async () => {
  await withHttpAgent(async (agent) => {
    const request = post(["Content-Length: 99999999999"], "{");
    const answer = await rawCall(agent.port, request, { firstOnly: true });
    assertEquals(answer.status, 413);
    assertMatch(answer.text, /"code":"RequestEntityTooLarge"/);
  });
});

Deno.test("endless chunks are cut at the limit", async () => {
  await withHttpAgent(async (agent) => {
    const chunk = `400\r\n${"x".repeat(1024)}\r\n`;
    const answer = await rawCall(
      agent.port,
      post(["Transfer-Encoding: chunked"], chunk.repeat(2000)),
      { firstOnly: true },
    );
    assertEquals(answer.status, 413);
    assertEquals((await agent.call("GET", "/ping")).status, 200);
  }, { limits: { ...DEFAULT_HTTP_LIMITS, bodyBytesMax: 10_000 } });
});

Deno.test("heads that are too large or not HTTP are refused", async () => {
  await withHttpAgent(async (agent) => {
    const requests = [
      listed(["GET /jobs HTTP/1.1", "Host: localhost", `X-Large: ${"x".repeat(1_000_000)}`]),
      listed([`GET /${"x".repeat(1_000_000)} HTTP/1.1`, "Host: localhost"]),
      listed([
        "GET /jobs HTTP/1.1",
        "Host: localhost",
        ...Array.from({ length: 10_000 }, (_, n) => `X-${n}: 1`),
      ]),
      listed(["GET /jobs HTTP/1.1", "Host: localhost", "Host: evil.example"]),
      listed(["GET /jobs", "Host: localhost"]),
      "\u0016\u0003\u0001 hello\r\n\r\n",
      "SSH-2.0-x\r\n\r\n",
    ];
    for (const request of requests) {
      const { status } = await rawCall(agent.port, request, { halfClose: true });
      assert([0, 400, 403, 414, 431].includes(status), String(status));
    }
    assertEquals((await agent.call("GET", "/ping")).status, 200);
  });
});

Deno.test("odd methods and targets get 404 or 405", async () => {
  await withHttpAgent(async (agent) => {
    const cases: [string, number][] = [
      ["BREW /jobs", 405],
      ["get /jobs", 405],
      ["TRACE /jobs", 405],
      ["OPTIONS *", 404],
      ["GET /workflows/../jobs", 404],
      ["GET /jobs/../../etc/passwd", 404],
      ["GET /jobs/%2e%2e/workflows", 404],
      ["GET /jobs/..%2f..%2fetc%2fpasswd", 404],
      ["GET /jobs/%00", 404],
      ["GET /jobs/%c0%ae", 404],
      ["GET /jobs;x=1", 404],
      ["GET /jobs%3Fexecution=queued", 404],
      ["GET \\jobs", 400],
    ];
    for (const [line, status] of cases) {
      const request = listed([`${line} HTTP/1.1`, "Host: localhost", "Connection: close"]);
      assertEquals([line, (await rawCall(agent.port, request)).status], [line, status]);
    }
  });
});

Deno.test("text that is not UTF-8 is refused, and UTF-8 of every kind comes back", async () => {
  await withHttpAgent(async (agent) => {
    const send = async (bytes: readonly number[]) => {
      const head = new TextEncoder().encode(
        post([`Content-Length: ${bytes.length + 11}`], '{"name":"'),
      );
      const tail = new TextEncoder().encode('"}');
      return await rawCall(agent.port, new Uint8Array([...head, ...bytes, ...tail]));
    };
    for (
      const bytes of [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe2]]
    ) {
      const answer = await send(bytes);
      assertEquals([bytes, answer.status], [bytes, 400]);
    }
    const workflow = await newWorkflow(agent);
    const params = {
      "ключ": "\u{1F680} e\u0301 \u202e",
      half: "\ud800",
      nul: "\u0000",
      "": [1e21, -0],
    };
    const uuid = await newJob(agent, { workflow, ...params });
    const job = objectOf(await agent.call("GET", `/jobs/${uuid}`));
    assertEquals(job.params, JSON.parse(JSON.stringify(params)));
    const marked = await agent.call("POST", "/workflows", '\ufeff{"name":"after a mark"}');
    assertEquals(objectOf(marked).name, "after a mark");
  });
});

Deno.test("keys that mean something to JavaScript are data", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const inner =
      '"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"x":1';
    const text = `{"workflow":"${workflow}","target":"/a",${inner}}`;
    const answer = await agent.call("POST", "/jobs", text);
    assertEquals(answer.status, 201);
    const read = await agent.call("GET", `/jobs/${objectOf(answer).uuid}`);
    assert(read.text.includes(`"params":{${inner}}`), read.text);
    assertEquals(Object.hasOwn(Object.prototype, "polluted"), false);
    assertRefused(await agent.call("POST", "/jobs", text), 409, "ConflictError");
    const other = text.replace("true", "false");
    assertEquals((await agent.call("POST", "/jobs", other)).status, 201);
    const hidden = await agent.call("POST", "/jobs", `{"__proto__":{"workflow":"${workflow}"}}`);
    assertRefused(hidden, 409, "InvalidArgument");
  });
});

Deno.test("of repeated keys, the last one counts on routes of the specification", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("POST", "/workflows", '{"name":"a","name":"b"}');
    assertEquals(objectOf(answer).name, "b");
  });
});

Deno.test("repeated keys are refused on the agent's own routes, at any depth", async () => {
  await withHttpAgent(async (agent) => {
    const post = (body: string) => agent.call("POST", "/agent/v1/machines", body);
    for (
      const body of [
        '{"dry_run":true,"dry_run":false}',
        '{"machine":{"ram":1,"alias":"a","ram":2}}',
        '{"machine":{"nics":[{"vlan_id":1,"\\u0076lan_id":2}]}}',
        '{"__proto__":1,"__proto__":2}',
        '{"1":1,"1":2}',
      ]
    ) {
      const answer = await post(body);
      assertRefused(answer, 400, "InvalidContent");
      assertStringIncludes(answer.text, "names a member of an object twice");
    }
    // Equal names in different objects, and colons inside texts, are no such thing.
    const answer = await post('{"machine":{"alias":"a:b","nics":[{"mac":"0:1"},{"mac":"0:1"}]}}');
    assertEquals(answer.text.includes("twice"), false, answer.text);
  });
});

Deno.test("a number too large for a double is refused, not changed", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const text = `{"workflow":"${workflow}","deep":[{"n":-1e999}]}`;
    assertRefused(await agent.call("POST", "/jobs", text), 400, "InvalidContent");
  });
});

Deno.test("SQL quotes and wildcards in values are plain text", async () => {
  await withHttpAgent(async (agent) => {
    const text = "'; DROP TABLE jobs; -- % _";
    const workflow = await newWorkflow(agent, { name: text });
    const uuid = await newJob(agent, { workflow, target: text });
    const query = new URLSearchParams({ name: text, target: text });
    const found = listOf(await agent.call("GET", `/jobs?${query}`));
    assertEquals(found.map((job) => job.uuid), [uuid]);
    assertEquals((await agent.call("GET", "/jobs?target=%25")).body, []);
  });
});

Deno.test("a source nested beyond reason is refused by name", async () => {
  await withHttpAgent(async (agent) => {
    for (const open of ["(", "[", "{", "a=>", "-"]) {
      const body = `function (job, cb) {${open.repeat(100_000)}`;
      const answer = await agent.call("POST", "/workflows", { name: "x", chain: [{ body }] });
      assertRefused(answer, 409, "InvalidArgument");
    }
  });
});

Deno.test("pipelined requests are answered in order", async () => {
  await withHttpAgent(async (agent) => {
    const one = (path: string) => listed([`GET ${path} HTTP/1.1`, "Host: localhost"]);
    const last = listed(["GET /stats HTTP/1.1", "Host: localhost", "Connection: close"]);
    const { text } = await rawCall(agent.port, one("/ping") + one("/nothing") + last);
    const order = [text.indexOf('"pid"'), text.indexOf("404"), text.indexOf('"all_time"')];
    assertEquals(order.every((at, index) => at >= 0 && at > (order[index - 1] ?? -1)), true);
  });
});
