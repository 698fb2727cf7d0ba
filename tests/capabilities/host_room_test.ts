// What is held against the host before a machine is made: its networks, and the room in its pool.

import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { requireHostRoom } from "../../src/host/machine_needs.ts";
import type { CommandResult } from "../../src/host/program.ts";
import { localTransport, type Transport } from "../../src/host/transport.ts";
import { machineUuidOf, notesOf, withHost } from "./simulated_host.ts";

const UUID: string = machineUuidOf(1);
const NIC = { model: "virtio", ip: "dhcp" };
/** The pool of a simulated host, MiB. */
const POOL_MIB = 1024 * 1024;
const { signal } = new AbortController();

async function refusal(run: () => Promise<unknown>, code: string): Promise<AgentError> {
  const error = await assertRejects(run, AgentError);
  assertEquals(error.code, code, error.message);
  return error;
}

Deno.test("vmadm.validate() names every nic on a network that the host does not have", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    const validate = (tags: readonly string[]) => {
      const nics = tags.map((nic_tag) => ({ ...NIC, nic_tag }));
      return perform("vmadm.validate", [{ brand: "kvm", uuid: UUID, nics }], signal);
    };
    assertEquals(await validate(["admin", "external"]), null);
    const error = await refusal(() => validate(["admin", "wan", "dmz"]), "invalid_argument");
    assertStringIncludes(
      error.message,
      'payload.nics[1].nic_tag is "wan", and the host has no such network: it has external, admin',
    );
    const fields = error.errors.map(({ field }) => field);
    assertEquals(fields, ["payload.nics[1].nic_tag", "payload.nics[2].nic_tag"]);
    // An overlay is made when it is first used; vmadm judges it.
    assertEquals(await validate(["sdc_overlay/12"]), null);
    await host.assertHolds();
  });
});

Deno.test("vmadm.validate() refuses disks that exceed the free space of the pool", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    const validate = (machine: JsonObject) =>
      perform("vmadm.validate", [{ uuid: UUID, ...machine }], signal);
    const disk = (size: number) => ({ model: "virtio", size });
    const all = { brand: "kvm", disks: [disk(POOL_MIB)] };
    assertEquals(await validate(all), null);
    const error = await refusal(
      () => validate({ brand: "kvm", disks: [disk(POOL_MIB), disk(1)] }),
      "storage_full",
    );
    assertStringIncludes(error.message, `need ${POOL_MIB + 1} MiB`);
    assertStringIncludes(error.message, `"zones" of the host has ${POOL_MIB} MiB`);
    // The zone of a bhyve machine reserves its quota, and a disk what it is to reserve.
    await refusal(() => validate({ ...all, brand: "bhyve" }), "storage_full");
    const sparse = { model: "virtio", size: POOL_MIB, refreservation: 0 };
    assertEquals(await validate({ brand: "bhyve", disks: [sparse] }), null);

    await perform("vmadm.create", [{ ...all, uuid: UUID, disks: [disk(POOL_MIB - 10)] }], signal);
    const other = machineUuidOf(2);
    const left = await refusal(
      () => validate({ uuid: other, brand: "kvm", disks: [disk(11)] }),
      "storage_full",
    );
    assertStringIncludes(left.message, "has 10 MiB");
  });
});

/** Runs a test on a host with a physical network of 9000 bytes, one of 1500 and an etherstub. */
async function withNetworks(
  run: (
    host: Parameters<Parameters<typeof withHost>[0]>[0],
    validate: (nic: JsonObject) => Promise<unknown>,
  ) => Promise<void>,
): Promise<void> {
  await withHost(async (host) => {
    await host.simulate("audit");
    const file = `${host.folder}/host/host.json`;
    const facts = JSON.parse(await Deno.readTextFile(file));
    const networks = {
      nic_tags: ["external", "jumbo", "stub0"],
      etherstubs: ["stub0"],
      nic_mtus: { jumbo: 9000 },
    };
    await Deno.writeTextFile(file, JSON.stringify({ ...facts, ...networks }));
    const { perform } = await host.newJob(1);
    await run(host, (nic) =>
      perform("vmadm.validate", [
        { brand: "kvm", uuid: UUID, nics: [{ ...NIC, ...nic }] },
      ], signal));
  });
}

Deno.test("an mtu is checked against the mtu that the host reports for its network", async () => {
  await withNetworks(async (host, validate) => {
    const taken: [string, number][] = [["external", 1500], ["jumbo", 9000], ["stub0", 576]];
    for (const [nic_tag, mtu] of taken) assertEquals(await validate({ nic_tag, mtu }), null);
    const refused: [string, number, string][] = [
      ["external", 1499, "expected at least 1500: the network external is a physical one"],
      ["external", 9000, "expected at most 1500: the link net0 of the network external"],
      ["jumbo", 576, "expected at least 1500"],
    ];
    for (const [nic_tag, mtu, words] of refused) {
      const error = await refusal(() => validate({ nic_tag, mtu }), "invalid_argument");
      assertStringIncludes(error.message, `payload.nics[0].mtu is ${mtu}, ${words}`);
      assertEquals(error.errors.map(({ field }) => field), ["payload.nics[0].mtu"]);
    }
    await host.assertHolds();
  });
});

Deno.test("an update's mtu is checked against the network of its nic", async () => {
  await withNetworks(async (host) => {
    const { perform } = await host.newJob(1);
    const mac = "02:08:20:aa:bb:cc";
    const nics = [{ ...NIC, nic_tag: "external", mac }];
    await perform("vmadm.create", [{ brand: "kvm", uuid: UUID, nics }], signal);
    const update = (changes: JsonObject) => perform("vmadm.update", [UUID, changes], signal);
    const words = "changes.update_nics[0].mtu is 9000, expected at most 1500";
    const changed = () => update({ update_nics: [{ mac, mtu: 9000 }] });
    assertStringIncludes((await refusal(changed, "invalid_argument")).message, words);
    const added = () => update({ add_nics: [{ ...NIC, nic_tag: "jumbo", mtu: 1400 }] });
    const message = (await refusal(added, "invalid_argument")).message;
    assertStringIncludes(message, "changes.add_nics[0].mtu is 1400, expected at least 1500");
    await update({ update_nics: [{ mac, nic_tag: "jumbo", mtu: 9000 }] });
  });
});

Deno.test("an mtu is left to vmadm if the host gives no answer, and the job's info says so", async () => {
  const silent = () => Promise.reject(new AgentError("host", "no such program"));
  const asked = async (
    programs: (host: Transport) => Partial<Transport>,
    nic_tag: string,
    mtu: number,
  ) => {
    let unasked: string[] = [];
    await withNetworks(async ({ transport }) => {
      const host: Transport = { ...transport, ...programs(transport) };
      const payload = { brand: "kvm", nics: [{ ...NIC, nic_tag, mtu }] };
      unasked = await requireHostRoom(host, payload, "machine", signal);
    });
    return unasked;
  };
  assertEquals(await asked(() => ({ dladm: silent }), "external", 9000), [
    "Cannot read the mtu of the host's links, so it is not checked: no such program",
  ]);
  const unprinted = () => ({
    nictagadm: () => Promise.resolve({ ...ENDED, stdout: "external:-:net0\nsdc:-:-\n" }),
  });
  assertEquals(await asked(unprinted, "external", 1400), [
    "The host does not report what kind of network external is, so only vmadm checks the mtu 1400",
  ]);
  assertEquals(await asked(unprinted, "sdc", 9000), [
    "The host does not report the mtu of network sdc, so 9000 is not checked",
  ]);
});

const ENDED: CommandResult = { code: 0, signal: null, stdout: "", stderr: "", durationMs: 1 };
const PAYLOAD: JsonObject = {
  brand: "bhyve",
  disks: [{ model: "virtio", size: 2 ** 40 }],
  nics: [{ ...NIC, nic_tag: "nowhere" }],
};

/** Asks a host whose two programs both answer so; returns why it was not asked. */
async function ask(answer: () => Promise<CommandResult>): Promise<string[]> {
  let unasked: string[] = [];
  await withHost(async ({ transport }) => {
    const programs: Transport = { ...transport, zfs: answer, nictagadm: answer };
    unasked = await requireHostRoom(programs, PAYLOAD, "machine", signal);
  });
  return unasked;
}

const SILENT: readonly (readonly [string, () => Promise<CommandResult>, RegExp])[] = [
  [
    "has no such program",
    () => Promise.reject(new AgentError("host", "Cannot run it: not found")),
    /: Cannot run it: not found$/,
  ],
  ["takes too long", () => Promise.reject(new AgentError("timeout", "Too long")), /: Too long$/],
  [
    "fails",
    () => Promise.resolve({ ...ENDED, code: 1, stderr: "no such pool\n" }),
    /: "(?:nictagadm list -p|zfs list -Hp -o used,available zones)" ended with exit code 1: no such pool$/,
  ],
  ["says nothing", () => Promise.resolve(ENDED), /: it (?:names none|said "")$/],
];

for (const [what, answer, why] of SILENT) {
  Deno.test(`a host whose program ${what} is left to vmadm, and that is recorded`, async () => {
    const [networks = "", room = "", ...others] = await ask(answer);
    assertMatch(networks, /^Cannot read the networks of the host, so only vmadm checks them: /);
    assertMatch(room, /^Cannot read the free space of the host, so only vmadm checks it: /);
    for (const sentence of [networks, room]) assertMatch(sentence, why);
    assertEquals(others, []);
  });
}

Deno.test("checks that the host did not answer are in the job's info, and the payload is accepted", async () => {
  await withHost(async (host) => {
    await host.simulate("audit");
    const file = `${host.folder}/host/host.json`;
    const facts = JSON.parse(await Deno.readTextFile(file));
    // Without networks nictagadm names none, and zfs knows no pool "zones" here.
    await Deno.writeTextFile(
      file,
      JSON.stringify({ ...facts, nic_tags: [], pool: { ...facts.pool, name: "tank" } }),
    );
    const { uuid, perform } = await host.newJob(1);
    const disks = [{ model: "virtio", size: 2 ** 20 }];
    const payload = { brand: "kvm", uuid: UUID, disks, nics: [{ ...NIC, nic_tag: "admin" }] };
    assertEquals(await perform("vmadm.validate", [payload], signal), null);
    const notes = (await notesOf(host.store, uuid)).map(({ message }) => String(message));
    assertEquals(notes, [
      "Cannot read the networks of the host, so only vmadm checks them: it names none",
      "Cannot read the free space of the host, so only vmadm checks it: " +
      '"zfs list -Hp -o used,available zones" ended with exit code 1: ' +
      "cannot open 'zones': dataset does not exist",
    ]);
  });
});

Deno.test("networks are read by SmartOS's own program, called by its path", async () => {
  const { nictagadm } = localTransport({ vmadm: "/usr/sbin/vmadm", zonesRoot: "/zones" });
  const error = await refusal(() => nictagadm(["list", "-p"], { deadlineMs: 1000 }), "host");
  assertEquals(error.message, 'Cannot run "/usr/bin/nictagadm": there is no such program');
});

Deno.test("an aborted query counts as no answer", async () => {
  const aborted = () => Promise.reject(new AgentError("aborted", "given up"));
  await refusal(() => ask(aborted), "aborted");
});
