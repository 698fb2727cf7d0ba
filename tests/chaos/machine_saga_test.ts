// The making of a machine as a saga: each task fails before and after its work, the agent dies before
// and after each of its records, every task and its undoing run twice, and each call of the undoing
// fails. Afterwards there is a whole machine or none.

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import type { Job } from "../../src/domain/job/job.ts";
import { machineUuidOf, type SimulatedHost } from "../capabilities/simulated_host.ts";
import {
  assertConsole,
  MADE_FAILURE,
  paramsFor,
  type Provisioning,
  type Steps,
  withProvisioning,
} from "../workflows/provisioning.ts";
import { length } from "./agent_under_chaos.ts";
import { selfOfRun } from "../support/agent_process.ts";

const UUID = machineUuidOf(1);
const TASKS = [
  "preflight",
  "fetch_medium",
  "create_machine",
  "place_medium",
  "boot_machine",
  "wait_for_vnc",
];
const BRANDS: readonly string[] = ["kvm", "bhyve"];
/** Deadlines of calls that hang; others need a fraction of it. */
const CALL_MS = 8_000;
const DEADLINES_MS = { lookup: CALL_MS, stop: CALL_MS, delete: CALL_MS };

/** Both brands at full length, else one after the other. */
function brandsOf(index: number): readonly JsonObject[] {
  const brands = length({ quick: [BRANDS[index % 2] ?? "kvm"], full: BRANDS });
  return brands.map((brand) => ({ brand }));
}

async function whole(host: SimulatedHost, job: Job): Promise<void> {
  assertEquals([job.execution, job.chain_results.length], ["succeeded", TASKS.length]);
  await assertConsole(job);
  await host.assertHolds(UUID);
}

async function none(host: SimulatedHost, job: Job): Promise<void> {
  assertEquals(job.execution, "failed");
  assertEquals(job.onerror_results.map(({ error }) => error), [""]);
  await host.assertHolds();
  assertEquals(Array.from(Deno.readDirSync(host.transport.zonesRoot)), []);
}

/** Runs the workflow for each brand under the same mishaps. */
async function play(
  index: number,
  steps: (host: SimulatedHost) => Steps,
  after: (host: SimulatedHost, job: Job) => Promise<void>,
): Promise<void> {
  for (const machine of brandsOf(index)) {
    await withProvisioning(async ({ host, provision }: Provisioning) => {
      await after(host, await provision(paramsFor(host, UUID, machine), steps(host)));
    }, { vmadmDeadlinesMs: DEADLINES_MS, self: selfOfRun() });
  }
}

for (const [index, task] of TASKS.entries()) {
  const first = (name: string, times: number) => name === task && times === 1;

  Deno.test(`saga: nothing is left when ${task} fails before its work`, async () => {
    const steps: Steps = { insteadOf: (name) => name === task ? "fails" : undefined };
    await play(index, () => steps, async (host, job) => {
      assertStringIncludes(JSON.stringify(job.chain_results.at(-1)?.error), MADE_FAILURE);
      await none(host, job);
    });
  });

  Deno.test(`saga: nothing is left when ${task} fails after its work`, async () => {
    await play(index + 1, () => ({ failsAfter: (name) => name === task }), none);
  });

  Deno.test(`saga: a machine is made when the agent dies before ${task} works`, async () => {
    await play(index, () => ({ insteadOf: (...at) => first(...at) ? "dies" : undefined }), whole);
  });

  // tests/workflows/undo_test.ts has the others, for a kvm machine.
  if (length({ quick: task !== "create_machine" && task !== "boot_machine", full: false })) {
    continue;
  }
  Deno.test(`saga: a machine is made when the agent dies before ${task} is recorded`, async () => {
    await play(index + 1, () => ({ diesAfter: first }), whole);
  });

  Deno.test(`saga: nothing is left when undoing after ${task} runs twice`, async () => {
    const steps: Steps = {
      failsAfter: (name) => name === task,
      diesAfter: (name, times) => name === "undo" && times === 1,
    };
    await play(index, () => steps, none);
  });
}

Deno.test("saga: a machine is made when every task runs twice", async () => {
  for (const index of [0, 1]) {
    await play(index, () => ({
      diesAfter: (_, times) => times === 1,
    }), whole);
  }
});

/** What an undoing of a running machine calls, and ways in which a call fails. */
const CALLS = ["lookup", "stop", "delete"] as const;
const WAYS: readonly string[] = ["killed", "hang", "hang_after", "garbage"];

for (const [index, call] of CALLS.entries()) {
  for (const way of length({ quick: WAYS.slice(index, index + 1), full: WAYS })) {
    Deno.test(`saga: undoing is tried again when ${call} has failed once (${way})`, async () => {
      const steps = (host: SimulatedHost): Steps => ({
        failsAfter: (name) => name === "boot_machine",
        before: async (name, times) => {
          if (name === "undo" && times === 1) await host.simulate("fault", way, call, "1");
        },
      });
      await play(index, steps, none);
    });
  }

  Deno.test(`saga: undoing reports what is left when ${call} fails for good`, async () => {
    const steps = (host: SimulatedHost): Steps => ({
      failsAfter: (name) => name === "boot_machine",
      before: async (name) => {
        if (name === "undo") await host.simulate("fault", "killed", call);
      },
    });
    await play(index, steps, async (host, job) => {
      const error = String(job.onerror_results.at(-1)?.error);
      assertStringIncludes(error, `undo_failed: machine ${UUID} could not be removed: `);
      assertStringIncludes(error, "SIGKILL");
      await host.simulate("fault", "--clear");
      await host.assertHolds(UUID);
    });
  });
}
