// Calls about one machine wait for each other; calls about different machines do not.

import { assertEquals, assertFalse } from "@std/assert";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import { openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { until } from "../support/until.ts";
import { type FakeVmadm, thereAs, withFakeVmadm } from "./fake_vmadm.ts";
import { RECORDED_UUID } from "./recording.ts";
import { refused } from "./refused.ts";

const UUID = parseUuid<MachineUuid>(RECORDED_UUID, "uuid");
const OTHER = parseUuid<MachineUuid>("11111111-2222-3333-4444-555555555555", "uuid");

/** The look at a machine that was started. */
const LOOK = `lookup -j uuid=${UUID}`;

function withVmadm(test: (vmadm: Vmadm, fake: FakeVmadm) => Promise<void>): Promise<void> {
  return withFakeVmadm((fake) => test(openVmadm(fake.transport), fake));
}

Deno.test("calls about one machine run one after another, others at the same time", async () => {
  await withVmadm(async (vmadm, fake) => {
    await new Deno.Command("mkfifo", { args: [`${fake.folder}/gate`] }).output();
    await fake.answer(
      "boot",
      `read -r open < "$dir/gate"; echo "boot done" >> "$dir/calls"
       echo "Successfully started VM $2" >&2`,
    );
    await fake.answer("stop", `echo "Successfully completed stop for VM $2" >&2`);
    await fake.answer("lookup", thereAs("running"));
    const booting = vmadm.boot(UUID, {});
    const stopping = vmadm.stop(UUID, {});
    await until("the boot", async () => (await fake.calls()).includes(`boot ${UUID}`));
    await vmadm.stop(OTHER, {});
    assertFalse((await fake.calls()).includes(`stop ${UUID}`));
    await Deno.writeTextFile(`${fake.folder}/gate`, "open\n");
    await Promise.all([booting, stopping]);
    assertEquals(await fake.calls(), [
      `boot ${UUID}`,
      `stop ${OTHER}`,
      "boot done",
      LOOK,
      `stop ${UUID}`,
    ]);
  });
});

Deno.test("a caller that aborts while it waits for its turn calls nothing", async () => {
  await withVmadm(async (vmadm, fake) => {
    await new Deno.Command("mkfifo", { args: [`${fake.folder}/gate`] }).output();
    await fake.answer(
      "boot",
      `read -r open < "$dir/gate"; echo "Successfully started VM $2" >&2`,
    );
    await fake.answer("lookup", thereAs("running"));
    await fake.answer("delete", `echo "Successfully deleted VM $2" >&2`);
    const booting = vmadm.boot(UUID, {});
    const giveUp = new AbortController();
    const failing = refused(() => vmadm.stop(UUID, {}, { signal: giveUp.signal }), "aborted");
    const deleting = vmadm.delete(UUID);
    await until("the boot", async () => (await fake.calls()).length === 1);
    giveUp.abort();
    await failing;
    // Whoever waits behind the one that gave up still waits for the boot.
    assertEquals(await fake.calls(), [`boot ${UUID}`]);
    await Deno.writeTextFile(`${fake.folder}/gate`, "open\n");
    await Promise.all([booting, deleting]);
    assertEquals(await fake.calls(), [`boot ${UUID}`, LOOK, `delete ${UUID}`]);
  });
});
