// The agent kills itself just before or just after the commit of one write, and must come back with
// everything that it has acknowledged or shown: every write of the store, the first one of its name
// and the second (promises P1 to P5).

import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { withDeadline, withFolder } from "../support/until.ts";
import {
  beginAgent,
  type ChaosAgent,
  endAgent,
  killAgent,
  length,
  startChaosAgent,
} from "./agent_under_chaos.ts";
import { expectWholeDatabase } from "./database.ts";
import { KILL_SCENARIOS, type KillScenario } from "./kill_scenario.ts";
import type { Place, Step } from "./kill_steps.ts";
import { randomOf } from "./random.ts";
import { Survey } from "./survey.ts";
import { programOfRun } from "../support/agent_process.ts";

const VARIABLE = "ZONEWRIGHT_FAILPOINT";
/** Milliseconds in which an agent has died that came to its failpoint. */
const DEATH_MS_MAX = 180_000;

interface Point {
  readonly write: string;
  readonly count: number;
  readonly when: "before" | "after";
}

for (const [index, [write, scenario]] of Object.entries(KILL_SCENARIOS).entries()) {
  const quickly = index % 2 === 0 ? "before" : "after";
  Deno.test(`an agent killed around the commit of ${write} keeps what it acknowledged`, async () => {
    for (const count of scenario.reached) {
      for (const when of ["before", "after"] as const) {
        // At the usual length before or after the first, in turns; full length takes all four.
        if (length({ quick: count !== 1 || when !== quickly, full: false })) continue;
        const point = { write, count, when };
        await withCallbacks((callbackUrl, calledBack) =>
          withFolder((folder) => dieAt(point, scenario, { folder, callbackUrl, calledBack }))
        ).catch((cause) => {
          throw new Error(`${write}:${count}:${when}: ${cause.message}`, { cause });
        });
      }
    }
  });
}

type Surroundings = Pick<Place, "folder" | "callbackUrl" | "calledBack">;

/** A life that prepares, one that ends at the point, and one that shows what is left. */
async function dieAt(point: Point, scenario: KillScenario, around: Surroundings): Promise<void> {
  const survey = new Survey(randomOf(1));
  const options = { program: programOfRun(), stateDir: join(around.folder, "state") };
  const flags = scenario.flags?.(around) ?? [];
  const placeOf = (agent: ChaosAgent): Place => ({
    ...around,
    survey,
    agent,
    deps: survey.deps(agent),
  });
  const lives: { signal: ChaosAgent["signal"]; ended: ChaosAgent["ended"] }[] = [];
  const live = async () => {
    survey.jobs.lives += 1;
    const agent = await startChaosAgent(options);
    lives.push(agent);
    return agent;
  };
  try {
    const first = await live();
    await survey.makeWorkflows(first);
    await scenario.before?.(placeOf(first));
    await killAgent(first);

    survey.jobs.lives += 1;
    const dying = beginAgent({
      ...options,
      flags: ["--dev", ...flags],
      env: { [VARIABLE]: `${point.write}:${point.count}:${point.when}` },
    });
    lives.push(dying);
    const asked = await runSteps(scenario, await dying.started, placeOf);
    const { signal } = await withDeadline(dying.ended, DEATH_MS_MAX, () => "the agent to die");
    if (signal !== "SIGKILL") throw new Error(`The failpoint was not reached:\n${dying.log()}`);
    expectWholeDatabase(options.stateDir);

    const last = await live();
    const done = point.when === "after";
    if (scenario.removes !== true) await survey.lookAtEverything(last);
    await scenario.after?.(placeOf(last), { count: point.count, done });
    if (asked?.write === point.write && asked.happened() !== done) {
      throw new Error(`The write ${done ? "was lost" : "has happened"} with the commit`);
    }
    if (scenario.removes !== true) await survey.leaveAlone(last);
  } finally {
    for (const agent of lives) await endAgent(agent);
  }
}

/** @returns what the step has asked for that was not answered */
async function runSteps(
  scenario: KillScenario,
  agent: ChaosAgent | { readonly code: number },
  placeOf: (agent: ChaosAgent) => Place,
): Promise<Step["asks"]> {
  // Some writes are made before the agent listens.
  if (!("url" in agent)) return undefined;
  const place = placeOf(agent);
  for (const step of scenario.steps(place)) {
    if (!await step.run()) return step.asks;
  }
  // What is left to be written is written by itself, or while the agent stops.
  agent.signal("SIGTERM");
  return undefined;
}

/** Runs a function while somebody takes callbacks. */
async function withCallbacks<T>(
  run: (url: string, calledBack: readonly JsonObject[]) => Promise<T>,
): Promise<T> {
  const calledBack: JsonObject[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      calledBack.push(await request.json());
      return new Response(null, { status: 204 });
    },
  );
  try {
    return await run(`http://127.0.0.1:${server.addr.port}/told`, calledBack);
  } finally {
    await server.shutdown();
  }
}
