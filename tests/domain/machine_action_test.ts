// What may be done to a machine: the options of each action, and the states that allow it.

import { assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import {
  attachedMedia,
  MACHINE_ACTIONS,
  type MachineAction,
  parseActionOptions,
  requireActable,
  requireConsole,
} from "../../src/domain/machine/action.ts";
import { BOOT_DEVICES } from "../../src/host/vmadm/power.ts";

const UUID = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";

function fieldsRefused(action: MachineAction, body: unknown): string[] {
  const error = assertThrows(() => parseActionOptions(action, body), AgentError);
  assertEquals(error.code, "invalid_argument");
  return error.errors.map(({ field }) => field);
}

Deno.test("the options of each action are read, and unknown ones refused by name", () => {
  const boot = { order: "cd", once: "d", cdrom: "/install.iso", disk: "/image.raw" };
  assertEquals(parseActionOptions("boot", boot), boot);
  for (const action of ["stop", "reboot"] as const) {
    assertEquals(parseActionOptions(action, { force: true }), { force: true });
    assertEquals(parseActionOptions(action, { timeout: 180 }), { timeout: 180 });
    assertEquals(fieldsRefused(action, { force: "yes", timeout: 0 }), ["force", "timeout"]);
    for (const timeout of [181, 1.5, "30", null]) {
      assertEquals(fieldsRefused(action, { timeout }), ["timeout"]);
    }
    assertEquals(fieldsRefused(action, { force: true, timeout: 3 }), ["timeout"]);
  }
  assertEquals(parseActionOptions("eject", { files: ["/a.iso"] }), { files: ["/a.iso"] });
  for (const action of MACHINE_ACTIONS) {
    assertEquals(parseActionOptions(action, {}), {});
    if (action !== "delete") assertEquals(fieldsRefused(action, { uuid: UUID }), ["uuid"]);
    assertEquals(parseActionOptions(action, { uuid: UUID }, ["uuid"]), {});
    for (const body of [null, [], "x", 1]) assertEquals(fieldsRefused(action, body), ["body"]);
  }
});

Deno.test("a boot order is one that the host knows, and no other text", () => {
  for (const order of BOOT_DEVICES) {
    assertEquals(parseActionOptions("boot", { order }), { order });
  }
  for (const order of ["", "x", "cc", "cd,menu=on", "CD", "c d", "cdnc", "=d", "cd\n", 1, null]) {
    assertEquals(fieldsRefused("boot", { order }), ["order"]);
  }
  for (const once of ["cd", "", "a", "d\n"]) {
    assertEquals(fieldsRefused("boot", { once }), ["once"]);
  }
});

Deno.test("a medium is named by its path in the zone", () => {
  const bad = [
    "install.iso",
    "/",
    "/../etc/passwd",
    "/a/b.iso",
    "/a,b.iso",
    "/a.txt",
    "/a b.iso",
    1,
  ];
  for (const path of bad) {
    assertEquals(fieldsRefused("boot", { cdrom: path }), ["cdrom"]);
    assertEquals(fieldsRefused("boot", { disk: path }), ["disk"]);
    assertEquals(fieldsRefused("eject", { files: [path] }), ["files[0]"]);
  }
  assertEquals(fieldsRefused("eject", { files: Array(9).fill("/a.iso") }), ["files"]);
});

/** Actions that each state of vmadm allows. */
const ALLOWED: Readonly<Record<string, readonly MachineAction[]>> = {
  configured: ["delete"],
  incomplete: ["delete"],
  provisioning: ["delete"],
  stopped: ["boot", "stop", "eject", "delete"],
  ready: ["boot", "stop", "delete"],
  running: ["boot", "stop", "reboot", "delete"],
  stopping: ["stop", "delete"],
  shutting_down: ["stop", "delete"],
  down: ["stop", "delete"],
  failed: ["delete"],
  receiving: ["delete"],
};

Deno.test("every state of a machine allows some actions, and refuses the others by name", () => {
  for (const brand of ["kvm", "bhyve"]) {
    for (const [state, allowed] of Object.entries(ALLOWED)) {
      const found = MACHINE_ACTIONS.filter((action) => {
        try {
          requireActable(action, UUID, { brand, state }, {});
          return true;
        } catch (error) {
          const { code, message } = error as AgentError;
          assertEquals([code, message.includes(JSON.stringify(state))], ["conflict", true]);
          return false;
        }
      });
      assertEquals([state, found], [state, allowed]);
    }
  }
});

Deno.test("a machine of another brand allows no action, whatever its state", () => {
  for (const brand of ["joyent", "lx", undefined]) {
    const machine: JsonObject = { state: "stopped", ...(brand === undefined ? {} : { brand }) };
    for (const action of MACHINE_ACTIONS) {
      const error = assertThrows(() => requireActable(action, UUID, machine, {}), AgentError);
      assertEquals([error.code, error.message.includes("expected kvm or bhyve")], [
        "conflict",
        true,
      ]);
    }
  }
});

Deno.test("only a running or stopping machine of a supported brand has a console", () => {
  for (const state of Object.keys(ALLOWED)) {
    const machine = { brand: "kvm", state };
    if (state === "running" || state === "stopping") requireConsole(UUID, machine);
    else assertThrows(() => requireConsole(UUID, machine), AgentError, JSON.stringify(state));
  }
  const foreign = { brand: "joyent", state: "running" };
  assertThrows(() => requireConsole(UUID, foreign), AgentError, '"joyent"');
});

Deno.test("boot options that bhyve would ignore are refused", () => {
  const machine = { brand: "bhyve", state: "stopped" };
  const options = { cdrom: "/install.iso" };
  const error = assertThrows(() => requireActable("boot", UUID, machine, options), AgentError);
  assertEquals([error.code, error.message.includes("cdrom")], ["conflict", true]);
  requireActable("boot", UUID, { ...machine, brand: "kvm" }, options);
});

Deno.test("attached media are the CDs among the disks", () => {
  const disks = [
    { path: "/dev/zvol/rdsk/zones/x-disk0", media: "disk" },
    { path: "/install.iso", media: "cdrom", model: "ahci" },
    { media: "cdrom", missing: true },
    null,
  ];
  assertEquals(attachedMedia({ disks }), ["/install.iso"]);
  for (const machine of [{}, { disks: null }, { disks: {} }]) {
    assertEquals(attachedMedia(machine), []);
  }
});

Deno.test("a kvm machine cannot boot a medium beyond the last IDE place", () => {
  const machine = (disks: number) => ({ brand: "kvm", state: "stopped", disks: Array(disks) });
  const boot = (disks: number, options: JsonObject) => () =>
    requireActable("boot", UUID, machine(disks), options);
  boot(3, { cdrom: "/a.iso" })();
  boot(8, { order: "cd" })();
  for (
    const [disks, options] of [[4, { cdrom: "/a.iso" }], [3, {
      cdrom: "/a.iso",
      disk: "/b.img",
    }]] as const
  ) {
    const error = assertThrows(boot(disks, options), AgentError, `it has ${disks} disks`);
    assertEquals(error.code, "conflict");
  }
});
