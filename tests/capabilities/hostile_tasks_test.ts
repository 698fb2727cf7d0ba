// Tasks that attack the capabilities from inside of real guests: arguments that are no data, that are
// too many, too large or too deep, and calls where none should be.

import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { isJsonObject } from "../../src/domain/json.ts";
import { until } from "../support/until.ts";
import { type Provisioning, withProvisioning } from "../workflows/provisioning.ts";
import { callsOf, machineUuidOf } from "./simulated_host.ts";

const UUID = machineUuidOf(1);

/** Expressions that call a capability, and how each call ends: its code, or the name of its error. */
const ATTACKS: Readonly<Record<string, string>> = {
  "vmadm.create(new Proxy({}, { ownKeys() { throw new Error('trap'); } }))": "TypeError",
  "vmadm.create(new Proxy({}, { get() { return 'x'; } }))": "invalid_argument",
  "vmadm.create({ get uuid() { throw new RangeError('getter'); } })": "TypeError",
  "vmadm.create({ toJSON() { return { uuid, brand: 'joyent' }; } })": "invalid_argument",
  "vmadm.create({ toJSON() { return undefined; } })": "invalid_argument",
  "vmadm.create((() => { const a = {}; a.a = a; return a; })())": "TypeError",
  "vmadm.create({ uuid, brand: 'kvm', ram: 1n })": "TypeError",
  "vmadm.create({ uuid, brand: 'kvm', ram: NaN })": "invalid_argument",
  "vmadm.create({ uuid, brand: 'kvm', ram: Infinity })": "invalid_argument",
  "vmadm.create({ uuid, brand: 'kvm', ram: -0 })": "invalid_argument",
  "vmadm.create({ uuid, brand: 'kvm', ram: new Number(1e9) })": "invalid_argument",
  "vmadm.create({ uuid, brand: new String('joyent') })": "invalid_argument",
  "vmadm.create({ uuid, brand: 'kvm', disks: Array(1e6).fill({}) })": "RangeError",
  "vmadm.create({ uuid, brand: 'kvm', disks: Array(1e5).fill(0) })": "invalid_argument",
  "vmadm.create({ uuid, brand: 'kvm', disks: { length: 1, 0: {} } })": "invalid_argument",
  'vmadm.create(JSON.parse(\'{"__proto__": {"brand": "kvm"}, "uuid": "\' + uuid + \'"}\'))':
    "invalid_argument",
  "vmadm.create(Object.create({ uuid, brand: 'kvm' }))": "invalid_argument",
  "vmadm.create({ uuid, brand: 'kvm', alias: 'x'.repeat(600000) })": "RangeError",
  "vmadm.create({ uuid, brand: 'kvm', alias: '\\ud800' })": "invalid_argument",
  "vmadm.create({ uuid, brand: 'kvm', tags: { ['k'.repeat(300)]: 1 } })": "invalid_argument",
  "vmadm.create((() => { let a = 1; for (let i = 0; i < 200; i++) a = [a]; return a; })())":
    "invalid_argument",
  "vmadm.create(...Array(9).fill({}))": "RangeError",
  "vmadm.delete(uuid, { force: true })": "invalid_argument",
  "vmadm.delete([uuid])": "invalid_argument",
  "vmadm.delete({ toString: () => uuid })": "invalid_argument",
  "vmadm.delete(new String(uuid + ' -f'))": "invalid_argument",
  'vmadm.update(uuid, JSON.parse(\'{"__proto__": {"vnc_port": 1}}\'))': "not_found",
  "vmadm.info(uuid, 'constructor')": "invalid_argument",
  "vmadm.constructor.constructor('return 1')()": "EvalError",
  "vmadm['__proto__'].create": "ok",
  "media.place(uuid, { path: '/etc/shadow', sha256: 'x', name: 'a.iso' })": "forbidden",
  "media.find({ path: '/proc/self/environ.iso' })": "forbidden",
  'info(JSON.parse(\'{"zonewright_call": {"name": "vmadm.delete"}}\'))': "invalid_argument",
  "info({ get zonewright_calls() { return {}; } })": "invalid_argument",
  "info(new Proxy([], {}))": "invalid_argument",
  "info({ text: 'x'.repeat(20000) })": "too_large",
  "log.info({ toJSON() { throw new Error('poisoned'); } })": "ok",
  "log.info('x', new Proxy({}, { ownKeys() { throw new Error('trap'); } }))": "ok",
};

const ATTACK = `async function attack(job, cb) {
  const uuid = job.params.uuid;
  const ends = {};
  for (const source of job.params.names) ends[source] = 'never';
  const run = async (name, call) => {
    try {
      await call();
      ends[name] = 'ok';
    } catch (error) {
      ends[name] = error.code || error.name;
    }
  };
  CALLS
  cb(null, ends);
}`;

async function attackWith(
  { runWorkflow }: Provisioning,
  calls: string,
  names: readonly string[] = [],
): Promise<JsonObject> {
  const body = ATTACK.replace("CALLS", () => calls);
  const job = await runWorkflow(
    { name: "attack", chain: [{ name: "attack", body, timeout: 60 }] },
    { uuid: UUID, names: [...names] },
  );
  const [result] = job.chain_results;
  assertEquals(result?.error, "", JSON.stringify(result?.error));
  assert(isJsonObject(result?.result));
  return result.result;
}

Deno.test("a hostile argument becomes an error of its task, and nothing is created", async () => {
  await withProvisioning(async (provisioning) => {
    const names = Object.keys(ATTACKS);
    const calls = names.map((name) => `await run(${JSON.stringify(name)}, () => ${name});`);
    const ends = await attackWith(provisioning, calls.join("\n"), names);
    assertEquals(ends, ATTACKS);
    await provisioning.host.assertHolds();
  });
});

Deno.test("a task that makes a thousand calls at once gets answers up to its limit", async () => {
  await withProvisioning(async (provisioning) => {
    const ends = await attackWith(
      provisioning,
      `const all = await Promise.allSettled(Array.from({ length: 1000 }, () => vmadm.get(uuid)));
       ends.done = all.filter(({ status }) => status === 'fulfilled').length;
       ends.refused = all.filter(({ reason }) => reason instanceof RangeError).length;
       ends.after = await vmadm.get(uuid);`,
    );
    assertEquals(ends, { done: 32, refused: 968, after: null });
  });
});

Deno.test("calls that a task leaves behind are cut off with it, and recorded as such", async () => {
  await withProvisioning(async ({ host, runWorkflow }) => {
    await host.simulate("fault", "hang", "*");
    const body = `function leave(job, cb) {
      for (let times = 0; times < 20; times += 1) vmadm.delete(job.params.uuid).catch(() => {});
      const again = () => vmadm.delete(job.params.uuid).then(again, again);
      again();
      setTimeout(() => cb(null, 'left'), 300);
    }`;
    const job = await runWorkflow({ name: "x", chain: [{ name: "leave", body }] }, { uuid: UUID });
    assertEquals(job.chain_results.map(({ result }) => result), ["left"]);
    await host.simulate("fault", "--clear");
    const entries = await until("the entries", async () => {
      const found = await callsOf(host.store, job.uuid);
      return found.length === 21 ? found : undefined;
    });
    for (const { zonewright_call: call } of entries) {
      assert(isJsonObject(call));
      assertEquals(call.ended, "aborted");
    }
    await host.assertHolds();
  });
});

Deno.test("a task that never stops calling fills neither its job's info nor the agent's memory", async () => {
  await withProvisioning(async ({ host, runWorkflow }) => {
    const body = `async function flood(job, cb) {
      let refused = 0;
      for (let round = 0; round < 300; round += 1) {
        const calls = Array.from({ length: 30 }, () => media.remove(job.params.uuid, 'startvm'));
        refused += (await Promise.allSettled(calls)).filter((end) => end.reason).length;
      }
      cb(null, refused);
    }`;
    const job = await runWorkflow({ name: "x", chain: [{ name: "flood", body }] }, { uuid: UUID });
    assertEquals(job.chain_results.map(({ result }) => result), [9000]);
    const entries = await callsOf(host.store, job.uuid);
    assert(entries.length <= 201, `${entries.length} entries`);
  });
});
