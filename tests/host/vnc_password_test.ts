// Passwords of consoles: made on the way to vmadm, read back from it, and shown nowhere else.

import {
  assert,
  assertEquals,
  assertFalse,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import { randomPassword, withPassword } from "../../src/host/vmadm/vnc.ts";
import { type FakeVmadm, prints, THERE, withFakeVmadm } from "./fake_vmadm.ts";
import { RECORDED_UUID, recording } from "./recording.ts";
import { refused } from "./refused.ts";

const UUID = parseUuid<MachineUuid>(RECORDED_UUID, "uuid");
const PAYLOAD = { uuid: UUID, brand: "kvm", ram: 256 };
const PASSWORD = /^[A-HJ-NP-Za-km-z2-9]{8}$/;

/** The password in the last payload. */
async function givenTo({ input }: FakeVmadm): Promise<string> {
  return (await input() as { vnc_password: string }).vnc_password;
}

Deno.test("a random password has eight characters that cannot be mistaken, and no two are equal", () => {
  const made = new Set(Array.from({ length: 2000 }, randomPassword));
  assertEquals(made.size, 2000);
  for (const password of made) assertMatch(password, PASSWORD);
  const letters = new Set([...made].join(""));
  assertEquals(letters.size, 57);
});

Deno.test("true generates a password, and false leaves none", () => {
  const { vnc_password } = withPassword({ ...PAYLOAD, vnc_password: true });
  assertMatch(String(vnc_password), PASSWORD);
  assertFalse("vnc_password" in withPassword({ ...PAYLOAD, vnc_password: false }));
  assertFalse("vnc_password" in withPassword(PAYLOAD));
});

Deno.test("vmadm gets the password, and none of its errors shows it", async () => {
  await withFakeVmadm(async (fake) => {
    const vmadm = openVmadm(fake.transport);
    await fake.answer("lookup", THERE);
    await fake.answer("create", `echo "Successfully created VM ${UUID}" >&2`);
    await vmadm.create({ ...PAYLOAD, vnc_password: true });
    assertMatch(await givenTo(fake), PASSWORD);
    assertEquals(await fake.input(), { ...PAYLOAD, vnc_password: await givenTo(fake) });
    await vmadm.create({ ...PAYLOAD, vnc_password: false });
    assertEquals(await fake.input(), PAYLOAD);

    const alone = `sed 's/.*"vnc_password": *"\\([^"]*\\)".*/\\1/' "$dir/input"`;
    await fake.answer("create", `{ echo bad:; cat "$dir/input"; ${alone}; } >&2; exit 1`);
    const failure = await vmadm.create({ ...PAYLOAD, vnc_password: true }).catch((e) => e);
    assert(failure instanceof AgentError);
    assertStringIncludes(failure.message, "bad:");
    assertFalse(failure.message.includes(await givenTo(fake)), failure.message);

    await fake.answer("validate", `echo "VALID 'create' payload for kvm brand VMs." >&2`);
    await vmadm.validateCreate({ ...PAYLOAD, vnc_password: true });
    assertMatch(await givenTo(fake), PASSWORD);
  });
});

Deno.test("each machine gets a password of its own", async () => {
  await withFakeVmadm(async (fake) => {
    const vmadm = openVmadm(fake.transport);
    await fake.answer("lookup", THERE);
    await fake.answer("create", `echo "Successfully created VM ${UUID}" >&2`);
    const made: unknown[] = [];
    for (let times = 0; times < 2; times += 1) {
      await vmadm.create({ ...PAYLOAD, vnc_password: true });
      made.push((await fake.input() as { vnc_password: string }).vnc_password);
    }
    assertNotEquals(made[0], made[1]);
  });
});

Deno.test("vncConsole() shows the password, infoVnc() and errors do not", async () => {
  await withFakeVmadm(async (fake) => {
    const vmadm = openVmadm(fake.transport);
    const text = recording("info_vnc_password.json");
    const { password } = JSON.parse(text).vnc;
    await fake.answer("info", prints("info_vnc_password.json", 1));
    assertEquals((await vmadm.vncConsole(UUID))?.password, password);
    assertFalse(JSON.stringify(await vmadm.infoVnc(UUID)).includes(password));
    // Cut in its middle, it is no JSON any more, and quoted in the error.
    const cut = text.slice(0, text.indexOf(password) + password.length);
    await fake.answer("info", `cat <<'TEXT'\n${cut}\nTEXT`);
    const failure = await vmadm.vncConsole(UUID).catch((error) => error);
    assert(failure instanceof AgentError);
    assertFalse(failure.message.includes(password), failure.message);
    await fake.answer("info", prints("info_vnc_empty.json", 1));
    assertEquals(await vmadm.vncConsole(UUID), null);
    await fake.answer("info", "exit 1");
    await fake.answer("lookup", THERE);
    await refused(() => vmadm.vncConsole(UUID), "conflict", 'its state is "stopped"');
  });
});
