// The words and the verdict of the other operations, against a program that answers as the test says.

import { assertEquals, assertFalse, assertStringIncludes } from "@std/assert";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import { openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { type FakeVmadm, NOT_THERE, prints, THERE, withFakeVmadm } from "./fake_vmadm.ts";
import { RECORDED_UUID, recording } from "./recording.ts";
import { refused } from "./refused.ts";

const UUID = parseUuid<MachineUuid>(RECORDED_UUID, "uuid");

function withVmadm(test: (vmadm: Vmadm, fake: FakeVmadm) => Promise<void>): Promise<void> {
  return withFakeVmadm((fake) => test(openVmadm(fake.transport), fake));
}

Deno.test("get() returns the machine without its password", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("lookup", THERE);
    const machine = await vmadm.get(UUID);
    assertEquals(machine?.zonepath, `/zones/${UUID}`);
    assertFalse(Object.hasOwn(machine ?? {}, "vnc_password"));
    assertEquals(await fake.calls(), [`lookup -j uuid=${UUID}`]);
  });
});

Deno.test("get() is null only when vmadm answers that there is none", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("lookup", NOT_THERE);
    assertEquals(await vmadm.get(UUID), null);
    for (const answer of ["true", "echo '['", "echo '[]'; exit 1", "echo null"]) {
      await fake.answer("lookup", answer);
      await refused(() => vmadm.get(UUID), "host");
    }
  });
});

Deno.test("every operation refuses an invalid uuid before it calls vmadm", async () => {
  await withVmadm(async (vmadm, fake) => {
    for (const text of ["--help", "-f/etc/passwd/xxxx-xxxx-xxxx-xxxxxxxxxxxx", `${UUID}\n`, ""]) {
      // The compiler would refuse these; a caller that casts must not get through.
      const uuid = text as MachineUuid;
      await refused(() => vmadm.get(uuid), "invalid_argument");
      await refused(() => vmadm.boot(uuid, {}), "invalid_argument");
      await refused(() => vmadm.stop(uuid, {}), "invalid_argument");
      await refused(() => vmadm.update(uuid, {}), "invalid_argument");
      await refused(() => vmadm.delete(uuid), "invalid_argument");
      await refused(() => vmadm.infoVnc(uuid), "invalid_argument");
    }
    assertEquals(await fake.calls(), []);
  });
});

Deno.test("unreadable output is an error with the command, its exit and both streams", async () => {
  const LIST = "Cannot list the machines: ";
  const ONE = `Cannot look up machine ${UUID}: `;
  const VNC = `Cannot look up the VNC console of machine ${UUID}: `;
  const other = UUID.replace(/^./, (digit) => digit === "0" ? "1" : "0");
  await withVmadm(async (vmadm, fake) => {
    const lookup = ["lookup", `"vmadm lookup -j uuid=${UUID}"`] as const;
    const list = ["lookup", '"vmadm lookup -j -o uuid,alias,'] as const;
    const info = ["info", `"vmadm info ${UUID} vnc"`] as const;
    const refusals = [
      [() => vmadm.list(), LIST, list, "hello", "expected JSON"],
      [() => vmadm.list(), LIST, list, "{}", "expected an array of objects"],
      [() => vmadm.list(), LIST, list, "[{}]", "expected objects with a uuid"],
      [() => vmadm.get(UUID), ONE, lookup, `[{"uuid":"${other}"}]`, "expected this machine only"],
      [() => vmadm.infoVnc(UUID), VNC, info, "{", "expected JSON"],
      [() => vmadm.infoVnc(UUID), VNC, info, "[]", 'expected an object with "vnc"'],
      [() => vmadm.infoVnc(UUID), VNC, info, '{"vnc":{"host":"a"}}', "expected a port from"],
      [() => vmadm.infoVnc(UUID), VNC, info, '{"vnc":{"port":5901}}', "expected a host"],
    ] as const;
    for (const [run, action, [subcommand, command], output, wanted] of refusals) {
      const streams = `echo 'slow; vnc_password=pass1234' >&2; echo '${output}'`;
      await fake.answer(subcommand, streams);
      const end = 'ended with exit code 0: slow; vnc_password="***" | Cannot read ';
      const error = await refused(run, "host", action + command, end, wanted, `wrote ${output}`);
      assertFalse(error.message.includes("pass1234"));
    }
  });
});

Deno.test("list() requests the fields that a list shows", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("lookup", THERE);
    assertEquals((await vmadm.list()).map((machine) => machine.alias), ["installer"]);
    const [call = ""] = await fake.calls();
    assertStringIncludes(call, "lookup -j -o uuid,alias,brand,state,");
    assertFalse(/vnc_password|disks|nics/.test(call), call);
    await vmadm.list({ detailed: true });
    const [, detailed = ""] = await fake.calls();
    assertEquals(detailed, `${call},create_timestamp,owner_uuid,disks,nics`);
  });
});

Deno.test("boot(), stop(), update() and infoVnc() report a missing machine", async () => {
  await withVmadm(async (vmadm, fake) => {
    for (const subcommand of ["boot", "stop", "update", "info"]) {
      await fake.answer(subcommand, "echo 'bad statusCode: 404' >&2; exit 1");
    }
    await fake.answer("lookup", NOT_THERE);
    await refused(() => vmadm.boot(UUID, {}), "not_found", UUID);
    await refused(() => vmadm.stop(UUID, {}), "not_found", UUID);
    await refused(() => vmadm.update(UUID, {}), "not_found", UUID);
    await refused(() => vmadm.infoVnc(UUID), "not_found", UUID);
  });
});

Deno.test("stop() stops gracefully, or by force on request", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("stop", `echo "Successfully completed stop for VM $2" >&2`);
    await vmadm.stop(UUID, {});
    await vmadm.stop(UUID, { force: true });
    assertEquals(await fake.calls(), [`stop ${UUID}`, `stop ${UUID} -F`]);
  });
});

Deno.test("stop() leaves a stopped machine alone", async () => {
  await withVmadm(async (vmadm, fake) => {
    const text = `VM ${UUID} is already not 'running' (currently: stopped)`;
    await fake.answer("stop", `echo "${text}" >&2`);
    await vmadm.stop(UUID, {});
    await fake.answer("stop", "true");
    await fake.answer("lookup", THERE);
    await refused(() => vmadm.stop(UUID, {}), "host");
  });
});

Deno.test("update() sends the changes", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("update", `echo "Successfully updated VM $2" >&2`);
    await vmadm.update(UUID, { quota: 12 });
    assertEquals(await fake.calls(), [`update ${UUID}`]);
    assertEquals(await fake.input(), { quota: 12 });
    await fake.answer("update", "true");
    await fake.answer("lookup", THERE);
    await refused(() => vmadm.update(UUID, { quota: 12 }), "host");
  });
});

Deno.test("delete() treats a missing machine as deleted", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("delete", `echo "Successfully deleted VM $2" >&2`);
    await vmadm.delete(UUID);
    assertEquals(await fake.calls(), [`delete ${UUID}`]);
    await fake.answer("delete", `echo "Failed to delete VM $2: VM $2 not found" >&2; exit 1`);
    await fake.answer("lookup", NOT_THERE);
    await vmadm.delete(UUID);
  });
});

Deno.test("delete() fails while the machine exists, or may exist", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("delete", `echo "Failed to delete VM $2: dataset is busy" >&2; exit 1`);
    await fake.answer("lookup", THERE);
    await refused(() => vmadm.delete(UUID), "host", "dataset is busy");
    await fake.answer("lookup", "echo ECONNREFUSED >&2; exit 1");
    await refused(() => vmadm.delete(UUID), "host", "dataset is busy");
  });
});

Deno.test("infoVnc() returns the address without the password", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("info", prints("info_vnc_password.json", 1));
    const address = { host: "10.99.99.7", port: 39409, display: 33509 };
    assertEquals(await vmadm.infoVnc(UUID), address);
    assertEquals(await fake.calls(), [`info ${UUID} vnc`]);
  });
});

Deno.test("infoVnc() is null while the console does not answer yet", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("info", prints("info_vnc_empty.json", 1));
    assertEquals(await vmadm.infoVnc(UUID), null);
    const text = `Unable to get VM info for VM ${UUID}: ` +
      "Unable to get info from vmadmd, query returned 500.";
    await fake.answer("info", `echo "${text}" >&2; exit 1`);
    assertEquals(await vmadm.infoVnc(UUID), null);
  });
});

Deno.test("infoVnc() refuses a machine that is not running", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("info", `echo 'from state "stopped", must be "running"' >&2; exit 1`);
    await fake.answer("lookup", THERE);
    await refused(() => vmadm.infoVnc(UUID), "conflict", 'its state is "stopped"');
  });
});

Deno.test("infoVnc() reports a daemon that is down as a failure of the host", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("info", "echo 'connect ECONNREFUSED' >&2; exit 1");
    const running = recording("lookup_one.json").replace("stopped", "running");
    await fake.answer("lookup", `cat <<'TEXT'\n${running}TEXT`);
    await refused(() => vmadm.infoVnc(UUID), "host", "connect ECONNREFUSED");
  });
});
