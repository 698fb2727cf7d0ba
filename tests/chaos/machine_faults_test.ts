// Machines are made while their host fails: every fault of the simulator, from every step on, once
// and for good, on kvm and bhyve. Whatever happens, there is a whole machine or none, nothing is left
// over, and a job that failed names what failed.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import type { Job } from "../../src/domain/job.ts";
import { isJsonObject, type JsonValue } from "../../src/domain/json.ts";
import { FAULTS } from "../../src/host/simulator/fault.ts";
import { mapLimited } from "../../src/map_limited.ts";
import { machineUuidOf, type SimulatedHost } from "../capabilities/simulated_host.ts";
import { assertConsole, paramsFor, withProvisioning } from "../workflows/provisioning.ts";
import { length } from "./agent_under_chaos.ts";
import { type Strike, strikeName, STRIKES } from "./machine_fault_list.ts";

const UUID = machineUuidOf(1);
const STEPS = [
  "preflight",
  "fetch_medium",
  "create_machine",
  "place_medium",
  "boot_machine",
  "wait_for_vnc",
] as const;
const BRANDS = ["kvm", "bhyve"] as const;
/** Calls that hang are killed after this time; the others need a fraction of it. */
const CALL_MS = 3_000;
const DEADLINES_MS = {
  validate: CALL_MS,
  create: CALL_MS,
  lookup: CALL_MS,
  boot: 2 * CALL_MS,
  stop: CALL_MS,
  update: CALL_MS,
  delete: CALL_MS,
  info: CALL_MS,
};
/** Seconds that a console may take. */
const VNC_SECONDS = 3;
/** Milliseconds after which the simulated host gives a start up. */
const START_MS = 1_000;
/** Cases at one time. */
const AT_ONCE = 2;
/** At the usual length one case of so many is run; it is prime to the number of each kind. */
const QUICK_STRIDE = 101;

/** One case of the matrix. */
interface Case {
  readonly strike: Strike;
  readonly step: typeof STEPS[number];
  readonly brand: typeof BRANDS[number];
  /** How often it strikes; null until somebody clears it. */
  readonly count: number | null;
}

const CASES = STRIKES.flatMap((strike) =>
  STEPS.flatMap((step) =>
    BRANDS.flatMap((brand) => [1, null].map((count): Case => ({ strike, step, brand, count })))
  )
).filter((_, index) => index % length({ quick: QUICK_STRIDE, full: 1 }) === 0);

for (const [name, cases] of Map.groupBy(CASES, ({ strike }) => strikeName(strike))) {
  Deno.test(`a machine is whole or gone under ${name}`, async () => {
    await mapLimited(cases, AT_ONCE, (it) =>
      play(it).catch((cause) => {
        const { step, brand, count } = it;
        const when = `${brand}, ${count === null ? "for good" : "once"}, from ${step} on`;
        throw new Error(`${name}, ${when}: ${cause.message}`, { cause });
      }));
  });
}

Deno.test("the matrix has every fault of the simulator", () => {
  const struck = new Set(STRIKES.map(({ fault }) => fault));
  assertEquals([...struck].sort(), Object.keys(FAULTS).sort());
});

async function play(it: Case): Promise<void> {
  const { strike, step, brand, count } = it;
  await withProvisioning(async ({ host, provision }) => {
    await shortenStart(host);
    const params = { ...paramsFor(host, UUID, { brand }), vnc_timeout: VNC_SECONDS };
    const words = [
      ...(strike.value === undefined ? [] : [strike.value]),
      ...(count === null ? [] : [String(count)]),
    ];
    const job = await provision(params, {
      before: async (task, times) => {
        if (task === step && times === 1) await host.simulate("fault", strike.fault, ...words);
        if (task === "undo") await host.simulate("fault", "--clear");
      },
    });
    await host.simulate("fault", "--clear");
    await expectWholeOrNone(host, job, strike.cause);
  }, { vmadmDeadlinesMs: DEADLINES_MS });
}

async function shortenStart(host: SimulatedHost): Promise<void> {
  await host.simulate("fault");
  const file = join(host.folder, "host/host.json");
  const facts = JSON.parse(await Deno.readTextFile(file));
  facts.timeouts = { start: START_MS, provision: START_MS, stop: START_MS };
  await Deno.writeTextFile(file, JSON.stringify(facts));
}

/** A body may fail with a text, or with an error that it did not catch. */
function messageOf(error: JsonValue | undefined): string {
  return isJsonObject(error) ? String(error.message) : String(error);
}

async function expectWholeOrNone(host: SimulatedHost, job: Job, cause: RegExp): Promise<void> {
  if (job.execution === "succeeded") {
    assertEquals(job.chain_results.map(({ error }) => error), STEPS.map(() => ""));
    await host.assertHolds(UUID);
    await assertConsole(job);
    const root = join(host.transport.zonesRoot, UUID, "root");
    assertEquals((await Deno.lstat(join(root, "install.iso"))).isFile, true);
    return;
  }
  assertEquals(job.execution, "failed");
  assertMatch(messageOf(job.chain_results.at(-1)?.error), cause);
  assertEquals(job.onerror_results.map(({ error }) => error), [""]);
  await host.assertHolds();
  const zones = await Array.fromAsync(Deno.readDir(host.transport.zonesRoot));
  assert(zones.length === 0, `Zones are left: ${zones.map(({ name }) => name).join(", ")}`);
}
