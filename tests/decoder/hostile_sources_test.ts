// Bodies that fit every limit and cost a parser all its memory or time: the request is refused in
// plain words or accepted, and a decoder bears the cost. On the binary.

import { assert, assertEquals } from "@std/assert";
import { type AgentProcess, binaryProgram, startAgentProcess } from "../support/agent_process.ts";
import { cpuOfAgent } from "../support/processes.ts";
import { withFolder } from "../support/until.ts";

/**
 * Processor time of the agent's own process, ticks of 10 ms: it was frozen for 4 to 10 s by each of these when it
 * parsed them itself. Unlike a time, this does not depend on what else the machine does.
 */
const COST_MAX = 200;

const binary = binaryProgram();
const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";

const NAMES = Array.from({ length: 30_000 }, (_, at) => `n_${at}`);

function nested(depth: number, inner: string): string {
  return `(job, cb) => { ${"{".repeat(depth)}${inner}${"}".repeat(depth)} cb() }`;
}

/** Each has under 256 Ki characters. */
const BODIES: Record<string, string> = {
  "var of 30,000 names in 100 blocks": nested(100, `var ${NAMES.join()};`),
  "var of 30,000 names in 1,000 blocks": nested(1000, `var ${NAMES.join()};`),
  "let of 30,000 names in 95 blocks": nested(95, `let ${NAMES.join()};`),
  "100,000 open brackets": `() => ${"[".repeat(100_000)}`,
  "40,000 labels on one statement": `() => { ${"a:".repeat(40_000)}; }`,
  "60,000 templates in one another": `() => ${"`${".repeat(60_000)}`,
  "120,000 slashes after of": `() => { a?.of\n${"/ ".repeat(120_000)} }`,
  "30,000 uses of a private name": `() => { class A { m() { ${"this.#a;".repeat(30_000)} } } }`,
  "30,000 open groups of a regular expression": `() => /${"(?<a>".repeat(30_000)}/`,
};

/** Posts a body twice at once. @returns the processor time that it cost the agent's own process, ticks */
async function costOf(
  agent: AgentProcess,
  { name, body }: { readonly name: string; readonly body: string },
): Promise<number> {
  const before = await cpuOfAgent(agent.stateDir);
  const posts = [1, 2].map((count) =>
    agent.post("/workflows", { name: `${name} ${count}`, chain: [{ body }] })
  );
  assertEquals((await agent.get("/stats")).status, 200);
  for (const { status, body: reported } of await Promise.all(posts)) {
    assert(status === 201 || status === 409, `${status} ${JSON.stringify(reported)}`);
  }
  return await cpuOfAgent(agent.stateDir) - before;
}

Deno.test({
  name: "no source freezes or ends the agent that checks it [needs dist/zonewright]",
  ignore: binary === undefined && !required,
  async fn(t) {
    assert(binary !== undefined);
    await withFolder(async (folder) => {
      const agent = await startAgentProcess(binary, folder, ["--dev"]);
      try {
        for (const [name, body] of Object.entries(BODIES)) {
          assert(body.length < 256 * 1024, `${name} has ${body.length} characters`);
          await t.step(name, async () => {
            const cost = await costOf(agent, { name, body });
            assert(cost < COST_MAX, `the agent's own process worked for ${cost} ticks`);
          });
        }
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    });
  },
});
