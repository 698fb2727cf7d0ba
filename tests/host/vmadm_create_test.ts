// create and validate: the payload, the sentence, and every way in which vmadm fails to say it.

import { withDeadlines } from "../support/deadlines.ts";
import { assertEquals, assertFalse } from "@std/assert";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import { openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { until } from "../support/until.ts";
import { type FakeVmadm, NOT_THERE, prints, THERE, withFakeVmadm } from "./fake_vmadm.ts";
import { RECORDED_UUID } from "./recording.ts";
import { refused } from "./refused.ts";

const UUID = parseUuid<MachineUuid>(RECORDED_UUID, "uuid");
const OTHER = parseUuid<MachineUuid>("11111111-2222-3333-4444-555555555555", "uuid");
const PAYLOAD = { uuid: UUID, brand: "kvm", autoboot: false, ram: 512 };

function withVmadm(test: (vmadm: Vmadm, fake: FakeVmadm) => Promise<void>): Promise<void> {
  return withFakeVmadm((fake) => test(openVmadm(fake.transport), fake));
}

Deno.test("create() sends the payload and reads vmadm's message on standard error", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", prints("create_success.txt", 2));
    await fake.answer("lookup", THERE);
    assertEquals((await vmadm.create(PAYLOAD)).uuid, UUID);
    assertEquals(await fake.calls(), ["create", `lookup -j uuid=${UUID}`]);
    assertEquals(await fake.input(), PAYLOAD);
  });
});

Deno.test("create() sends an upper-case uuid in lower case", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", prints("create_success.txt", 2));
    await fake.answer("lookup", THERE);
    assertEquals((await vmadm.create({ ...PAYLOAD, uuid: UUID.toUpperCase() })).uuid, UUID);
    assertEquals(await fake.input(), PAYLOAD);
  });
});

Deno.test("create() refuses a payload without a uuid and calls nothing", async () => {
  await withVmadm(async (vmadm, fake) => {
    const { uuid: _, ...rest } = PAYLOAD;
    await refused(() => vmadm.create(rest), "invalid_argument", "machine.uuid");
    await refused(() => vmadm.create({ ...rest, uuid: "--help" }), "invalid_argument");
    assertEquals(await fake.calls(), []);
  });
});

Deno.test("create() does not believe success without vmadm's message", async () => {
  await withVmadm(async (vmadm, fake) => {
    for (const answer of ["true", "echo done >&2", "echo garbage; printf '\\000\\377'"]) {
      await fake.answer("create", answer);
      await refused(() => vmadm.create(PAYLOAD), "host", '"vmadm create" ended with exit code 0');
    }
  });
});

Deno.test("create() does not believe success about another uuid", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", `echo 'Successfully created VM ${OTHER}' >&2`);
    await refused(() => vmadm.create(PAYLOAD), "host", OTHER);
  });
});

Deno.test("create() does not believe success without a machine", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", prints("create_success.txt", 2));
    await fake.answer("lookup", NOT_THERE);
    await refused(() => vmadm.create(PAYLOAD), "host", "the machine does not exist");
  });
});

Deno.test("create() refuses too much output", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", "exec yes");
    await refused(() => vmadm.create(PAYLOAD), "host", '"vmadm create"', "it wrote more than");
  });
});

Deno.test("create() shows the exit code and both streams of a failure", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", "echo 'Bhyve not supported' >&2; echo more; exit 1");
    await refused(
      () => vmadm.create(PAYLOAD),
      "host",
      `Cannot create machine ${UUID}: "vmadm create" ended with exit code 1`,
      "Bhyve not supported | more",
    );
  });
});

Deno.test("create() reports a signal that ended vmadm", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", "kill -ABRT $$");
    await refused(() => vmadm.create(PAYLOAD), "host", "was ended by SIGABRT");
  });
});

Deno.test("create() reports a full pool as storage_full", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", `${prints("create_no_space.txt", 2)}\nexit 1`);
    await refused(() => vmadm.create(PAYLOAD), "storage_full", "out of space");
  });
});

Deno.test("create() reports a taken uuid", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", `echo 'VM with UUID ${UUID} already exists' >&2; exit 1`);
    await refused(() => vmadm.create(PAYLOAD), "already_exists", UUID);
  });
});

Deno.test("create() reports an existing volume or zone", async () => {
  await withVmadm(async (vmadm, fake) => {
    for (const what of [`cannot create 'zones/${UUID}-disk0': dataset`, `${UUID}: zone`]) {
      const text = `Command failed: ${what} already exists`;
      await fake.answer("create", `cat >&2 <<'TEXT'\n${text}\n\nTEXT\nexit 1`);
      await refused(() => vmadm.create(PAYLOAD), "already_exists", text);
    }
  });
});

Deno.test("create() does not show the payload's password in its failure", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("create", 'cat "$dir/input" >&2; echo "bad: pass1234" >&2; exit 1');
    const payload = { ...PAYLOAD, vnc_password: "pass1234" };
    const error = await refused(() => vmadm.create(payload), "host", "bad: ***");
    assertFalse(error.message.includes("pass1234"));
    assertFalse(Deno.inspect(error).includes("pass1234"));
  });
});

Deno.test("create() ends at its deadline and names the command", async () => {
  await withFakeVmadm(async (fake) => {
    await fake.answer("create", "exec sleep 600");
    const vmadm = openVmadm(withDeadlines(fake.transport, { create: 300 }));
    await refused(() => vmadm.create(PAYLOAD), "timeout", '"vmadm create"', "after 0.3 s");
  });
});

Deno.test("create() returns when its caller aborts, and settled() waits until vmadm is done", async () => {
  await withVmadm(async (vmadm, fake) => {
    const wait = 'until [ -e "$dir/go" ]; do sleep 0.02; done; echo done > "$dir/made"';
    await fake.answer("create", `${wait}\n${prints("create_success.txt", 2)}`);
    await fake.answer("lookup", THERE);
    const giveUp = new AbortController();
    const failing = refused(() => vmadm.create(PAYLOAD, { signal: giveUp.signal }), "aborted");
    await until("the call", async () => (await fake.calls()).length === 1);
    giveUp.abort();
    await failing;
    const impatient = new AbortController();
    const waiting = refused(() => vmadm.settled(UUID, { signal: impatient.signal }), "aborted");
    impatient.abort();
    await waiting;
    await vmadm.settled(OTHER);
    // What goes on no longer keeps this process alive, as the listener of an agent does.
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const accepting = listener.accept().catch(() => {});
    await Deno.writeTextFile(`${fake.folder}/go`, "");
    await vmadm.settled(UUID);
    assertEquals(await Deno.readTextFile(`${fake.folder}/made`), "done\n");
    listener.close();
    await accepting;
  });
});

Deno.test("create() calls nothing for a caller that has aborted", async () => {
  await withVmadm(async (vmadm, fake) => {
    await refused(() => vmadm.create(PAYLOAD, { signal: AbortSignal.abort() }), "aborted");
    await vmadm.settled(UUID);
    assertEquals(await fake.calls(), []);
  });
});

Deno.test("validateCreate() accepts what vmadm calls valid", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("validate", prints("validate_success.txt", 2));
    await vmadm.validateCreate(PAYLOAD);
    assertEquals(await fake.calls(), ["validate create"]);
    assertEquals(await fake.input(), PAYLOAD);
  });
});

Deno.test("validateCreate() names every field that vmadm refuses", async () => {
  await withVmadm(async (vmadm, fake) => {
    await fake.answer("validate", `${prints("validate_refused.txt", 2)}\nexit 1`);
    const error = await refused(
      () => vmadm.validateCreate(PAYLOAD),
      "invalid_argument",
      "machine.ram has a value refused by vmadm",
    );
    assertEquals(error.errors.map(({ field }) => field), [
      "machine.ram",
      "machine.nics.*.vlan_id",
      "machine.colour",
      "machine.disks.0.size",
    ]);
  });
});

Deno.test("validateCreate() reports anything else as a failure of the host", async () => {
  await withVmadm(async (vmadm, fake) => {
    for (const answer of ["true", "echo '{' >&2; exit 1", "kill -ABRT $$", "exit 2"]) {
      await fake.answer("validate", answer);
      await refused(() => vmadm.validateCreate(PAYLOAD), "host", '"vmadm validate create"');
    }
  });
});
