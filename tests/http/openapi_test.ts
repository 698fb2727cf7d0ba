// The agent's description as a document: the rules of OpenAPI 3.1, and its own promises to readers.

import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { errorResponse } from "../../src/http/answer/error_response.ts";
import { VERSION } from "../../src/runtime/executable.ts";
import { resolved, schemaProblems } from "../support/json_schema.ts";
import { OPENAPI_DEFINITIONS, OPENAPI_RULES } from "../support/openapi_rules.ts";
import { withHttpAgent } from "./http_agent.ts";
import { contentOf, inPlace, membersOf, OPENAPI, OPERATIONS } from "./openapi_operations.ts";

const COMPONENTS = inPlace(OPENAPI.components);

/** Every object of a value, with its place, itself included. */
function objectsOf(value: JsonValue, at = "#"): [place: string, object: JsonObject][] {
  if (Array.isArray(value)) return value.flatMap((item, n) => objectsOf(item, `${at}/${n}`));
  if (!isJsonObject(value)) return [];
  const inner = Object.entries(value).flatMap(([name, item]) => objectsOf(item, `${at}/${name}`));
  return [[at, value], ...inner];
}

const OBJECTS = objectsOf(OPENAPI);

Deno.test("the description keeps the rules of OpenAPI 3.1", () => {
  assertEquals(schemaProblems(OPENAPI, OPENAPI_RULES, OPENAPI_DEFINITIONS), []);
  assertEquals(inPlace(OPENAPI.info).version, VERSION);
});

Deno.test("the description names no host, and uses no keyword of OpenAPI 3.0", () => {
  const text = JSON.stringify(OPENAPI);
  const hosts = [...text.matchAll(/https?:\/\/([^/"\s]+)/g)].map(([, host]) => host ?? "");
  assertEquals(hosts.filter((host) => !host.endsWith(".example.com")), []);
  assertEquals(OBJECTS.filter(([, object]) => "nullable" in object).map(([place]) => place), []);
});

Deno.test("every reference of the description leads to a component, and each is referred to", () => {
  const references = OBJECTS.flatMap(([, { $ref }]) => typeof $ref === "string" ? [$ref] : []);
  const broken = references.filter((reference) => !isJsonObject(resolved(OPENAPI, reference)));
  assertEquals(broken, []);
  const names = Object.entries(COMPONENTS).flatMap(([kind, members]) =>
    Object.keys(inPlace(members)).map((name) => `#/components/${kind}/${name}`)
  );
  // Ways to show who one is are referred to by their names.
  const schemes = (Array.isArray(OPENAPI.security) ? OPENAPI.security : [])
    .flatMap((one) =>
      Object.keys(inPlace(one)).map((name) => `#/components/securitySchemes/${name}`)
    );
  assertEquals(names.filter((name) => ![...references, ...schemes].includes(name)), []);
});

Deno.test("every required property of the description is a property", () => {
  for (const [place, { type, required, properties }] of OBJECTS) {
    if (type !== "object" || !Array.isArray(required)) continue;
    const named = Object.keys(inPlace(properties));
    assertEquals(required.filter((name) => !named.includes(String(name))), [], place);
  }
});

Deno.test("every part of a path is a parameter, and every parameter of a path is a part", () => {
  for (const { id, path, parameters } of OPERATIONS) {
    const parts = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name ?? "");
    const named = parameters.filter((one) => one.in === "path").map(({ name }) => name);
    assertEquals(named, parts, id);
    const keys = parameters.map((one) => `${one.in} ${one.name}`);
    assertEquals(keys.length, new Set(keys).size, `${id} has a parameter twice`);
  }
});

Deno.test("operations have names of their own, and tags that are described", () => {
  const ids = OPERATIONS.map(({ id }) => id);
  assertEquals(ids.length, new Set(ids).size);
  const tags = Array.isArray(OPENAPI.tags) ? OPENAPI.tags.map((tag) => inPlace(tag).name) : [];
  const used = new Set(OPERATIONS.flatMap((one) => one.tags));
  assertEquals([...used].sort(), tags.sort());
});

Deno.test("every answer with a body, and every body, shows an example that fits its schema", () => {
  let shown = 0;
  for (const { id, body, responses } of OPERATIONS) {
    const answers = [...responses].map(([status, response]) =>
      [`${id} ${status}`, contentOf(response)] as const
    );
    for (const [place, content] of [[id, body] as const, ...answers]) {
      if (content === undefined) continue;
      assert(content.examples.length > 0, `${place} has no example`);
      for (const example of content.examples) {
        const problems = schemaProblems(example, content.schema, OPENAPI, { named: true });
        assertEquals(problems, [], place);
        shown += 1;
      }
    }
  }
  assert(shown > 100, `${shown} examples`);
});

Deno.test("every example of a parameter, and every default, fits its schema", () => {
  for (const { id, parameters } of OPERATIONS) {
    for (const { name, schema, example } of parameters) {
      assertEquals(schemaProblems(example, schema, OPENAPI), [], `${id}, ${name}`);
    }
  }
  for (const [place, object] of OBJECTS) {
    if (object.default === undefined || object.type === undefined) continue;
    assertEquals(schemaProblems(object.default, object, OPENAPI), [], place);
  }
});

Deno.test("the errors of the examples are what the agent makes of their codes", async () => {
  let seen = 0;
  for (const [name, response] of membersOf(COMPONENTS.responses)) {
    const statuses = OPERATIONS.flatMap(({ responses }) =>
      [...responses].filter(([, one]) => one === response).map(([status]) => status)
    );
    for (const example of contentOf(response)?.examples ?? []) {
      const { error_code, code, message } = inPlace(example);
      // The document's own codes; one that is none would be answered as 500.
      const error = new AgentError(error_code as ErrorCode, String(message));
      const answered = errorResponse(error, "r");
      assertEquals(new Set(statuses), new Set([String(answered.status)]), name);
      assertEquals((await answered.json()).code, code, name);
      seen += 1;
    }
  }
  assert(seen >= 12);
});

Deno.test("GET /openapi.json answers the description with a strong tag, and 304 to that", async () => {
  await withHttpAgent(async (agent) => {
    const plain = { "accept-encoding": "identity" };
    const answer = await agent.call("GET", "/openapi.json", undefined, plain);
    assertEquals([answer.status, answer.body], [200, OPENAPI]);
    assertEquals(answer.headers.get("content-type"), "application/json");
    assertEquals(answer.headers.get("last-modified"), new Date(agent.clock.now).toUTCString());
    const etag = answer.headers.get("etag") ?? "";
    const head = await agent.call("HEAD", "/openapi.json", undefined, plain);
    assertEquals([head.status, head.text, head.headers.get("etag")], [200, "", etag]);
    assertEquals(
      head.headers.get("content-length"),
      String(new TextEncoder().encode(answer.text).byteLength),
    );
    const packed = await agent.call("GET", "/openapi.json");
    assertEquals(packed.body, OPENAPI);
    const packedTag = packed.headers.get("etag") ?? "";
    assertNotEquals(packedTag, etag);
    for (const tag of [etag, packedTag, `W/${etag}, "x"`, "*"]) {
      const again = await agent.call("GET", "/openapi.json", undefined, { "if-none-match": tag });
      assertEquals([tag, again.status, again.text], [tag, 304, ""]);
    }
    const other = await agent.call("GET", "/openapi.json", undefined, { "if-none-match": '"x"' });
    assertEquals(other.status, 200);
  });
});
