// Numbers in a query: what is promised by the words of a refusal is what is taken.

import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { integer } from "../../src/domain/description/value.ts";
import { PAGE_FIELDS, readQuery } from "../../src/http/request/query.ts";
import { assertRefused, fieldsOf, newJob, withHttpAgent } from "./http_agent.ts";

const LARGEST = String(Number.MAX_SAFE_INTEGER);
const TOO_LARGE = [
  "9007199254740992",
  "9007199254740993",
  "9999999999999999",
  "1" + "0".repeat(20),
];

Deno.test("readQuery() takes both limits of its range and nothing beyond them", () => {
  const read = (text: string, min = 0, max = Number.MAX_SAFE_INTEGER) =>
    readQuery(`http://a/?${new URLSearchParams({ n: text })}`, { n: integer(min, max) }).n;
  assertEquals([read("0"), read(LARGEST)], [0, Number.MAX_SAFE_INTEGER]);
  assertEquals([read("2", 2, 3), read("3", 2, 3)], [2, 3]);
  const wrong = [...TOO_LARGE, "", " 1", "-1", "+1", "1.0", "1e3", "0x1"];
  for (const text of wrong) assertThrows(() => read(text), AgentError, `to ${LARGEST}`, text);
  for (const text of ["1", "4"]) assertThrows(() => read(text, 2, 3), AgentError, "from 2 to 3");
  const page = readQuery(`http://a/?offset=${LARGEST}`, PAGE_FIELDS);
  assertEquals(page, { offset: Number.MAX_SAFE_INTEGER });
});

Deno.test("lists take the largest offset that their refusal names, and no larger one", async () => {
  await withHttpAgent(async (agent) => {
    const job = await newJob(agent);
    for (const path of ["/jobs?offset=", "/workflows?offset=", `/jobs/${job}/info?after=`]) {
      const answer = await agent.call("GET", path + LARGEST);
      assertEquals([path, answer.status, answer.body], [path, 200, []]);
      for (const number of TOO_LARGE) {
        const refused = await agent.call("GET", path + number);
        assertStringIncludes(
          assertRefused(refused, 409, "InvalidArgument"),
          `to ${LARGEST}, found `,
        );
        assertEquals(fieldsOf(refused).length, 1);
      }
    }
  });
});
