import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { functionProblem } from "../../src/decoder/work/task_sources.ts";
import { isJsonObject, type JsonValue } from "../../src/domain/json.ts";
import { machineUuidOf } from "../capabilities/simulated_host.ts";
import {
  assertConsole,
  messagesOf,
  paramsFor,
  provisionWorkflow,
  withProvisioning,
} from "./provisioning.ts";

const UUID = machineUuidOf(1);

Deno.test("every task of the workflow is one function of its own name", () => {
  const { chain, onerror, oncancel = [] } = provisionWorkflow();
  assertEquals(chain.map(({ name }) => name), [
    "preflight",
    "fetch_medium",
    "create_machine",
    "place_medium",
    "boot_machine",
    "wait_for_vnc",
  ]);
  assertEquals([onerror, oncancel].map((tasks) => tasks.map(({ name }) => name)), [
    ["undo"],
    ["undo"],
  ]);
  for (const { name, body } of [...chain, ...onerror, ...oncancel]) {
    assertEquals(functionProblem(body), undefined);
    assert(body.startsWith(`async function ${name}(job, cb) {`), name);
  }
});

Deno.test("a kvm machine ends running from its ISO, with its console's address", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID));
    assertEquals([job.execution, job.chain_results.map(({ error }) => error)], [
      "succeeded",
      ["", "", "", "", "", ""],
    ]);
    assertEquals(job.chain_results.at(-1)?.result, {
      uuid: UUID,
      vnc: job.props.vnc ?? null,
      console: `/agent/v1/machines/${UUID}/console`,
    });
    assertEquals(job.props.medium_file, "/install.iso");
    await assertConsole(job);
    const guest = JSON.parse((await host.simulate("guest", UUID)).stdout);
    assertEquals(guest.order, "order=cd,once=d");
    assertEquals(guest.booted.kind, "cd");
    const machine = await host.vmadm.get(UUID);
    assertEquals(machine?.state, "running");
    assertEquals(machine?.tags, { zonewright_job: job.uuid });
    await host.assertHolds(UUID);
    const messages = await messagesOf(host, job);
    const tasks = new Set(messages.map((message) => message.split(":")[0]));
    assertEquals([...tasks], provisionWorkflow().chain.map(({ name }) => name));
  });
});

Deno.test("a bhyve machine gets its ISO as a disk, room for it, and firmware with a screen", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID, { brand: "bhyve" }));
    assertEquals(job.execution, "succeeded");
    await assertConsole(job);
    const machine = await host.vmadm.get(UUID);
    assertEquals([machine?.bootrom, machine?.quota], ["uefi", 2]);
    const disks = Array.isArray(machine?.disks) ? machine.disks.filter(isJsonObject) : [];
    const cds = disks.filter(({ media }) => media === "cdrom");
    assertEquals(cds.map(({ path, model }) => [path, model]), [["/install.iso", "ahci"]]);
    await host.assertHolds(UUID);
  });
});

Deno.test("the image of a disk is booted as a disk", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const image = join(host.mediaDir, "system.img");
    await Deno.copyFile(host.iso, image);
    const params = { ...paramsFor(host, UUID), media: { path: image }, boot: "disk" };
    const job = await provision(params);
    assertEquals(job.execution, "succeeded");
    const guest = JSON.parse((await host.simulate("guest", UUID)).stdout);
    assertEquals(guest.files, [{ path: "/system.img", model: "ide", media: "disk" }]);
  });
});

Deno.test("a job says that a CD behind three disks may not be read", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const warned = async (disks: number, number: number) => {
      const machine = { disks: Array(disks).fill({ model: "virtio", size: 1 }) };
      const job = await provision(paramsFor(host, machineUuidOf(number), machine));
      assertEquals(job.execution, "succeeded");
      return (await messagesOf(host, job)).some((message) => message.includes("BIOS"));
    };
    assertEquals([await warned(2, 1), await warned(3, 2)], [false, true]);
  });
});

Deno.test("params of the wrong kind are refused before anything is made, naming the param and what was found", async () => {
  const media = "an object that names the medium";
  const cases: readonly (readonly [param: string, value: JsonValue | undefined, words: string])[] =
    [
      ["machine", undefined, "is missing, expected a description"],
      ["machine", null, "is null, expected a description"],
      ["machine", "kvm", 'is "kvm", expected a description'],
      ["media", undefined, `is missing, expected ${media}`],
      ["media", "install.iso", `is "install.iso", expected ${media}`],
      ["boot", "network", 'is "network", expected "cd" or "disk"'],
      ["boot", null, 'is null, expected "cd" or "disk"'],
      ["boot", ["cd"], 'is ["cd"], expected "cd" or "disk"'],
    ];
  await withProvisioning(async ({ host, provision }) => {
    const refusal = async (given: Record<string, JsonValue | undefined>) => {
      const params = JSON.parse(JSON.stringify({ ...paramsFor(host, UUID), ...given }));
      const job = await provision(params);
      assertEquals(job.execution, "failed");
      return job.chain_results.map(({ error }) => error);
    };
    for (const [param, value, words] of cases) {
      const error = `Cannot provision a machine: params.${param} ${words}`;
      assertEquals(await refusal({ [param]: value }), [error]);
    }
    const bhyve = { ...paramsFor(host, UUID, { brand: "bhyve" }), boot: "disk" };
    const [error] = await refusal(bhyve);
    assertStringIncludes(String(error), 'params.boot is "disk", expected "cd": bhyve boots only');
    assertEquals(await host.vmadm.list(), []);
  });
});

Deno.test("a machine without a uuid in its params has that of the job", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const { uuid: _uuid, ...params } = paramsFor(host, UUID);
    const job = await provision(params);
    assertEquals(job.execution, "succeeded");
    await host.assertHolds(job.uuid);
  });
});

Deno.test("a machine that was there before is never touched", async () => {
  await withProvisioning(async ({ host, provision }) => {
    await host.vmadm.create({ brand: "kvm", ram: 256, autoboot: false, uuid: UUID });
    await host.vmadm.boot(UUID, {});
    const before = await host.vmadm.get(UUID);
    const job = await provision(paramsFor(host, UUID));
    assertEquals(job.execution, "failed");
    const error = `Cannot provision machine ${UUID}: a machine with this uuid already exists`;
    assertEquals(job.chain_results.map(({ error }) => error), [error]);
    assertEquals(job.onerror_results.map(({ result }) => result), [{ removed: null }]);
    assertEquals(await host.vmadm.get(UUID), before);
  });
});

Deno.test("a machine that takes the uuid after preflight is never touched", async () => {
  for (const tags of [{}, { zonewright_job: machineUuidOf(9) }]) {
    await withProvisioning(async ({ host, provision }) => {
      const job = await provision(paramsFor(host, UUID), {
        before: async (task) => {
          if (task !== "create_machine") return;
          await host.vmadm.create({ brand: "kvm", ram: 256, autoboot: false, uuid: UUID, tags });
        },
      });
      assertEquals(job.execution, "failed");
      assertEquals(job.onerror_results.map(({ error }) => error), [""]);
      assertEquals((await host.vmadm.get(UUID))?.tags, tags);
      const messages = await messagesOf(host, job);
      assert(messages.at(-1)?.includes("left alone"), messages.at(-1));
    });
  }
});

Deno.test("params that are no request fail before anything is made", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const good = paramsFor(host, UUID);
    for (
      const params of [
        {},
        { ...good, machine: "kvm" },
        { ...good, media: null },
        { ...good, boot: "net" },
        { ...good, uuid: "--help" },
        { ...good, machine: { brand: "kvm", filesystems: [] } },
        paramsFor(host, UUID, { nics: [{ nic_tag: "nowhere" }] }),
        { ...paramsFor(host, UUID, { brand: "bhyve" }), boot: "disk" },
      ]
    ) {
      const job = await provision(params);
      assertEquals([job.execution, job.chain_results.length], ["failed", 1]);
      assertEquals(job.onerror_results.map(({ result }) => result), [{ removed: null }]);
    }
    await host.assertHolds();
  });
});
