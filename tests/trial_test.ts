// Trials: one run of a workflow without an agent, on real guests and a simulated host, of which
// nothing is left.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { AgentError } from "../src/domain/error.ts";
import { isJsonObject, type JsonObject } from "../src/domain/json.ts";
import { openState } from "../src/simulator/host_folder.ts";
import { readMachines } from "../src/simulator/machine.ts";
import { openLog } from "../src/metrics/log.ts";
import { type Trial, type TrialOptions, withTrial } from "../src/trial/trial.ts";
import { until, withFolder } from "./support/until.ts";
import { rested, resultOf, trialOf } from "./trial_run.ts";
import { isoBytes } from "./support/medium.ts";
import { selfOfRun } from "./support/agent_process.ts";

const UUID = "aaaaaaaa-0000-4000-8000-000000000001";
const OTHER = "aaaaaaaa-0000-4000-8000-000000000002";
const CREATE = "async (job, cb) => { await vmadm.create({ uuid: job.params.uuid, brand: 'kvm', " +
  "ram: 128 }); await vmadm.boot(job.params.uuid); await vnc.wait(job.params.uuid); " +
  "cb(null, await vmadm.get(job.params.uuid)); }";

function chain(...bodies: readonly string[]): JsonObject {
  return { chain: bodies.map((body, index) => ({ name: `task${index}`, body })) };
}

function resultsOf(job: JsonObject, list = "chain_results"): unknown[] {
  const results = job[list];
  assert(Array.isArray(results));
  return results.map((entry) => isJsonObject(entry) ? entry.result : entry);
}

Deno.test("a trial runs the chain, and each task sees what those before it have set", async () => {
  const options = trialOf(
    chain(
      "(job, cb) => { job.seen = job.params.whom; job.params.more = 1; cb(null, 'first'); }",
      "(job, cb) => cb(null, [job.seen, job.params, job.target, job.chain_results[0].result])",
    ),
    { params: { whom: "you" }, target: "/here" },
  );
  const { job, state } = await withTrial(options, rested);
  assertEquals([state, job.execution], ["ended", "success"]);
  const second = ["you", { whom: "you", more: 1 }, "/here", "first"];
  assertEquals(resultsOf(job), ["first", second]);
});

Deno.test("a trial gives the info of its job, and does not log a second time what tasks log", async () => {
  const lines: string[] = [];
  const log = openLog({ level: "debug", format: "json", write: (line) => lines.push(line), now });
  const body = "async (job, cb) => { await info({ task: 'task0', message: 'one' }); " +
    "log.error('two'); console.log('three'); cb(); }";
  const entries = await withTrial(trialOf(chain(body), { log }), async (trial) => {
    await rested(trial);
    assertEquals((await trial.info(2)).length, 1);
    return await trial.info(0);
  });
  assertEquals(entries.map(({ message }) => message), ["one", "two", "three"]);
  const messages = lines.map((line) => JSON.parse(line).msg);
  assert(messages.includes("task ended"), lines.join("\n"));
  assertEquals(messages.filter((message) => message === "task logged"), []);
});

function now(): string {
  return new Date().toISOString();
}

Deno.test("a trial of a job that fails runs its onerror, and of one that cancels its oncancel", async () => {
  const undo = [{ name: "undo", body: "(job, cb) => cb(null, job.error)" }];
  const failing = trialOf({ ...chain("(job, cb) => cb('no')"), onerror: undo });
  const failed = await withTrial(failing, rested);
  assertEquals(failed.job.execution, "failure");
  assertEquals(resultsOf(failed.job, "onerror_results"), ["no"]);
  const slow = [{
    name: "undo",
    body: "async (job, cb) => { await sleep(50); cb(null, 'undone'); }",
  }];
  const canceling = trialOf({ ...chain("(job, cb) => cb('cancel')"), oncancel: slow });
  const canceled = await withTrial(canceling, rested);
  assertEquals(canceled.job.execution, "canceled");
  assertEquals(resultsOf(canceled.job, "oncancel_results"), ["undone"]);
});

Deno.test("a trial ends with cb('retry'): no other job is made", async () => {
  const { job, state } = await withTrial(trialOf(chain("(job, cb) => cb('retry')")), rested);
  assertEquals([state, job.execution, job.next_attempt], ["ended", "retried", undefined]);
});

Deno.test("a trial whose job waits goes on when it is resumed", async () => {
  const options = trialOf(chain(
    "(job, cb) => cb('wait')",
    "(job, cb) => cb(null, job.chain_results[0].result)",
  ));
  await withTrial(options, async (trial) => {
    assertEquals((await rested(trial)).state, "waiting");
    await trial.resume({ kind: "result", result: { a: 1 } });
    const { job, state } = await rested(trial);
    assertEquals([state, resultsOf(job)], ["ended", [{ a: 1 }, { a: 1 }]]);
    const error = await assertRejects(
      () => trial.resume({ kind: "result", result: "OK" }),
      AgentError,
    );
    assertEquals(error.code, "conflict");
  });
});

Deno.test("bodies of a trial are behind the same wall, under the same policy", async () => {
  const refused =
    "async (job, cb) => { const seen = [typeof Deno, typeof fetch, typeof process]; " +
    "try { await vmadm.create({ uuid: job.uuid, brand: 'kvm', filesystems: [] }); } " +
    "catch (error) { cb(null, [...seen, error.code, error.message]); } }";
  const { job } = await withTrial(trialOf(chain(refused)), rested);
  const missing = ["undefined", "undefined", "undefined"];
  const message = "Cannot accept the machine: payload.filesystems is not allowed: " +
    "it reaches out of the zone";
  assertEquals(resultsOf(job), [[...missing, "invalid_argument", message]]);
});

Deno.test("a trial finds media of its folders, and the sample index by default", async () => {
  await withFolder(async (mediaDir) => {
    await Deno.writeFile(join(mediaDir, "small.iso"), isoBytes(40_960));
    const body = "async (job, cb) => { const own = await media.find({ path: 'small.iso' }); " +
      "const found = await images.find({ distro: 'zonewright-sample', release: 'latest' }); " +
      "cb(null, { size: own.size, distro: found.distro }); }";
    const result = await resultOf(body, { params: {}, mediaDir });
    assertEquals(result, { size: 40_960, distro: "zonewright-sample" });
  });
});

Deno.test("an index that cannot be had fails the task that asks for it, and says why", async () => {
  await withFolder(async (folder) => {
    const body =
      "async (job, cb) => { await images.find({ distro: 'x', release: 'latest' }); cb(); }";
    const options = trialOf(chain(body), { flags: { index: join(folder, "none") } });
    const { job } = await withTrial(options, rested);
    assertEquals(job.execution, "failure");
    assertStringIncludes(JSON.stringify(job.chain_results), "Cannot sync the index");
  });
});

/** Waits for a trial that makes and boots a machine. @returns its zonepath and where it listens */
async function bootedMachine(trial: Trial, stateDir: (zonepath: string) => string) {
  const { job } = await rested(trial);
  const [machine] = resultsOf(job);
  assert(isJsonObject(machine) && typeof machine.zonepath === "string", JSON.stringify(job));
  const state = await openState(stateDir(machine.zonepath));
  const port = (await readMachines(state))[0]?.process?.port ?? null;
  assert(port !== null);
  return { zonepath: machine.zonepath, port };
}

/** Whether the process of a machine still listens; its pid would not tell, as that of a zombie. */
async function listens(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionRefused) return false;
    throw error;
  }
}

async function isThere(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

Deno.test("nothing is left of a trial: no folder, no machine", async () => {
  const options = trialOf(chain(CREATE), { params: { uuid: UUID } });
  const { zonepath, port } = await withTrial(options, async (trial) => {
    const booted = await bootedMachine(trial, (path) => join(path, "../.."));
    const [machine] = await trial.machines();
    assertEquals([machine?.uuid, machine?.state, machine?.ram], [UUID, "running", 128]);
    assert(await listens(booted.port));
    return booted;
  });
  assertEquals(await listens(port), false);
  assertEquals(await isThere(join(zonepath, "../../..")), false);
});

Deno.test({
  name: "nothing is left of a trial that is given up in the middle of a create",
  // A call of vmadm that is still under way would be found by these.
  sanitizeOps: true,
  sanitizeResources: true,
  fn: async () => {
    const body = "async (job, cb) => { await vmadm.create({ uuid: job.uuid, brand: 'kvm', " +
      "ram: 128 }); cb(); }";
    await withFolder(async (folder) => {
      const kept = join(folder, "host");
      const state = await openState(kept);
      await slow(kept, "install", 300);
      await withTrial(trialOf(chain(body), { hostState: kept }), async () => {
        await until("the create to be under way", async () => {
          return (await readMachines(state)).length > 0;
        });
      });
      // The call has come to its end before the trial did.
      const [machine] = await readMachines(state);
      assertEquals(machine?.state, "stopped");
    });
  },
});

Deno.test("nothing is left of a trial that is given up in the middle of a boot", async () => {
  const body =
    "async (job, cb) => { await vmadm.create({ uuid: job.uuid, brand: 'kvm', ram: 128 });" +
    " await vmadm.boot(job.uuid); cb(); }";
  await withFolder(async (folder) => {
    const kept = join(folder, "host");
    const state = await openState(kept);
    const wait = () =>
      until("the machine to come up", async () => {
        const [machine] = await readMachines(state);
        return machine?.state === "ready" || machine?.state === "running";
      });
    await withTrial(trialOf(chain(body), { hostState: kept }), wait);
    assertEquals((await readMachines(state)).map((machine) => machine.state), ["stopped"]);
  });
});

async function slow(stateDir: string, phase: string, ms: number): Promise<void> {
  const file = join(stateDir, "host.json");
  const facts = JSON.parse(await Deno.readTextFile(file));
  await Deno.writeTextFile(file, JSON.stringify({ ...facts, delays: { [phase]: ms } }));
}

Deno.test("a trial that throws takes everything down and throws the same", async () => {
  let zonepath = "";
  const options = trialOf(chain(CREATE), { params: { uuid: UUID } });
  await assertRejects(
    () =>
      withTrial(options, async (trial) => {
        ({ zonepath } = await bootedMachine(trial, (path) => join(path, "../..")));
        throw new Error("given up");
      }),
    Error,
    "given up",
  );
  assertEquals(await isThere(join(zonepath, "../../..")), false);
});

Deno.test("a host that is kept has the machines of the trial before, and those alone end that it started", async () => {
  await withFolder(async (folder) => {
    const hostState = join(folder, "host");
    const create = trialOf(chain(CREATE), { params: { uuid: UUID }, hostState });
    const { port } = await withTrial(create, (trial) => bootedMachine(trial, () => hostState));
    assertEquals(await listens(port), false);
    const state = await openState(hostState);
    assertEquals((await readMachines(state)).map((machine) => machine.state), ["stopped"]);
    await simulate(hostState, "vmadm", "start", UUID);
    try {
      const second = trialOf(chain(CREATE), { params: { uuid: OTHER }, hostState });
      const machines = await withTrial(second, async (trial) => {
        await rested(trial);
        return await trial.machines();
      });
      assertEquals(machines.map(({ state }) => state), ["running", "running"]);
      const after = (await readMachines(state)).map(({ uuid, state }) => [uuid, state]);
      assertEquals(after, [[UUID, "running"], [OTHER, "stopped"]]);
    } finally {
      await simulate(hostState, "stop-all");
    }
  });
});

async function simulate(stateDir: string, ...args: readonly string[]): Promise<void> {
  const self = selfOfRun();
  const { success } = await new Deno.Command(self.program, {
    args: [...self.args, "simulate", "--state", stateDir, ...args],
    env: { ...self.env },
    stdout: "null",
    stderr: "null",
  }).output();
  assert(success, args.join(" "));
}

Deno.test("faults of a host that is kept strike the workflow, not the trial", async () => {
  await withFolder(async (folder) => {
    const hostState = join(folder, "host");
    await simulate(hostState, "fault", "validate_refuses", "1");
    await simulate(hostState, "fault", "vminfod_down");
    const body = "async (job, cb) => { const codes = []; const note = (error) => " +
      "codes.push(error.code); await vmadm.validate({ brand: 'kvm', ram: 128 }).catch(note); " +
      "await vmadm.list().catch(note); cb(null, codes); }";
    const { job, machines } = await withTrial(
      trialOf(chain(body), { hostState }),
      async (trial) => ({
        ...await rested(trial),
        machines: await trial.machines(),
      }),
    );
    assertEquals([resultsOf(job), machines], [[["invalid_argument", "host"]], []]);
  });
});

Deno.test("a folder that holds something else is not made a host", async () => {
  await withFolder(async (hostState) => {
    await Deno.writeTextFile(join(hostState, "letter.txt"), "dear");
    await assertRefused(trialOf(chain(CREATE), { hostState }), "it holds other files");
    const names = await Array.fromAsync(Deno.readDir(hostState), ({ name }) => name);
    assertEquals(names, ["letter.txt"]);
  });
});

async function assertRefused(options: TrialOptions, words: string): Promise<void> {
  const error = await assertRejects(() => withTrial(options, rested), AgentError);
  assertEquals(error.code, "invalid_argument");
  assertStringIncludes(error.message, words);
}

Deno.test("a trial refuses what POST /jobs would not take as params, and folders that are not there", async () => {
  const body = chain("(job, cb) => cb()");
  for (const name of ["workflow", "target", "exec_after", "locks", "callback_url"]) {
    const params = { [name]: name === "exec_after" ? "2026-01-01" : "x" };
    await assertRefused(trialOf(body, { params }), name);
  }
  await assertRefused(trialOf({ chain: [] }), "it has no tasks");
  await assertRefused(
    trialOf(body, { flags: { "media-dir": ["none"] } }),
    "it does not exist",
  );
  await assertRefused(trialOf(body, { flags: { index: "http://127.0.0.1:1" } }), "TLS");
});
