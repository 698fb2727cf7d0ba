// Document 3, sentence by sentence: each step is named after a sentence and shows it over HTTP, on an
// agent with a simulated host. Sentences 5 and 6 of its first part (what an operator clears before a
// machine becomes an image, and which packages a guest should have) are about the inside of guests:
// nothing of the service could show them.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { isUuid } from "../../src/domain/id.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { RfbClient } from "../host/simulator/rfb_client.ts";
import { assertNothingLeft, programOfRun } from "../support/agent_process.ts";
import { DESCRIPTION, ISO, type MachineAgent, withMachineAgent } from "./machine_process.ts";

const KVM = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
const BHYVE = "1f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
const RAW = "2f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";

/** Fields that a request with this description is refused for; none when it is taken. */
async function refusedFields(agent: MachineAgent, machine: JsonObject): Promise<string[]> {
  // Without a medium nothing is made, and only what is wrong with the machine is looked at here.
  const { status, body } = await agent.post("/agent/v1/machines", { machine });
  assertEquals([status, body.code], [409, "InvalidArgument"]);
  return (body.errors as JsonObject[]).map(({ field }) => String(field))
    .filter((field) => field !== "media");
}

/** A value put into a description at a place such as `disks.0.size`. */
function changed(place: string, value: JsonValue): JsonObject {
  const copy = structuredClone(DESCRIPTION);
  const keys = place.split(".");
  const last = keys.pop() ?? "";
  let inner: JsonValue = copy;
  for (const key of keys) inner = (inner as JsonObject)[key] ?? null;
  (inner as JsonObject)[last] = value;
  return copy;
}

async function refuses(
  agent: MachineAgent,
  place: string,
  wrong: readonly JsonValue[],
  right: readonly JsonValue[],
): Promise<void> {
  const field = `machine.${place.replace(/\.(\d+)/g, "[$1]")}`;
  for (const value of wrong) {
    assertEquals([value, await refusedFields(agent, changed(place, value))], [value, [field]]);
  }
  for (const value of right) {
    assertEquals([value, await refusedFields(agent, changed(place, value))], [value, []]);
  }
}

/** Words of vmadm that the agent's host was given at a boot. */
async function bootedFrom(agent: MachineAgent, uuid: string): Promise<JsonObject> {
  const { booted } = await agent.guest(uuid);
  assert(isJsonObject(booted));
  return booted;
}

Deno.test("document 3: a machine takes every field described and answers its calls", (t) =>
  withMachineAgent(programOfRun(), async (agent) => {
    let made: JsonObject = {};

    await t.step("the description takes brand, vcpus, autoboot, ram (MiB), resolvers", async () => {
      await refuses(agent, "brand", ["lx", 1, null], ["kvm"]);
      await refuses(agent, "vcpus", [0, "x", 1.5], [1, 4, "4"]);
      await refuses(agent, "autoboot", [true, "false", 0], [false]);
      await refuses(agent, "ram", [0, "-256", -1, 256.5], [256, 1024, "256"]);
      await refuses(agent, "resolvers", ["192.0.2.53"], [[], ["192.0.2.53", "2001:db8::1"]]);
      assertEquals(await refusedFields(agent, changed("resolvers", ["x"])), [
        "machine.resolvers[0]",
      ]);
    });

    await t.step("a disk takes boot, model (virtio or ide), size (MiB)", async () => {
      await refuses(agent, "disks.0.boot", [1, "true"], [true, false]);
      await refuses(agent, "disks.0.model", ["sata", 1], ["virtio", "ide"]);
      await refuses(agent, "disks.0.size", [0, "1G", 1.5], [1, 40_960, "1024"]);
    });

    await t.step("a nic takes nic_tag, model (virtio or e1000), addresses, primary", async () => {
      await refuses(agent, "nics.0.nic_tag", ["a b", 1], ["external", "admin"]);
      await refuses(agent, "nics.0.model", ["ne2000", 1], ["virtio", "e1000"]);
      await refuses(agent, "nics.0.ip", ["192.0.2", 1], ["192.0.2.10"]);
      await refuses(agent, "nics.0.netmask", ["255.0.255.0", 24], ["255.255.255.128"]);
      await refuses(agent, "nics.0.gateway", ["x", 1], ["192.0.2.3"]);
      await refuses(agent, "nics.0.primary", [2, "1"], [1]);
    });

    await t.step("the description of an empty machine is not cloned from an image", async () => {
      const image_uuid = "c02a2044-c1bd-11e4-bd8c-dfc1db8b0182";
      await refuses(agent, "image_uuid", [image_uuid], []);
      await refuses(agent, "disks.0.image_uuid", [image_uuid], []);
    });

    await t.step("a machine is created from a JSON description", async () => {
      made = await agent.make(KVM);
      const { brand, ram, vcpus, state } = await agent.machine(KVM);
      assertEquals([brand, ram, vcpus, state], ["kvm", 256, 1, "running"]);
    });

    await t.step(
      "creation answers the UUID, which identifies the machine from then on",
      async () => {
        const request = { machine: changed("nics.0.ip", "192.0.2.70"), media: { path: ISO } };
        const { status, body, headers } = await agent.post("/agent/v1/machines", request);
        assertEquals(status, 202);
        assert(isUuid(body.uuid));
        assertEquals(headers.get("location"), `/jobs/${body.job_uuid}`);
        await agent.job(String(body.job_uuid), "success");
        assertEquals((await agent.machine(body.uuid)).uuid, body.uuid);
        assertEquals((await agent.act(body.uuid, "delete")).execution, "success");
      },
    );

    await t.step("a virtual machine runs inside a zone on the host", async () => {
      assertEquals((await agent.machine(KVM)).zone_state, "running");
      assert((await Deno.stat(agent.zoneRoot(KVM))).isDirectory);
    });

    await t.step("the file goes into the root of the zone, and is named /<filename>", async () => {
      const placed = join(agent.zoneRoot(KVM), ISO);
      assertEquals(await Deno.readFile(placed), await Deno.readFile(join(agent.media, ISO)));
      assertEquals((await agent.machine(KVM)).medium, `/${ISO}`);
    });

    await t.step("created with autoboot false it is not running, and vmadm boot starts it", () => {
      const steps = (made.chain_results as JsonObject[]).map(({ name, result }) =>
        [name, isJsonObject(result) ? result.state ?? null : null] as const
      );
      const states = new Map(steps);
      assertEquals([states.get("create_machine"), states.get("boot_machine")], [
        "stopped",
        "running",
      ]);
    });

    await t.step("order=cd,once=d cdrom=<path>,ide boots from the ISO the first time", async () => {
      const guest = await agent.guest(KVM);
      assertEquals(guest.order, "order=cd,once=d");
      assertEquals((await bootedFrom(agent, KVM)).kind, "cd");
      assertStringIncludes(JSON.stringify(guest), `/${ISO}`);
    });

    await t.step("info vnc answers an object vnc with display, port and host", async () => {
      const { status, body } = await agent.get(`/agent/v1/machines/${KVM}/vnc`);
      assertEquals(status, 200);
      assertEquals(Object.keys(body), ["vnc"]);
      const { host, port, display } = body.vnc as JsonObject;
      assertEquals([host, Number(display) + 5900], ["127.0.0.1", port]);
      assert(Number.isInteger(display) && Number.isInteger(port));
    });

    await t.step(
      "the operator connects to the reported host and port with a VNC client",
      async () => {
        const { vnc } = (await agent.get(`/agent/v1/machines/${KVM}/vnc`)).body;
        const { port, password } = vnc as JsonObject;
        using client = await RfbClient.connect(Number(port));
        const picture = await client.handshake("3.8", String(password));
        assertStringIncludes(picture.name, KVM);
      },
    );

    await t.step("a running machine can be shut down and the media remains available", async () => {
      assertEquals((await agent.act(KVM, "stop")).execution, "success");
      const { state, zone_state, medium, vnc } = await agent.machine(KVM);
      assertEquals([state, zone_state, medium, vnc], ["stopped", "installed", `/${ISO}`, null]);
      assert((await Deno.stat(join(agent.zoneRoot(KVM), ISO))).isFile);
      const again = { order: "cd", once: "d", cdrom: `/${ISO}` };
      assertEquals((await agent.act(KVM, "boot", again)).execution, "success");
      assertEquals((await bootedFrom(agent, KVM)).kind, "cd");
    });

    await t.step("disk=<path>,ide boots from a raw disk image file", async () => {
      const machine = changed("nics.0.ip", "192.0.2.71");
      await agent.make(RAW, { machine, media: { path: "image.raw" }, boot: "disk" });
      assertEquals((await agent.machine(RAW)).medium, "/image.raw");
      assertStringIncludes(JSON.stringify(await agent.guest(RAW)), "/image.raw");
    });

    await t.step("the brand bhyve also works, with a VNC endpoint of its own", async () => {
      const machine = { ...changed("nics.0.ip", "192.0.2.72"), brand: "bhyve" };
      await agent.make(BHYVE, { machine });
      const { brand, state, vnc, medium } = await agent.machine(BHYVE);
      assertEquals([brand, state, medium], ["bhyve", "running", `/${ISO}`]);
      assert(isJsonObject(vnc));
      assertEquals((await bootedFrom(agent, BHYVE)).kind, "cd");
    });

    await t.step("customer_metadata configures a guest of either brand", async () => {
      const customer_metadata = {
        "user-script": "#!/bin/sh",
        root_authorized_keys: "ssh-ed25519 x",
      };
      for (const brand of ["kvm", "bhyve"]) {
        const machine = { ...DESCRIPTION, brand, customer_metadata };
        assertEquals(await refusedFields(agent, machine), []);
      }
    });

    await t.step("the machine's whole lifecycle ends with nothing left", async () => {
      for (const uuid of [KVM, RAW, BHYVE]) {
        assertEquals((await agent.act(uuid, "delete")).execution, "success");
        assertEquals((await agent.get(`/agent/v1/machines/${uuid}`)).status, 404);
      }
      assertEquals((await agent.get("/agent/v1/machines")).body.items, []);
      await assertNothingLeft(agent);
      await agent.said('"workflow":"machine-delete"');
    });
  }));
