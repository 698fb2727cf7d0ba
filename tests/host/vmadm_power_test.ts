// reboot, and how starting and stopping tell what did not come about.

import { assertEquals } from "@std/assert";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import { openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { type FakeVmadm, NOT_THERE, THERE, withFakeVmadm } from "./fake_vmadm.ts";
import { RECORDED_UUID, recording } from "./recording.ts";
import { refused } from "./refused.ts";

const UUID = parseUuid<MachineUuid>(RECORDED_UUID, "uuid");

function withVmadm(test: (vmadm: Vmadm, fake: FakeVmadm) => Promise<void>): Promise<void> {
  return withFakeVmadm((fake) => test(openVmadm(fake.transport), fake));
}

function thereAs(state: string): string {
  const text = recording("lookup_one.json").replace('"stopped"', JSON.stringify(state));
  return `cat <<'TEXT'\n${text}TEXT`;
}

Deno.test("reboot() asks the guest, or resets it by force", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("reboot", `echo "Successfully completed reboot for VM $2" >&2`);
    await vmadm.reboot(UUID, {});
    await vmadm.reboot(UUID, { force: true });
    assertEquals(await fake.calls(), [`reboot ${UUID}`, `reboot ${UUID} -F`]);
  });
});

Deno.test("stop() gives the guest vmadm's time, or what it is told, or none", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("stop", `echo "Successfully completed stop for VM $2" >&2`);
    await vmadm.stop(UUID, {});
    await vmadm.stop(UUID, { timeoutSeconds: 30 });
    await vmadm.stop(UUID, { force: true });
    assertEquals(await fake.calls(), [`stop ${UUID}`, `stop ${UUID} -t 30`, `stop ${UUID} -F`]);
  });
});

Deno.test("reboot() of a machine that does not run is a conflict that names its state", async () => {
  await withVmadm(async (vmadm, fake) => {
    const text = 'Cannot reboot vm from state "stopped", must be "running"';
    await fake.answer("reboot", `echo '${text}' >&2; exit 1`);
    await fake.answer("lookup", THERE);
    await refused(() => vmadm.reboot(UUID, {}), "conflict", 'its state is "stopped"');
    await fake.answer("lookup", NOT_THERE);
    await refused(() => vmadm.reboot(UUID, {}), "not_found", UUID);
  });
});

Deno.test("reboot() believes only the sentence, and keeps what vmadm says of a failure", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("lookup", thereAs("running"));
    await fake.answer("reboot", "true");
    await refused(() => vmadm.reboot(UUID, {}), "host", "exit code 0 and wrote nothing");
    const text = "timed out waiting for zone to reboot";
    await fake.answer("reboot", `echo '${text}' >&2; echo noise; exit 1`);
    const words = `"vmadm reboot ${UUID}" ended with exit code 1: ${text} | noise`;
    await refused(() => vmadm.reboot(UUID, {}), "host", words);
  });
});

Deno.test("a uuid in capitals reaches vmadm in the only spelling that it takes", async () => {
  await withVmadm(async (vmadm, fake) => {
    const upper = UUID.toUpperCase() as MachineUuid;
    await fake.answer("boot", `echo "Successfully started VM $2" >&2`);
    await fake.answer("stop", `echo "Successfully completed stop for VM $2" >&2`);
    await fake.answer("delete", `echo "Successfully deleted VM $2" >&2`);
    await fake.answer("update", `echo "Successfully updated VM $2" >&2`);
    await vmadm.boot(upper, {});
    await vmadm.stop(upper, {});
    await vmadm.update(upper, {});
    await vmadm.delete(upper);
    assertEquals(
      await fake.calls(),
      ["boot", "stop", "update", "delete"].map((it) => `${it} ${UUID}`),
    );
  });
});

Deno.test("a stop that its deadline cuts is told as that, and the next call has the machine", async () => {
  await withFakeVmadm(async (fake) => {
    const vmadm = openVmadm(fake.transport, { stop: 300 });
    await fake.answer("stop", "exec sleep 600");
    await refused(() => vmadm.stop(UUID, {}), "timeout", `"vmadm stop ${UUID}"`);
    await fake.answer("boot", `echo "Successfully started VM $2" >&2`);
    await vmadm.boot(UUID, {});
  });
});
