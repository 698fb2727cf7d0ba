// Two agents that start at the same moment on one state folder: one of them serves, the other says
// why not, and what is in the folder stays as it is.

import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { join } from "@std/path";
import { canonicalJson } from "../../src/domain/json.ts";
import { withFolder } from "../support/until.ts";
import {
  beginAgent,
  type ChaosAgent,
  endAgent,
  type Ended,
  killAgent,
  length,
  listOf,
  objectOf,
  startChaosAgent,
  type StartingAgent,
} from "./agent_under_chaos.ts";
import { QUICK } from "./workloads.ts";
import { programOfRun } from "../support/agent_process.ts";

const PAIRS = length({ quick: 6, full: 20 });

Deno.test("of two agents that start on a new state folder, one serves", async () => {
  for (let pair = 0; pair < PAIRS / 2; pair++) {
    await withFolder(async (folder) => {
      const winner = await race(join(folder, "state"));
      await endAgent(winner);
    });
  }
});

Deno.test("of two agents that start on a folder with data, one serves and the data is untouched", async () => {
  await withFolder(async (folder) => {
    const program = programOfRun();
    const stateDir = join(folder, "state");
    const first = await startChaosAgent({ program, stateDir });
    const later = new Date(Date.now() + 86_400_000).toISOString();
    const workflow = await first.ask("POST", "/workflows", { name: "kept", ...QUICK.definition });
    for (let job = 0; job < 20; job++) {
      const request = { workflow: objectOf(workflow).uuid ?? "", job, exec_after: later };
      assertEquals((await first.ask("POST", "/jobs", request)).status, 201);
    }
    const before = await contentsOf(first);
    await killAgent(first);
    for (let pair = 0; pair < PAIRS / 2; pair++) {
      const winner = await race(stateDir);
      try {
        assertEquals(await contentsOf(winner), before);
      } finally {
        // By turns the folder is left as a crash leaves it, and in order.
        winner.signal((PAIRS / 2 - pair) % 2 === 0 ? "SIGKILL" : "SIGTERM");
        await winner.ended;
      }
    }
  });
});

/** @returns the agent that serves */
async function race(stateDir: string): Promise<ChaosAgent> {
  const program = programOfRun();
  const pair = [beginAgent({ program, stateDir }), beginAgent({ program, stateDir })];
  try {
    const [one, other] = await Promise.all(pair.map(({ started }) => started));
    assert(one !== undefined && other !== undefined);
    const winners = [one, other].filter((agent) => "url" in agent);
    assertEquals(winners.length, 1, `of two agents ${winners.length} serve`);
    const winner = winners[0] as ChaosAgent;
    const loser = one === winner ? other : one;
    const losing = (one === winner ? pair[1] : pair[0]) as StartingAgent;
    assertNotEquals((loser as Ended).code, 0);
    assertEquals((loser as Ended).signal, null);
    const line = losing.log().split("\n").find((line) =>
      line.includes("Cannot use the state folder")
    );
    assert(line?.includes("is using it"), `no clear words in:\n${losing.log()}`);
    assertEquals((await winner.ask("GET", "/ping")).status, 200);
    return winner;
  } catch (error) {
    for (const agent of pair) await killAgent(agent);
    throw error;
  }
}

/** All jobs and workflows, in words that can be compared. */
async function contentsOf(agent: ChaosAgent): Promise<string> {
  const jobs = listOf(await agent.ask("GET", "/jobs"));
  const workflows = listOf(await agent.ask("GET", "/workflows"));
  assertEquals([jobs.length, workflows.length], [20, 1]);
  return canonicalJson([jobs, workflows]);
}
