// Bodies that fit every limit and cost a parser all its memory or time: the request is refused in
// plain words or accepted, and the agent answers others meanwhile. On the binary.

import { assert, assertEquals } from "@std/assert";
import { type AgentProcess, binaryProgram, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";

/** A frozen agent took 4 to 10 s for each, every time. */
const SILENCE_MS_MAX = 3000;
/** Other work on the machine may hold up the agent too, but not so often in a row. */
const TRIES = 3;

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

/** Posts a body twice at once. @returns how long nothing was answered meanwhile, milliseconds */
async function silenceOf(
  agent: AgentProcess,
  { name, body }: { readonly name: string; readonly body: string },
): Promise<number> {
  let answered = false;
  const posts = [1, 2].map((count) =>
    agent.post("/workflows", { name: `${name} ${count}`, chain: [{ body }] })
  );
  const all = Promise.all(posts).finally(() => answered = true);
  let longestMs = 0;
  do {
    const began = performance.now();
    assertEquals((await agent.get("/stats")).status, 200);
    longestMs = Math.max(longestMs, performance.now() - began);
    // Not a wait for something: a pause between two looks.
    await new Promise((resolve) => setTimeout(resolve, 20));
  } while (!answered);
  for (const { status, body: reported } of await all) {
    assert(status === 201 || status === 409, `${status} ${JSON.stringify(reported)}`);
  }
  return longestMs;
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
            let silentMs = Infinity;
            for (let at = 1; at <= TRIES && silentMs >= SILENCE_MS_MAX; at++) {
              const named = { name: `${name} ${at}`, body: `${body}${" ".repeat(at)}` };
              silentMs = await silenceOf(agent, named);
            }
            assert(silentMs < SILENCE_MS_MAX, `/stats took ${silentMs} ms`);
          });
        }
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    });
  },
});
