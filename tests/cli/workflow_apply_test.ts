// `workflow apply`, and which workflow `job run NAME` takes where several have the name.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { BODY, newWorkflow, withHttpAgent } from "../http/http_agent.ts";
import { document, said } from "./screen.ts";

const FILE = { name: "hello", chain: [{ name: "first", body: BODY }] };

Deno.test("workflow apply creates a workflow, then replaces it, and says which of the two", () =>
  withHttpAgent(async (agent) => {
    const apply = (content: unknown, ...flags: string[]) =>
      said(agent, ["workflow", "apply", "-f", "-", ...flags], { input: JSON.stringify(content) });
    const first = await apply(FILE);
    const [, uuid = ""] = first.out().split(" ");
    assertEquals([first.code, first.out()], [0, `created ${uuid} hello\n`]);
    const second = await apply({ ...FILE, timeout: 60 });
    assertEquals([second.code, second.out()], [0, `replaced ${uuid} hello\n`]);
    const third = await apply({ ...FILE, timeout: 90 }, "--json");
    assertEquals(third.code, 0);
    const { applied, workflow } = document(third) as {
      applied: string;
      workflow: { uuid: string; timeout: number };
    };
    assertEquals([applied, workflow.uuid, workflow.timeout], ["replaced", uuid, 90]);
  }));

Deno.test("the next command after create and apply can be copied, whatever the name", () =>
  withHttpAgent(async (agent) => {
    const input = JSON.stringify({ ...FILE, name: "it's $(id); two words" });
    for (const verb of ["create", "apply"]) {
      const { code, err } = await said(agent, ["workflow", verb, "-f", "-"], {
        input,
        isTerminal: true,
      });
      assertEquals(code, 0);
      assertStringIncludes(
        err(),
        String.raw`zonewright job run 'it'\''s $(id); two words' --follow  (run it)`,
      );
    }
  }));

Deno.test("workflow apply replaces none of several with one name, and exits 6", () =>
  withHttpAgent(async (agent) => {
    const uuids = [await newWorkflow(agent, FILE), await newWorkflow(agent, FILE)];
    const input = JSON.stringify({ ...FILE, timeout: 60 });
    const { code, out, err } = await said(agent, ["workflow", "apply", "-f", "-"], { input });
    assertEquals([code, out()], [6, ""]);
    assertEquals(
      err(),
      `zonewright: Cannot replace workflow "hello": 2 have that name, expected one of the uuids ${
        uuids.join(", ")
      }\nhint: zonewright workflow list --all  shows the workflows\n`,
    );
    const listed = await said(agent, ["workflow", "list", "--json"]);
    const workflows = document(listed) as { timeout?: number }[];
    assertEquals(workflows.map(({ timeout }) => timeout), [undefined, undefined]);
  }));

Deno.test("workflow apply of a file without a name is refused by the agent, which names the field", () =>
  withHttpAgent(async (agent) => {
    const input = JSON.stringify({ chain: FILE.chain });
    const { code, err } = await said(agent, ["workflow", "apply", "-f", "-"], { input });
    assertEquals(code, 2);
    assertStringIncludes(err(), "name is missing");
  }));

Deno.test("job run takes the newest of several workflows that do the same", () =>
  withHttpAgent(async (agent) => {
    await newWorkflow(agent, FILE);
    const newest = await newWorkflow(agent, FILE);
    const run = await said(agent, ["job", "run", "hello", "--json"]);
    assertEquals(run.code, 0);
    assertEquals((document(run) as { workflow_uuid: string }).workflow_uuid, newest);
  }));

Deno.test("job run names several workflows of one name that differ, and exits 2", () =>
  withHttpAgent(async (agent) => {
    const uuids = [
      await newWorkflow(agent, FILE),
      await newWorkflow(agent, { ...FILE, timeout: 60 }),
    ];
    const { code, out, err } = await said(agent, ["job", "run", "hello"]);
    assertEquals([code, out()], [2, ""]);
    assertStringIncludes(err(), '"hello": 2 have that name, expected one of their uuids\n');
    for (const uuid of uuids) assertStringIncludes(err(), `  ${uuid.slice(0, 8)}  hello, 1 task\n`);
    assertStringIncludes(err(), "hint: zonewright workflow list");
  }));
