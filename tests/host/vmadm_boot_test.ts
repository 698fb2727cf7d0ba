// boot: the words it says, those it refuses to say, and the verdict.

import { assertEquals } from "@std/assert";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import { type BootDevice, openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { type FakeVmadm, THERE, thereAs, withFakeVmadm } from "./fake_vmadm.ts";
import { RECORDED_UUID } from "./recording.ts";
import { refused } from "./refused.ts";

const UUID = parseUuid<MachineUuid>(RECORDED_UUID, "uuid");
const OTHER = parseUuid<MachineUuid>("11111111-2222-3333-4444-555555555555", "uuid");

function withVmadm(test: (vmadm: Vmadm, fake: FakeVmadm) => Promise<void>): Promise<void> {
  return withFakeVmadm((fake) => test(openVmadm(fake.transport), fake));
}

Deno.test("boot() passes the arguments of the documented procedure", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("boot", `echo "Successfully started VM $2" >&2`);
    await fake.answer("lookup", thereAs("running"));
    await vmadm.boot(UUID, { order: "cd", once: "d", cdrom: "/install.iso" });
    await vmadm.boot(UUID, { disk: "/image.raw" });
    await vmadm.boot(UUID, { order: "dc" });
    await vmadm.boot(UUID, { once: "n" });
    await vmadm.boot(UUID, {});
    const boots = (await fake.calls()).filter((call) => call.startsWith("boot"));
    assertEquals(boots, [
      `boot ${UUID} order=cd,once=d cdrom=/install.iso,ide`,
      `boot ${UUID} disk=/image.raw,ide`,
      `boot ${UUID} order=dc`,
      `boot ${UUID} order=cd,once=n`,
      `boot ${UUID}`,
    ]);
  });
});

Deno.test("boot() refuses options outside the closed set and calls nothing", async () => {
  await withVmadm(async (vmadm, fake) => {
    for (const word of ["", "x", "cc", "cd,menu=on", "cd,once=d", "CD", "c d", "cdnc", "=d"]) {
      // What a task body sends is no more than a text.
      const device = word as BootDevice;
      await refused(() => vmadm.boot(UUID, { order: device }), "invalid_argument", "order");
      await refused(() => vmadm.boot(UUID, { once: device }), "invalid_argument", "once");
    }
    await refused(() => vmadm.boot(UUID, { once: "cd" }), "invalid_argument", "once");
    assertEquals(await fake.calls(), []);
  });
});

Deno.test("boot() refuses paths other than a plain name in the zone's root", async () => {
  const paths = [
    "install.iso",
    "/",
    "//install.iso",
    "/../etc/passwd",
    "/a/b.iso",
    "/.hidden.iso",
    "/-rf.iso",
    "/a,b.iso",
    "/a=b.iso",
    "/a b.iso",
    "/a\nb.iso",
    "/a.iso\n",
    "/é.iso",
    "/$(id).iso",
    `/${"a".repeat(129)}`,
  ];
  await withVmadm(async (vmadm, fake) => {
    for (const path of paths) {
      await refused(() => vmadm.boot(UUID, { cdrom: path }), "invalid_argument");
      await refused(() => vmadm.boot(UUID, { disk: path }), "invalid_argument");
    }
    assertEquals(await fake.calls(), []);
  });
});

Deno.test("boot() leaves a running machine alone", async () => {
  await withVmadm(async (vmadm, fake) => {
    const text = `Unable to start VM ${UUID}: VM ${UUID} is already 'running'`;
    await fake.answer("boot", `echo "${text}" >&2`);
    await vmadm.boot(UUID, {});
    await fake.answer("boot", `echo "${text}" >&2; exit 1`);
    await fake.answer("lookup", THERE);
    await refused(() => vmadm.boot(UUID, {}), "host", text);
  });
});

Deno.test("boot() quotes vmadm's message of a failure", async () => {
  await withVmadm(async (vmadm, fake) => {
    const text = `Unable to start VM ${UUID}: Cannot find disk: /x.iso`;
    await fake.answer("boot", `echo '${text}' >&2; exit 1`);
    await fake.answer("lookup", THERE);
    const words = `"vmadm boot ${UUID} cdrom=/x.iso,ide" ended with exit code 1: ${text}`;
    await refused(() => vmadm.boot(UUID, { cdrom: "/x.iso" }), "host", words);
  });
});

Deno.test("boot() does not believe success without vmadm's message", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("lookup", THERE);
    for (const answer of ["true", `echo 'Successfully started VM ${OTHER}' >&2`]) {
      await fake.answer("boot", answer);
      await refused(() => vmadm.boot(UUID, {}), "host", "exit code 0");
    }
  });
});
