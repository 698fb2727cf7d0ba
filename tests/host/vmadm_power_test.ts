// reboot, and what starting and stopping find when they look at the machine afterwards. Time is the test's.

import { withDeadlines } from "../support/deadlines.ts";
import { assertEquals } from "@std/assert";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import { waitOrAbort } from "../../src/runtime/wait.ts";
import { openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { type FakeVmadm, NOT_THERE, THERE, thereAs, withFakeVmadm } from "./fake_vmadm.ts";
import { RECORDED_UUID } from "./recording.ts";
import { refused } from "./refused.ts";

const UUID = parseUuid<MachineUuid>(RECORDED_UUID, "uuid");

function withVmadm(test: (vmadm: Vmadm, fake: FakeVmadm) => Promise<void>): Promise<void> {
  return withFakeVmadm((fake) => test(openVmadm(fake.transport), fake));
}

/** A vmadm whose waits end at once, and how long they would have been. */
async function withClock(
  test: (vmadm: Vmadm, fake: FakeVmadm, waitsMs: number[]) => Promise<void>,
): Promise<void> {
  await withFakeVmadm(async (fake) => {
    const waitsMs: number[] = [];
    const wait = async (_action: string, ms: number, signal?: AbortSignal) => {
      waitsMs.push(ms);
      await waitOrAbort("Cannot wait", 0, signal);
    };
    await test(openVmadm(fake.transport, wait), fake, waitsMs);
  });
}

/** Answers of lookup, one after another; the last one stays. */
async function answersInTurn(fake: FakeVmadm, ...answers: string[]): Promise<void> {
  const cases = answers.map((answer, index) =>
    `${index === answers.length - 1 ? "*" : index})\n${answer}\n;;`
  );
  await fake.answer(
    "lookup",
    `turn=$(cat "$dir/turn" 2>/dev/null || echo 0)
     echo $((turn + 1)) > "$dir/turn"
     case $turn in\n${cases.join("\n")}\nesac`,
  );
}

const STARTED = `echo "Successfully started VM $2" >&2`;

Deno.test("boot() checks a started machine twice, with a pause in between", async () => {
  await withClock(async (vmadm, fake, waitsMs) => {
    await fake.answer("boot", STARTED);
    await fake.answer("lookup", thereAs("running"));
    await vmadm.boot(UUID, {}, { watchMs: 1500 });
    assertEquals([(await fake.calls()).length, waitsMs], [3, [1500]]);
  });
});

Deno.test("boot() reports a machine that died at once or soon, with the end of its log", async () => {
  await withClock(async (vmadm, fake) => {
    const { zonesRoot } = fake.transport;
    const zonepath = `${zonesRoot}/${UUID}`;
    const dead = thereAs("stopped", { zonepath, brand: "kvm", exit_status: 1 });
    await Deno.mkdir(`${zonepath}/root/tmp`, { recursive: true });
    const log = `${zonepath}/root/tmp/vm.log`;
    await Deno.writeTextFile(log, "old\n\u001b[31mCannot allocate memory\npassword=x\n");
    await fake.answer("boot", STARTED);
    await fake.answer("lookup", dead);
    const words = (when: string) =>
      `vmadm started it, and it ended ${when} with exit status 1: its state is "stopped"; its log ` +
      `${log} ends with: old | [31mCannot allocate memory | password="***"`;
    await refused(() => vmadm.boot(UUID, {}), "host", words("at once"));
    await answersInTurn(fake, thereAs("running"), dead);
    await refused(() => vmadm.boot(UUID, {}, { watchMs: 2000 }), "host", words("within 2 s"));
    await fake.answer("lookup", NOT_THERE);
    await refused(() => vmadm.boot(UUID, {}), "not_found", "it has been deleted");
  });
});

Deno.test("boot() of a machine in another state is a conflict", async () => {
  await withVmadm(async (vmadm, fake) => {
    const text = 'Cannot start vm from state "provisioning", must be "stopped".';
    await fake.answer("boot", `echo 'Unable to start VM ${UUID}: ${text}' >&2; exit 1`);
    await fake.answer("lookup", thereAs("provisioning"));
    await refused(() => vmadm.boot(UUID, {}), "conflict", text);
  });
});

const IDLE = (state: string) => `echo "VM $2 is already not 'running' (currently: ${state})" >&2`;

Deno.test("stop() waits for a machine that is stopping already, and reports on it", async () => {
  await withClock(async (vmadm, fake, waitsMs) => {
    await fake.answer("stop", IDLE("stopping"));
    const stopping = thereAs("stopping");
    await answersInTurn(fake, stopping, stopping, thereAs("down"), thereAs("stopped"));
    const reports: number[] = [];
    await vmadm.stop(UUID, { onWait: (seconds) => Promise.resolve(void reports.push(seconds)) });
    assertEquals(waitsMs.filter((ms) => ms === 2000).length, 3);
    assertEquals(reports.slice(0, 2), [15, 30]);
    assertEquals((await fake.calls()).filter((call) => call.startsWith("stop")).length, 1);
  });
});

Deno.test("stop() stops a machine again that keeps running after it was stopping", async () => {
  await withClock(async (vmadm, fake) => {
    await fake.answer(
      "stop",
      `if [ -f "$dir/again" ]; then echo "Successfully completed stop for VM $2" >&2
       else touch "$dir/again"; ${IDLE("stopping")}; fi`,
    );
    await answersInTurn(fake, thereAs("stopping"), thereAs("running"));
    await vmadm.stop(UUID, {});
    assertEquals((await fake.calls()).filter((call) => call.startsWith("stop")).length, 2);
  });
});

Deno.test("stop() gives up on a machine that never stops", async () => {
  await withClock(async (vmadm, fake, waitsMs) => {
    await fake.answer("stop", IDLE("stopping"));
    await fake.answer("lookup", thereAs("stopping"));
    await refused(() => vmadm.stop(UUID, {}), "conflict", 'its state is still "stopping"');
    assertEquals(waitsMs.reduce((sum, ms) => sum + ms, 0), 300_000);
    await fake.answer("lookup", thereAs("running"));
    await refused(() => vmadm.stop(UUID, {}), "conflict", 'its state is still "running"');
  });
});

Deno.test("stop() by force accepts a machine that stopped in the meantime", async () => {
  await withClock(async (vmadm, fake) => {
    const idle = (state: string) => IDLE(state).replace('"VM', '"first of 1 error: VM');
    await fake.answer("stop", `${idle("stopped")}; exit 1`);
    await vmadm.stop(UUID, { force: true });
    assertEquals(await fake.calls(), [`stop ${UUID} -F`]);
    // The state is of before the halt that found nothing to halt.
    await fake.answer("stop", `${idle("running")}; exit 1`);
    await fake.answer("lookup", thereAs("stopped"));
    await vmadm.stop(UUID, { force: true });
  });
});

Deno.test("reboot() asks the guest, or resets it by force", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("reboot", `echo "Successfully completed reboot for VM $2" >&2`);
    await vmadm.reboot(UUID, {});
    await vmadm.reboot(UUID, { force: true });
    assertEquals(await fake.calls(), [`reboot ${UUID}`, `reboot ${UUID} -F`]);
  });
});

Deno.test("stop() gives the guest vmadm's timeout, the requested one, or none", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("stop", `echo "Successfully completed stop for VM $2" >&2`);
    await vmadm.stop(UUID, {});
    await vmadm.stop(UUID, { timeoutSeconds: 30 });
    await vmadm.stop(UUID, { force: true });
    assertEquals(await fake.calls(), [`stop ${UUID}`, `stop ${UUID} -t 30`, `stop ${UUID} -F`]);
  });
});

Deno.test("reboot() of a machine that is not running is a conflict that names its state", async () => {
  await withVmadm(async (vmadm, fake) => {
    const text = 'Cannot reboot vm from state "stopped", must be "running"';
    await fake.answer("reboot", `echo '${text}' >&2; exit 1`);
    await fake.answer("lookup", THERE);
    await refused(
      () => vmadm.reboot(UUID, {}),
      "conflict",
      'its state is "stopped", expected "running"',
    );
    await fake.answer("lookup", NOT_THERE);
    await refused(() => vmadm.reboot(UUID, {}), "not_found", UUID);
  });
});

Deno.test("reboot() believes only vmadm's message, and quotes that of a failure", async () => {
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

Deno.test("an upper-case uuid reaches vmadm in lower case", async () => {
  await withVmadm(async (vmadm, fake) => {
    const upper = UUID.toUpperCase() as MachineUuid;
    await fake.answer("boot", `echo "Successfully started VM $2" >&2`);
    await fake.answer("stop", `echo "Successfully completed stop for VM $2" >&2`);
    await fake.answer("delete", `echo "Successfully deleted VM $2" >&2`);
    await fake.answer("update", `echo "Successfully updated VM $2" >&2`);
    await fake.answer("lookup", thereAs("running"));
    await vmadm.boot(upper, {});
    await vmadm.stop(upper, {});
    await vmadm.update(upper, {});
    await vmadm.delete(upper);
    assertEquals(
      await fake.calls(),
      ["boot", `lookup -j`, "stop", "update", "delete"]
        .map((it) => it.startsWith("lookup") ? `${it} uuid=${UUID}` : `${it} ${UUID}`),
    );
  });
});

Deno.test("a stop that exceeds its deadline fails with timeout, and the next call gets the machine", async () => {
  await withFakeVmadm(async (fake) => {
    const vmadm = openVmadm(withDeadlines(fake.transport, { stop: 300 }));
    await fake.answer("stop", "exec sleep 600");
    await refused(() => vmadm.stop(UUID, {}), "timeout", `"vmadm stop ${UUID}"`);
    await fake.answer("boot", `echo "Successfully started VM $2" >&2`);
    await fake.answer("lookup", thereAs("running"));
    await vmadm.boot(UUID, {});
  });
});
