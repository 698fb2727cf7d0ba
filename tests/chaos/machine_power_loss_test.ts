// The agent and vmadm die at the same moment, killed with -9, while a machine is being made: with its
// volumes and nothing else, and in each state that follows. The next life of the agent finishes the
// machine, or removes all of it.

import { assertEquals } from "@std/assert";
import { mapLimited } from "../../src/runtime/run.ts";
import { until, withFolder } from "../support/until.ts";
import { length } from "./agent_under_chaos.ts";
import { type Brand, MachineRounds, type Wanted } from "./machine_rounds.ts";

const BRANDS: readonly Brand[] = ["kvm", "bhyve"];
/** What vmadm is at, and how that is seen: by volumes, or by the state of the machine. */
const PHASES = ["volumes", "configure", "install", "provision"] as const;
type Phase = typeof PHASES[number];
/** Longer than it takes to see it and to cut the power. */
const PHASE_MS = 60_000;
/** Rounds at one time; they mostly wait for a machine that does not appear. */
const AT_ONCE = 4;

interface Round {
  readonly brand: Brand;
  readonly phase: Phase;
  readonly canceled: boolean;
}

const EVERY: readonly Round[] = PHASES.flatMap((phase) =>
  BRANDS.flatMap((brand) => [true, false].map((canceled) => ({ brand, phase, canceled })))
);
const ROUNDS = length({
  quick: EVERY.filter(({ phase, canceled }) => phase === "volumes" && canceled),
  full: EVERY,
});

Deno.test("after agent and vmadm die together, a machine is complete or gone", async () => {
  const failures: string[] = [];
  await mapLimited(ROUNDS, AT_ONCE, async (round) => {
    await play(round).catch((error: Error) => {
      failures.push(`${round.brand}, ${round.phase}, canceled ${round.canceled}: ${error.message}`);
    });
  });
  assertEquals(failures, []);
});

async function play({ brand, phase, canceled }: Round): Promise<void> {
  await withFolder(async (folder) => {
    const rounds = new MachineRounds(folder);
    await rounds.prepare();
    try {
      const wanted: Wanted = { uuid: crypto.randomUUID(), brand };
      await rounds.slow(phase, PHASE_MS);
      const job = await rounds.post(await rounds.agent(), wanted);
      await until(`vmadm to be at ${phase}`, () => isAt(rounds, wanted.uuid, phase));
      await rounds.cutPower();
      assertEquals((await rounds.datasets()).every((name) => name.includes(wanted.uuid)), true);
      await rounds.slow(phase);
      if (canceled) await (await rounds.agent()).ask("POST", `/jobs/${job}/cancel`, {});
      const { execution } = await rounds.finish(wanted, job);
      assertEquals(execution, canceled ? "canceled" : "success");
    } finally {
      await rounds.end();
    }
  });
}

/** States of a machine by the phase that shows them. */
const STATES = { configure: "configured", install: "incomplete", provision: "provisioning" };

async function isAt(rounds: MachineRounds, uuid: string, phase: Phase): Promise<boolean> {
  if (phase === "volumes") return (await rounds.datasets()).some((name) => name.includes("disk0"));
  const words = await rounds.simulate("vmadm", "lookup", "-j", "-o", "uuid,state");
  const [machine] = JSON.parse(words);
  return machine?.uuid === uuid && machine.state === STATES[phase];
}
