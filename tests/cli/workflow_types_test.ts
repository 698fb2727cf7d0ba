// docs/zonewright.d.ts against what bodies really get: the capabilities of the protocol, the fields
// that payloads are read by, and the answers of a real run.

import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { parseMachinePayload } from "../../src/domain/machine/machine.ts";
import { parseMachineChanges } from "../../src/domain/machine/changes.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { PROVISION_MACHINE } from "../../src/machines/workflows/provision_machine.ts";
import { isoBytes } from "../support/medium.ts";
import { withFolder } from "../support/until.ts";
import { resultOf } from "../trial_run.ts";
import { openScreen } from "./screen.ts";
import { typeProblems } from "./type_check.ts";
import { typeTextModule } from "./write_type_text.ts";

const ROOT = new URL("../../", import.meta.url);
const PAGE = fromFileUrl(new URL("docs/tasks.md", ROOT));
const TYPES = fromFileUrl(new URL("docs/zonewright.d.ts", ROOT));

/** Whether two unions are the same, for sources that are checked. */
const SAME = `
type Same<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : false) : false;
type Known<T> = keyof { [K in keyof T as string extends K ? never : number extends K ? never : K]: T[K] };
`;

async function assertNoProblems(sources: Readonly<Record<string, string>>): Promise<void> {
  const { problems, text } = await typeProblems(sources);
  assertEquals(problems, [], text);
}

function union(words: readonly string[]): string {
  return words.map((word) => JSON.stringify(word)).join(" | ");
}

Deno.test("the binary prints the types as docs/zonewright.d.ts has them", async () => {
  const { found, wanted } = await typeTextModule();
  assertEquals(found, wanted, "run tests/cli/write_type_text.ts");
  const screen = openScreen();
  assertEquals(await screen.run("workflow", "types"), 0);
  assertEquals(screen.out(), await Deno.readTextFile(TYPES));
  const other = openScreen();
  assertEquals(await other.run("workflow", "types", "--json"), 0);
  assertEquals(JSON.parse(other.out()), { file: "zonewright.d.ts", text: screen.out() });
});

Deno.test("the types declare the capabilities of the protocol, no more and no less", async () => {
  const names = `
import type { CapabilityName } from "${new URL("src/wall/protocol.ts", ROOT)}";
${SAME}
type NameOf<Group extends string, Part> = Part extends (...args: never[]) => unknown
  ? Group
  : \`\${Group}.\${keyof Part & string}\`;
type Groups = Zonewright.Capabilities;
type Declared = { [Group in keyof Groups]: NameOf<Group, Groups[Group]> }[keyof Groups];
export const globals: Groups = { vmadm, media, images, vnc, info, log };
export const all: Same<Declared, CapabilityName> = true;
export const some: Same<Exclude<Declared, "vnc.wait">, CapabilityName> = true;
`;
  const { problems, text } = await typeProblems({ "names.ts": names });
  // The last line shows that the one before it would be refused as well.
  const last = names.split("\n").length - 1;
  // The protocol takes types from files of the agent, which has names that a task has not.
  const own = problems.filter(({ file }) => file === "names.ts");
  assertEquals(own, [{ file: "names.ts", line: last, code: "TS2322" }], text);
});

const DISK = {
  model: "virtio",
  size: 1024,
  boot: true,
  media: "disk",
  compression: "gzip-3",
  refreservation: 0,
  block_size: 8192,
};
/** What disks of bhyve have besides. */
const BHYVE_DISK = {
  ...DISK,
  guest_block_size: "512/4096",
  notrim: true,
  pci_slot: "0:4:1",
  uuid: "aaaaaaaa-0000-4000-8000-000000000002",
};
const NIC = {
  nic_tag: "admin",
  model: "e1000",
  ip: "192.0.2.9",
  netmask: "255.255.255.0",
  gateway: "192.0.2.1",
  primary: 1,
  mac: "02:08:20:aa:bb:cc",
  vlan_id: 3,
  ips: ["192.0.2.9/24"],
  gateways: ["192.0.2.1"],
  mtu: 1500,
  network_uuid: "aaaaaaaa-0000-4000-8000-000000000003",
  allowed_dhcp_cids: ["0x01e2f9a7"],
  blocked_outgoing_ports: [25],
};
/** A nic without what kvm alone has. */
const { allowed_dhcp_cids: _cids, ...BHYVE_NIC } = NIC;
const SETTINGS = {
  vcpus: 1,
  ram: 256,
  resolvers: ["192.0.2.53"],
  alias: "small",
  hostname: "small.example",
  owner_uuid: "aaaaaaaa-0000-4000-8000-000000000004",
  billing_id: "aaaaaaaa-0000-4000-8000-000000000005",
  do_not_inventory: true,
  firewall_enabled: true,
  quota: 10,
  cpu_cap: 100,
  cpu_shares: 100,
  max_physical_memory: 1280,
  max_locked_memory: 1280,
  max_swap: 2560,
  max_lwps: 2000,
  zfs_io_priority: 100,
  zfs_root_compression: "lz4",
  zfs_root_recsize: 131_072,
  zfs_filesystem_limit: 10,
  zfs_snapshot_limit: "10",
};
const ANY_BRAND = {
  ...SETTINGS,
  uuid: "aaaaaaaa-0000-4000-8000-000000000001",
  autoboot: false,
  nics: [NIC],
  vnc_password: true,
  tags: { role: "test", number: 1, really: true },
  customer_metadata: { "user-data": "#cloud-config" },
  routes: { "192.0.2.0/24": "198.51.100.1", "203.0.113.7": "nics[0]" },
};
const KVM_SETTINGS = {
  vga: "std",
  boot: "order=cd,once=d",
  cpu_type: "host",
  virtio_txburst: 128,
  virtio_txtimer: 200_000,
};
const KVM = { ...ANY_BRAND, ...KVM_SETTINGS, brand: "kvm", disks: [DISK] };
const BHYVE = {
  ...ANY_BRAND,
  brand: "bhyve",
  disks: [{ ...BHYVE_DISK, model: "nvme" }],
  nics: [BHYVE_NIC],
  bootrom: "uefi",
};
const CHANGES = {
  ...SETTINGS,
  ...KVM_SETTINGS,
  bootrom: "uefi",
  autoboot: true,
  set_tags: { role: "test" },
  remove_tags: ["number"],
  set_customer_metadata: { a: "b" },
  remove_customer_metadata: ["user-data"],
  set_routes: { "192.0.2.0/24": "198.51.100.1" },
  remove_routes: ["203.0.113.7"],
  add_nics: [NIC],
  update_nics: [{ mac: "02:08:20:aa:bb:cd", vlan_id: 4 }],
  remove_nics: ["02:08:20:aa:bb:dd"],
  add_disks: [{ path: "/a.iso", media: "cdrom", model: "ahci" }],
  remove_disks: ["/b.iso"],
};

Deno.test("payloads have the fields that the agent reads, no more and no less", async () => {
  for (const payload of [KVM, BHYVE]) {
    const read = parseMachinePayload(payload, DEFAULT_POLICY);
    assertEquals(Object.keys(read).sort(), Object.keys(payload).sort());
  }
  const changes = parseMachineChanges(CHANGES, DEFAULT_POLICY);
  assertEquals(Object.keys(changes), Object.keys(CHANGES));
  const { machineProperties, diskProperties, nicProperties } = DEFAULT_POLICY;
  await assertNoProblems({
    "payloads.ts": `${SAME}
type Payload = Zonewright.KvmPayload | Zonewright.BhyvePayload;
export const machine: Same<keyof Payload, ${
      union([...machineProperties, "uuid", "vnc_password"])
    }> = true;
export const disk: Same<keyof Zonewright.Disk, ${union(diskProperties)}> = true;
export const nic: Same<keyof Zonewright.Nic, ${union(nicProperties)}> = true;
export const kvm: Required<Omit<Zonewright.KvmPayload, "bootrom">> = ${JSON.stringify(KVM)};
export const bhyve: Required<
  Omit<Zonewright.BhyvePayload, "vga" | "boot" | "cpu_type" | "virtio_txburst" | "virtio_txtimer">
> = ${JSON.stringify(BHYVE)};
export const oneDisk: Required<Zonewright.Disk> = ${JSON.stringify(BHYVE_DISK)};
export const oneNic: Required<Zonewright.Nic> = ${JSON.stringify(NIC)};
export const changes: Required<Zonewright.MachineChanges> = ${JSON.stringify(CHANGES)};
`,
  });
});

/** Calls everything that answers something; its result is what it was given. */
const ASK = `async (job, cb) => {
  const uuid = job.uuid;
  const found = await images.find(job.params.artifact);
  const downloaded = await images.download(job.params.artifact);
  const medium = await media.find({ path: job.params.path });
  const validated = await vmadm.validate({ uuid, brand: "kvm", ram: 128 });
  const created = await vmadm.create({
    uuid, brand: "kvm", ram: 128, alias: "asked", disks: [{ model: "virtio", size: 100 }],
    nics: [{ nic_tag: "admin", model: "virtio", ip: "dhcp" }],
  });
  const placed = await media.place(uuid, medium);
  const booted = await vmadm.boot(uuid, { cdrom: placed.file });
  const waited = await vnc.wait(uuid, { timeout: 60 });
  const address = await vmadm.info(uuid, "vnc");
  const machine = await vmadm.get(uuid);
  const machines = await vmadm.list();
  const rebooted = await vmadm.reboot(uuid, { force: true });
  const stopped = await vmadm.stop(uuid, { force: true });
  const updated = await vmadm.update(uuid, { ram: 256 });
  const removed = await media.remove(uuid, placed.file);
  const deleted = await vmadm.delete(uuid);
  const noted = await info({ task: "ask" });
  const logged = await log.info("asked", { a: 1 });
  let refused;
  await vmadm.get("no uuid").catch((error) => refused = error.code);
  cb(null, {
    found, downloaded, medium, validated, created, placed, booted, waited, address, machine, machines,
    rebooted, stopped, updated, removed, deleted, noted, logged, refused, timer: setTimeout(() => {}, 1),
    slept: (await sleep(1)) === undefined, job: Object.keys(job), log: Object.keys(job.log),
    console: Object.keys(console),
  });
}`;

/** What the promise of a call is kept with. */
function answer(call: string): string {
  return `Awaited<ReturnType<Zonewright.Capabilities${call}>>`;
}

Deno.test("the answers of a real run have the types that are declared", async () => {
  await withFolder(async (folder) => {
    const path = join(folder, "small.iso");
    await Deno.writeFile(path, isoBytes(40_960));
    const artifact = { distro: "zonewright-sample", release: "latest", format: "iso" };
    const result = await resultOf(ASK, { params: { path, artifact }, mediaDir: folder });
    assert(isJsonObject(result));
    const answers: Readonly<Record<string, string>> = {
      found: answer("['images']['find']"),
      downloaded: answer("['images']['download']"),
      medium: answer("['media']['find']"),
      validated: answer("['vmadm']['validate']"),
      created: answer("['vmadm']['create']"),
      placed: answer("['media']['place']"),
      booted: answer("['vmadm']['boot']"),
      waited: answer("['vnc']['wait']"),
      address: answer("['vmadm']['info']"),
      machine: answer("['vmadm']['get']"),
      machines: answer("['vmadm']['list']"),
      rebooted: answer("['vmadm']['reboot']"),
      stopped: answer("['vmadm']['stop']"),
      updated: answer("['vmadm']['update']"),
      removed: answer("['media']['remove']"),
      deleted: answer("['vmadm']['delete']"),
      noted: answer("['info']"),
      logged: answer("['log']['info']"),
      refused: "Zonewright.ErrorCode",
      timer: "ReturnType<typeof setTimeout>",
      slept: "true",
      job: "Known<Zonewright.Job>[]",
    };
    const lines = Object.entries(answers).map(([name, type]) =>
      `export const ${name}_: ${type} = ${JSON.stringify(result[name])};`
    );
    await assertNoProblems({
      "answers.ts": `${SAME}
${lines.join("\n")}
export const jobLog: Same<keyof Zonewright.JobLog, ${union(textsIn(result, "log"))}> = true;
export const ofConsole: Same<keyof Console, ${union(textsIn(result, "console"))}> = true;
`,
    });
  });
});

function textsIn(object: JsonObject, key: string): string[] {
  const list = object[key];
  assert(Array.isArray(list) && list.every((item) => typeof item === "string"));
  return list;
}

/** A workflow as JSON has it, with the sources of its tasks as functions. */
function scriptOf(workflows: readonly JsonObject[]): string {
  const tasks = workflows.flatMap((workflow) =>
    ["chain", "onerror", "oncancel"].flatMap((list) => workflow[list] ?? [])
  );
  const chain = tasks.filter(isJsonObject).map(({ body, fallback }) =>
    `{ body: ${body}, ${fallback === undefined ? "" : `fallback: ${fallback}, `} },`
  );
  return `/** @type {Zonewright.Workflow} */
export default { name: "all", chain: [\n${chain.join("\n")}\n] };`;
}

Deno.test("every source of docs/tasks.md has the types", async () => {
  const page = await Deno.readTextFile(PAGE);
  const examples = Array.from(page.matchAll(/```json\n(.*?)```/gs), ([, text = ""]) => text)
    .map((text): JsonObject => JSON.parse(text))
    .filter(({ chain }) => Array.isArray(chain));
  assert(examples.length > 0);
  await assertNoProblems({ "bodies.js": scriptOf(examples) });
});

Deno.test("the script of docs/tasks.md has the types, also in an editor without settings", async () => {
  const [, script = ""] = /```js\n(.*?)```/s.exec(await Deno.readTextFile(PAGE)) ?? [];
  assert(script.includes("Zonewright.Workflow"));
  for (const options of [{}, null]) {
    const { problems, text } = await typeProblems({ "hello.js": script }, options);
    assertEquals(problems, [], text);
  }
});

Deno.test("the sources of the built-in workflow have the types", async () => {
  // It tells null by functions of its own, which the compiler does not see through.
  const sources = { "bodies.js": scriptOf([PROVISION_MACHINE.definition]) };
  const { problems, text } = await typeProblems(sources, { strictNullChecks: false });
  assertEquals(problems, [], text);
});

/** One wrong line each, with the error that an editor shows. */
const WRONG: readonly (readonly [code: string, body: string])[] = [
  ["TS2551", "async (job, cb) => { await vmadm.creat({}); cb(); }"],
  ["TS2345", "async (job, cb) => { await vmadm.create({ brand: 'kvm', ram: 1 }); cb(); }"],
  ["TS2322", "async (job, cb) => { await vmadm.validate({ brand: 'lx' }); cb(); }"],
  [
    "TS2353",
    "async (job, cb) => { await vmadm.validate({ brand: 'kvm', filesystems: [] }); cb(); }",
  ],
  [
    "TS2322",
    "async (job, cb) => { await vmadm.validate({ brand: 'kvm', autoboot: true }); cb(); }",
  ],
  [
    "TS2322",
    "async (job, cb) => { await vmadm.validate({ brand: 'kvm', bootrom: 'uefi' }); cb(); }",
  ],
  [
    "TS2345",
    "(job, cb) => { vmadm.validate({ brand: 'kvm', disks: [{ model: 'nvme', size: 1 }] }); cb(); }",
  ],
  ["TS2741", "(job, cb) => { vmadm.validate({ brand: 'kvm', nics: [{ nic_tag: 'a' }] }); cb(); }"],
  ["TS2322", "async (job, cb) => { await vmadm.boot(job.uuid, { order: 'cc' }); cb(); }"],
  ["TS2322", "async (job, cb) => { await vmadm.boot(job.uuid, { once: 'cd' }); cb(); }"],
  ["TS2353", "async (job, cb) => { await vmadm.update(job.uuid, { vnc_port: 1 }); cb(); }"],
  ["TS2345", "async (job, cb) => { await vmadm.info(job.uuid, 'all'); cb(); }"],
  ["TS2554", "async (job, cb) => { await vmadm.delete(); cb(); }"],
  ["TS18047", "async (job, cb) => { const m = await vmadm.get(job.uuid); cb(null, m.state); }"],
  ["TS2322", "async (job, cb) => { await vnc.wait(job.uuid, { timeout: '60' }); cb(); }"],
  ["TS2345", "async (job, cb) => { await media.find({ url: 'https://a.example/a.iso' }); cb(); }"],
  ["TS2345", "async (job, cb) => { await media.place(job.uuid, { path: '/a.iso' }); cb(); }"],
  ["TS2339", "async (job, cb) => { const m = await media.find({ path: 'a.iso' }); cb(m.file); }"],
  ["TS2345", "async (job, cb) => { await images.find({ distro: 'a' }); cb(); }"],
  ["TS2345", "async (job, cb) => { await info('text'); cb(); }"],
  ["TS2769", "(job, cb) => { cb(null, 10n); }"],
  ["TS2769", "(job, cb) => { cb(null, () => 1); }"],
  ["TS2769", "(job, cb) => { const result = { deep: [{ size: 1n }] }; cb(null, result); }"],
  ["TS2345", "async (job, cb) => { await info(['text']); cb(); }"],
  ["TS2540", "(job, cb) => { job.uuid = 'other'; cb(); }"],
  ["TS2304", "async (job, cb) => { await fetch('https://a.example'); cb(); }"],
  ["TS2304", "(job, cb) => { cb(null, Deno.version); }"],
  ["TS2339", "(job, cb) => { console.table([]); cb(); }"],
];

Deno.test("a body that the agent would refuse has type errors", async () => {
  const lines = WRONG.map(([, body], index) =>
    `/** @type {Zonewright.Task} */ export const wrong${index} = { body: ${body} };`
  );
  const { problems, text } = await typeProblems({ "wrong.js": lines.join("\n") });
  const found = problems.map(({ line, code }) => [code, WRONG[line - 1]?.[1]]);
  assertEquals(found, WRONG.map(([code, body]) => [code, body]), text);
});

Deno.test("declared params have their types, and unknown keys of a task are found", async () => {
  const source = [
    "/** @type {Zonewright.Body<{ whom: string }>} */",
    "const greet = (job, cb) => cb(null, job.params.who);",
    "/** @type {Zonewright.Task} */",
    "export const task = { body: greet, timeOut: 3 };",
  ];
  const { problems } = await typeProblems({ "greet.js": source.join("\n") });
  const found = problems.map(({ line, code }) => `${line} ${code}`);
  assertEquals(found, ["2 TS2551", "4 TS2561"]);
});
