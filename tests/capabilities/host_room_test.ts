// What is held against the host before a machine is made: its networks, and the room in its pool.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { CommandResult } from "../../src/host/command.ts";
import { requireHostRoom } from "../../src/host/host_room.ts";
import type { Transport } from "../../src/host/transport.ts";
import { machineUuidOf, withHost } from "./simulated_host.ts";

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

Deno.test("vmadm.validate() refuses disks that do not fit into what is left of the pool", async () => {
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

const ENDED: CommandResult = { code: 0, signal: null, stdout: "", stderr: "", durationMs: 1 };
const PAYLOAD: JsonObject = {
  brand: "bhyve",
  disks: [{ model: "virtio", size: 2 ** 40 }],
  nics: [{ ...NIC, nic_tag: "nowhere" }],
};

/** Asks a host whose two programs both answer so. */
async function ask(answer: () => Promise<CommandResult>): Promise<void> {
  await withHost(async ({ transport }) => {
    const programs: Transport = { ...transport, zfs: answer, nictagadm: answer };
    await requireHostRoom(programs, PAYLOAD, "machine", signal);
  });
}

Deno.test("a host that cannot be asked is left to vmadm", async () => {
  await ask(() => Promise.reject(new AgentError("host", "Cannot run the program: not found")));
  await ask(() => Promise.reject(new AgentError("timeout", "It took too long")));
  await ask(() => Promise.resolve({ ...ENDED, code: 1, stderr: "no such pool" }));
  await ask(() => Promise.resolve(ENDED));
  await ask(() => Promise.resolve({ ...ENDED, stdout: "-\n" }).then((it) => ({ ...it, code: 2 })));
});

Deno.test("a question that is given up is no answer", async () => {
  const aborted = () => Promise.reject(new AgentError("aborted", "given up"));
  await refusal(() => ask(aborted), "aborted");
});
