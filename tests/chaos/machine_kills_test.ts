// The agent is killed while it makes a machine: inside each task, around the commit of each result,
// and at random moments. Its next life finishes the machine; the host never holds anything else.

import { assertEquals } from "@std/assert";
import { withFolder } from "../support/until.ts";
import { type ChaosAgent, length } from "./agent_under_chaos.ts";
import { type Brand, MachineRounds, type Wanted } from "./machine_rounds.ts";
import { type Random, randomOf } from "./random.ts";

const TASKS = [
  "preflight",
  "fetch_medium",
  "create_machine",
  "place_medium",
  "boot_machine",
  "wait_for_vnc",
] as const;
const BRANDS: readonly Brand[] = ["kvm", "bhyve"];
const MADE = { execution: "success", error: "" };
const SEED = Number(Deno.env.get("ZONEWRIGHT_CHAOS_SEED") ?? 1);
const RANDOM_KILLS = length({ quick: 2, full: 100 });
/** A machine takes about this long here, ms; later kills meet one that is there. */
const KILL_MS_MAX = 2_500;

async function withRounds(run: (rounds: MachineRounds) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const rounds = new MachineRounds(folder);
    await rounds.prepare();
    try {
      await run(rounds);
    } finally {
      await rounds.end();
    }
  });
}

function wantedOf(index: number): Wanted {
  const uuid = `bbbbbbbb-0000-4000-8000-${String(index).padStart(12, "0")}`;
  return { uuid, brand: BRANDS[index % BRANDS.length] ?? "kvm" };
}

/** Runs a round, and names it when it fails. */
async function named(what: string, run: () => Promise<void>): Promise<void> {
  await run().catch((cause) => {
    throw new Error(`${what}: ${cause.message}`, { cause });
  });
}

Deno.test("a machine is finished by the next life of an agent that dies inside a task", async () => {
  await withRounds(async (rounds) => {
    for (const brandIndex of length({ quick: [0], full: [0, 1] })) {
      for (const [index, task] of TASKS.entries()) {
        const wanted = wantedOf(index + brandIndex);
        await named(`killed inside ${task}, ${wanted.brand}`, async () => {
          const agent = await rounds.agent();
          const job = await rounds.post(agent, wanted);
          await rounds.begun(agent, job ?? "", task);
          await rounds.kill();
          assertEquals(await rounds.finish(wanted, job), MADE);
        });
      }
    }
  });
});

/** Commits around which the agent dies: of the claim, and of the result of each task. */
const POINTS = [
  ...["job_create:1:before", "job_create:1:after", "job_claim:1:before", "job_claim:1:after"],
  ...TASKS.flatMap((
    _,
    index,
  ) => [`job_record:${index + 1}:before`, `job_record:${index + 1}:after`]),
];

Deno.test("a machine is finished by the next life of an agent that dies around a commit", async () => {
  await withRounds(async (rounds) => {
    const quick = POINTS.filter((_, index) => index % 8 === 2);
    for (const [index, point] of length({ quick, full: POINTS }).entries()) {
      const wanted = wantedOf(index);
      await named(`killed at ${point}, ${wanted.brand}`, async () => {
        let job: string | undefined;
        await rounds.dieAt(point, async (agent) => {
          job = await rounds.post(agent, wanted);
        });
        assertEquals(await rounds.finish(wanted, job), MADE);
      });
    }
  });
});

Deno.test(`a machine is finished by an agent that is killed at random moments (seed ${SEED})`, async () => {
  const random = randomOf(SEED);
  await withRounds(async (rounds) => {
    for (let index = 0; index < RANDOM_KILLS; index += 1) {
      const wanted = wantedOf(index);
      // Fewer than the starts after which a task is given up.
      const moments = Array.from({ length: random.integer(1, 2) }, () => momentOf(random));
      await named(`round ${index}, ${wanted.brand}, killed after ${moments} ms`, async () => {
        let job: string | undefined;
        for (const moment of moments) {
          const agent = await rounds.agent();
          const dead = killLater(agent, moment);
          job ??= await rounds.post(agent, wanted);
          await dead;
          await rounds.kill();
        }
        assertEquals(await rounds.finish(wanted, job), MADE);
      });
    }
  });
});

function momentOf(random: Random): number {
  return random.integer(0, KILL_MS_MAX);
}

/** The moment of the kill is the fault: nothing waits for it but the agent's death. */
async function killLater(agent: ChaosAgent, ms: number): Promise<void> {
  const timer = setTimeout(() => agent.signal("SIGKILL"), ms);
  await agent.ended;
  clearTimeout(timer);
}
