// Every example request of the description, sent as it is written to a real agent: each succeeds,
// and the answer is described in every field.

import { assert, assertEquals } from "@std/assert";
import { isJsonObject, type JsonValue } from "../../src/domain/json.ts";
import { withExample, withWorld } from "./openapi_agent.ts";
import type { HttpAgent } from "./http_agent.ts";
import {
  assertDescribed,
  inPlace,
  isRefused,
  type Operation,
  OPERATIONS,
  type Parameter,
  pathOf,
  SEEN,
} from "./openapi_operations.ts";

/** Without the one that a store of one host always refuses: hosts_test.ts shows it. */
const REAL = OPERATIONS.filter((one) => !isRefused(one) && one.id !== "host_forget");

/** Queries of an operation: without what may be left out, with each of it, and with all. */
function queriesOf({ parameters }: Operation): string[] {
  const inQuery = parameters.filter((one) => one.in === "query");
  const required = inQuery.filter((one) => one.required);
  const optional = inQuery.filter((one) => !one.required);
  const sets = [required, ...optional.map((one) => [...required, one]), inQuery];
  return [...new Set(sets.map(queryOf))];
}

function queryOf(parameters: readonly Parameter[]): string {
  // An object stands in a query by its members.
  const query = parameters.flatMap(({ name, example }) =>
    Object.entries(isJsonObject(example) ? example : { [name]: example })
      .map(([key, value]) => [key, String(value)])
  );
  return query.length === 0 ? "" : `?${new URLSearchParams(query)}`;
}

/** Sends an example, and asserts that its answer is a success that is described. */
async function succeed(
  agent: HttpAgent,
  one: Operation,
  query: string,
  body: JsonValue | undefined,
): Promise<string> {
  const headers = Object.fromEntries(
    one.parameters.filter((parameter) => parameter.in === "header")
      .map(({ name, example }) => [name, String(example)]),
  );
  const answer = await agent.call(one.method, pathOf(one) + query, body, headers);
  assertDescribed(one, answer);
  assert(answer.status < 300, `${one.id}${query}: ${answer.status} ${answer.text}`);
  assertEquals(answer.headers.get("x-request-id"), "deploy-42");
  if (Array.isArray(answer.body)) assert(answer.body.length > 0, `${one.id}${query} found none`);
  return String(answer.status);
}

Deno.test("every example of the description succeeds and is answered as described", async () => {
  await withWorld(async (world) => {
    const seen = new Map<string, Set<string>>();
    for (const wording of ["document", "node-workflow"] as const) {
      for (const one of REAL) {
        const statuses = seen.get(one.id) ?? new Set();
        seen.set(one.id, statuses);
        for (const query of queriesOf(one)) {
          for (const body of one.body?.examples ?? [undefined]) {
            await withExample(world, wording, one.id, async (agent) => {
              statuses.add(await succeed(agent, one, query, body));
            });
          }
        }
      }
    }
    await world.settled();
    // The other way round: no success is described that no example leads to, 304 left to the next.
    for (const { id, responses } of REAL) {
      const described = [...responses.keys()]
        .filter((status) => status < "300" && UPLOADS_OF_PARTS[id]?.includes(status) !== true);
      assertEquals([...seen.get(id) ?? []].sort(), described.sort(), id);
    }
    assertEquals(unseenProperties().filter((place) => !UNSEEN.test(place)), []);
  });
});

/** Answers to one part of several, and to a file that takes another's place. */
const UPLOADS_OF_PARTS: Readonly<Record<string, readonly string[]>> = {
  media_upload: ["200", "202"],
};

/** What no example's answer has: of streams, of failures and rare states, of an index's extras, and of a request repeated. */
const UNSEEN = new RegExp(
  "^(\\w+Event|FieldError|Media|ChecksumSource|Finding|IndexProgress|OsinfoRef|RefusedJob|Signature|UnfinishedUpload)\\b|" +
    "\\.(changes|problems)\\.items$|^IndexSync\\.retry_after_seconds$|" +
    "^MachineStarted\\.host_state$|^Job\\.(next_attempt|next_attempt_refused|oncancel|oncancel_results|ordered_by|runner_id|host_state|placement|stop_confirmed)$|" +
    "^TaskResult\\.properties\\.error|^VncInfo\\.properties\\.vnc\\.password$|" +
    "^Workflow(Read)?\\.(oncancel|placement|secret_params)$",
);

/** Properties of successful answers that none had so far, so that none is described without being there. */
function unseenProperties(): string[] {
  const unseen: string[] = [];
  const visited = new Set<string>();
  const visit = (value: JsonValue, place: string): void => {
    if (Array.isArray(value)) value.forEach((inner, at) => visit(inner, `${place}[${at}]`));
    if (!isJsonObject(value)) return;
    const { $ref, properties } = value;
    if (typeof $ref === "string" && !visited.has($ref)) {
      visited.add($ref);
      visit(inPlace(value), $ref.replace("#/components/schemas/", ""));
    }
    if (isJsonObject(properties)) {
      const seen = SEEN.get(properties);
      const names = Object.keys(properties).filter((name) => !seen?.has(name));
      unseen.push(...seen === undefined ? [place] : names.map((name) => `${place}.${name}`));
    }
    for (const [name, inner] of Object.entries(value)) visit(inner, `${place}.${name}`);
  };
  for (const { id, responses } of REAL) {
    for (const [status, { content }] of responses) {
      if (status < "300") visit(content ?? {}, id);
    }
  }
  return unseen.sort();
}

Deno.test("every operation that describes 304 answers it to the tag that it gave", async () => {
  await withWorld(async (world) => {
    const conditional = REAL.filter(({ responses }) => responses.has("304"));
    assertEquals(conditional.length, 10);
    await withExample(world, "document", "", async (agent) => {
      for (const one of conditional) {
        const { headers } = await agent.call("GET", pathOf(one));
        const conditions = [
          ["if-none-match", headers.get("etag")],
          ["if-modified-since", headers.get("last-modified")],
        ] as const;
        for (const [name, value] of conditions) {
          const answer = await agent.call("GET", pathOf(one), undefined, { [name]: value ?? "" });
          assertEquals([one.id, name, answer.status], [one.id, name, 304]);
          assertDescribed(one, answer);
        }
      }
    });
  });
});
