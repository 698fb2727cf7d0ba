// Machines are made while their host fails: every fault of the simulator, from every step on, once
// and for good, on kvm and bhyve. Whatever happens, there is a whole machine or none, nothing is left
// over, and a job that failed names what failed.
//
// At full length these are 2,064 cases. The names of those that ended well go into a file, by which a run
// that was cut goes on (ZONEWRIGHT_CHAOS_BOOK=FILE).

import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import type { Job } from "../../src/domain/job/job.ts";
import { messageOf } from "../../src/domain/error.ts";
import { isJsonObject, type JsonValue } from "../../src/domain/json.ts";
import { FAULTS } from "../../src/simulator/fault.ts";
import { changeHost, openState } from "../../src/simulator/host_folder.ts";
import type { SubcommandMs } from "../support/deadlines.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { mapLimited } from "../../src/runtime/run.ts";
import { type GuestPool, openPool } from "../../src/sandbox/pool.ts";
import { machineUuidOf, type SimulatedHost } from "../capabilities/simulated_host.ts";
import { assertConsole, paramsFor, withProvisioning } from "../workflows/provisioning.ts";
import { withFolder } from "../support/until.ts";
import { length } from "./agent_under_chaos.ts";
import { type Strike, strikeName, STRIKES } from "./machine_fault_list.ts";
import { sourceChecksHere } from "../support/parsed_workflow.ts";
import { selfOfRun } from "../support/agent_process.ts";

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
/**
 * Times in which something has to be done. Where a fault is that it is never done, a case waits for
 * all of it; elsewhere it must hold on a machine that has much else to do.
 */
const SHORT_MS = 5_000;
const LONG_MS = 180_000;
/** Cases at one time; at full length there are many that only wait. */
const AT_ONCE = length({ quick: 2, full: 6 });
/** At the usual length one case of so many is run; it is prime to the number of each kind. */
const QUICK_STRIDE = 151;

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

const SELF = selfOfRun();
const BOOK = Deno.env.get("ZONEWRIGHT_CHAOS_BOOK");
const DONE = new Set(BOOK === undefined ? [] : linesOf(BOOK));

for (const [name, cases] of Map.groupBy(CASES, ({ strike }) => strikeName(strike))) {
  Deno.test(`under ${name}, a machine is complete or gone`, async () => {
    const failures: string[] = [];
    await withPool(async (pool) => {
      await mapLimited(cases.filter((it) => !DONE.has(caseName(it))), AT_ONCE, async (it) => {
        try {
          await play(it, pool);
          if (BOOK !== undefined) {
            await Deno.writeTextFile(BOOK, `${caseName(it)}\n`, { append: true });
          }
        } catch (error) {
          failures.push(`${caseName(it)}: ${messageOf(error)}`);
          // A long run tells at once.
          if (BOOK !== undefined) console.error(failures.at(-1));
        }
      });
    });
    assertEquals(failures, []);
  });
}

function caseName({ strike, step, brand, count }: Case): string {
  return `${strikeName(strike)}, ${brand}, ${
    count === null ? "for good" : "once"
  }, from ${step} on`;
}

function linesOf(file: string): string[] {
  try {
    return Deno.readTextFileSync(file).split("\n");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Guests for as many cases as there are at one time. */
async function withPool(run: (pool: GuestPool) => Promise<void>): Promise<void> {
  await withFolder(async (runtimeDir) => {
    const checkSource = sourceChecksHere().runnable;
    const pool = await openPool({
      limits: DEFAULT_LIMITS,
      self: SELF,
      slots: AT_ONCE,
      runtimeDir,
      log: silentLog,
      checkSource,
    });
    try {
      await run(pool);
    } finally {
      await pool.close();
    }
  });
}

Deno.test("the matrix has every fault of the simulator", () => {
  const struck = new Set(STRIKES.map(({ fault }) => fault));
  assertEquals([...struck].sort(), Object.keys(FAULTS).sort());
});

/** The time for what a case may wait for in vain, or for what comes in any case. */
function timeOf(isInVain: boolean): number {
  return isInVain ? SHORT_MS : LONG_MS;
}

function deadlinesOf({ fault }: Strike): SubcommandMs {
  const ms = timeOf(fault.startsWith("hang"));
  const names = ["validate", "create", "lookup", "stop", "reboot", "update", "delete", "info"];
  const deadlines = Object.fromEntries(names.map((name) => [name, ms]));
  return { ...deadlines, boot: 2 * ms };
}

/** Whether a console is never shown. */
function hidesConsole({ strike: { fault, value }, count }: Case): boolean {
  return count === null && (/^(?:info_|vnc_|vmadmd_)/.test(fault) || value === "info");
}

async function play(it: Case, pool: GuestPool): Promise<void> {
  const { strike, step, brand, count } = it;
  await withProvisioning(async ({ host, provision }) => {
    await boundHost(host, timeOf(/^(?:start_|provision_|create_killed)/.test(strike.fault)));
    // What hides it has to be seen at least once, and a flood takes its time.
    const vnc_timeout = 2 * timeOf(hidesConsole(it)) / 1000;
    const params = { ...paramsFor(host, UUID, { brand }), vnc_timeout };
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
  }, { vmadmDeadlinesMs: deadlinesOf(strike), self: SELF, pool });
}

/** Milliseconds after which the simulated host itself gives something up. */
async function boundHost(host: SimulatedHost, ms: number): Promise<void> {
  const timeouts = { start: ms, provision: ms, stop: ms, event: ms };
  await changeHost(await openState(join(host.folder, "host")), { timeouts });
}

/** A body may fail with a text, or with an error that it did not catch. */
function failureOf(error: JsonValue | undefined): string {
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
  assertMatch(failureOf(job.chain_results.at(-1)?.error), cause);
  assertEquals(job.onerror_results.map(({ error }) => error), [""]);
  await host.assertHolds();
  const zones = await Array.fromAsync(Deno.readDir(host.transport.zonesRoot));
  assert(zones.length === 0, `Zones are left: ${zones.map(({ name }) => name).join(", ")}`);
}
