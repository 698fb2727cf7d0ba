// Jobs, workflows and machines by the beginning of their uuid or by their name, against the real application.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { shortUuids } from "../../src/cli/command/named.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { type HttpAgent, newJob, newWorkflow, withHttpAgent } from "../http/http_agent.ts";
import { said } from "./screen.ts";

/** Makes jobs until two of them begin alike. @returns them, and the characters that they share */
async function alike(agent: HttpAgent): Promise<{ jobs: JobUuid[]; beginning: string }> {
  const workflow = await newWorkflow(agent, { name: "hello" });
  const seen = new Map<string, JobUuid>();
  for (let count = 0; count < 5000; count++) {
    const uuid = await newJob(agent, { workflow });
    const beginning = uuid.slice(0, 4);
    const other = seen.get(beginning);
    if (other !== undefined) return { jobs: [other, uuid], beginning };
    seen.set(beginning, uuid);
  }
  throw new Error("no two uuids begin alike");
}

Deno.test("shortUuids() shows 8 characters, or as many as are unique", () => {
  assertEquals(shortUuids(["6c1e8f0a-6a53", "51fe8f0a-6a53"]), ["6c1e8f0a", "51fe8f0a"]);
  assertEquals(shortUuids(["6c1e8f0a-6a53", "6c1e8f0a-6b53"]), ["6c1e8f0a-6a", "6c1e8f0a-6b"]);
  assertEquals(shortUuids(["6c1e8f0a-6a53", "6c1e8f0a-6a53"]), ["6c1e8f0a", "6c1e8f0a"]);
  assertEquals(shortUuids([]), []);
});

Deno.test("every command about one job takes the beginning of its uuid, in either case", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const short = uuid.slice(0, 4).toUpperCase();
    const got = await said(agent, ["job", "get", short]);
    assertEquals([got.code, got.err()], [0, ""]);
    assertStringIncludes(got.out(), uuid);
    assertEquals((await said(agent, ["job", "info", short])).code, 0);
    const curl = await said(agent, ["job", "cancel", short, "--curl"]);
    assertStringIncludes(curl.out(), `/jobs/${uuid}/cancel`);
    const canceled = await said(agent, ["job", "cancel", uuid.slice(0, 8)]);
    assertEquals([canceled.code, canceled.out()], [0, `${uuid} canceled\n`]);
    assertEquals(canceled.err(), `job ${uuid} (sample, queued, gz-7, 1 m old)\n`);
    const made = await said(agent, ["job", "retry", short, "--json"]);
    assertEquals(made.code, 0);
  }));

Deno.test("a beginning of several uuids exits 2 with the candidates", () =>
  withHttpAgent(async (agent) => {
    const { jobs, beginning } = await alike(agent);
    const { code, out, err } = await said(agent, ["job", "get", beginning]);
    assertEquals([code, out()], [2, ""]);
    assertStringIncludes(
      err(),
      `Cannot choose job "${beginning}": 2 uuids begin so, expected more characters of one of them`,
    );
    for (const uuid of jobs) {
      assertMatch(err(), new RegExp(`^  ${uuid.slice(0, 8)}.*  hello, q`, "m"));
    }
    const json = await said(agent, ["job", "get", beginning, "--json"]);
    const { errors, exit_code } = JSON.parse(json.err());
    assertEquals([exit_code, errors.length, json.out()], [2, 2, ""]);
  }));

Deno.test("a word that no uuid begins with exits 4 and says what is expected", () =>
  withHttpAgent(async (agent) => {
    for (const kind of ["job", "machine"]) {
      const { code, err } = await said(agent, [kind, "get", "0123"]);
      assertEquals(code, 4);
      assertMatch(
        err(),
        /^zonewright: Cannot find \w+ "0123": none .*has a uuid that begins with it$/m,
      );
    }
    for (const word of ["abc", "hello", "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11-6a"]) {
      for (const kind of ["job", "machine"]) {
        const { code, out, err } = await said(agent, [kind, "get", word]);
        assertEquals([word, code, out()], [word, 4, ""]);
        assertMatch(err(), /a uuid or its first 4 characters or more\nhint: zonewright /);
      }
    }
  }));

Deno.test("a cancel by fewer than 8 characters asks on a terminal, and is refused with --yes", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const line = ["job", "cancel", uuid.slice(0, 5)];
    const piped = await said(agent, line);
    assertEquals([piped.code, piped.out()], [2, ""]);
    assertStringIncludes(piped.err(), "there is no terminal to ask on");
    const yes = await said(agent, [...line, "--yes"]);
    assertEquals(yes.code, 2);
    assertStringIncludes(yes.err(), "with --yes, expected 8 characters of its uuid or more");
    const no = await said(agent, line, { isTerminal: true, answer: "n" });
    assertEquals(no.code, 1);
    assertStringIncludes(no.err(), `Cancel job ${uuid} (sample, queued, gz-7, 1 m old)? [y/N] `);
    assertEquals((await agent.store.jobs.get(uuid))?.execution, "queued");
    assertEquals((await said(agent, line, { isTerminal: true, answer: "y" })).code, 0);
    assertEquals((await agent.store.jobs.get(uuid))?.execution, "canceled");
  }));

Deno.test("a whole name of a workflow wins over the beginning of another's uuid", () =>
  withHttpAgent(async (agent) => {
    const first = await newWorkflow(agent, { name: "first" });
    const beginning = first.slice(0, 8);
    const got = await said(agent, ["workflow", "get", beginning]);
    assertMatch(got.out(), /^name +first$/m);
    const named = await newWorkflow(agent, { name: beginning });
    const whole = await said(agent, ["workflow", "get", beginning]);
    assertStringIncludes(whole.out(), named);
    const longer = first.slice(0, 9);
    assertEquals((await said(agent, ["job", "run", longer])).code, 0);
    const [listed] = await agent.store.jobs.list({});
    assertEquals(listed?.job.workflow_uuid as string, first);
    const deleted = await said(agent, ["workflow", "delete", longer]);
    assertEquals([deleted.code, deleted.out()], [0, ""]);
    assert(deleted.err().startsWith(`workflow ${first} (first`), deleted.err());
    const few = await said(agent, ["workflow", "delete", named.slice(0, 6), "--yes"]);
    assertEquals(few.code, 2);
  }));
