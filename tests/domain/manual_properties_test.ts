import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { parseMachineRequest } from "../../src/domain/machine/machine.ts";
import { parseMachineChanges, requireFitting } from "../../src/domain/machine/changes.ts";
import { BRAND_OF } from "../../src/domain/machine/properties.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { MANUAL_PROPERTIES, type Taken } from "./manual_properties.ts";
import { propertiesPage } from "./write_policy_table.ts";

const MEDIA = { path: "/media/a.iso" };
const DISK = { model: "virtio", size: 1024 };
const NIC = { nic_tag: "admin", model: "virtio" };
type Brand = "kvm" | "bhyve";
const BRANDS: readonly Brand[] = ["kvm", "bhyve"];

/** A machine with one property, which may be of its first disk or nic. */
function machineWith(brand: Brand, name: string, value: JsonValue): JsonObject {
  const [list, , inner] = name.split(".");
  if (inner === undefined) return { brand, [name]: value };
  return { brand, [String(list)]: [{ ...(list === "disks" ? DISK : NIC), [inner]: value }] };
}

function parse(machine: JsonObject): JsonObject {
  return parseMachineRequest({ machine, media: MEDIA }, DEFAULT_POLICY).machine;
}

function valueIn(machine: JsonObject, name: string): JsonValue | undefined {
  const [list, , inner] = name.split(".");
  if (inner === undefined) return machine[name];
  const items = machine[String(list)];
  const [item] = Array.isArray(items) ? items : [];
  return isJsonObject(item) ? item[inner] : undefined;
}

function refusalOf(run: () => unknown): AgentError {
  const error = assertThrows(run, AgentError);
  assertEquals(error.code, "invalid_argument");
  return error;
}

function fieldOf(name: string): string {
  return `machine.${name.replace(".*.", "[0].")}`;
}

function brandsOf({ brands }: Taken): readonly Brand[] {
  return brands === "both" ? BRANDS : [brands];
}

for (const [name, taken] of Object.entries(MANUAL_PROPERTIES)) {
  if (taken === null) {
    Deno.test(`vmadm's ${name} is refused with a reason, at create and at update`, () => {
      for (const brand of BRANDS) {
        const error = refusalOf(() => parse(machineWith(brand, name, "x")));
        assertMatch(error.message, /is not allowed: .{10,}/);
        assertEquals(error.errors[0]?.field, fieldOf(name));
      }
      if (name.includes(".")) return;
      const error = refusalOf(() => parseMachineChanges({ [name]: "x" }, DEFAULT_POLICY));
      assertMatch(error.message, /is not allowed: .{10,}/);
    });
    continue;
  }
  Deno.test(`vmadm's ${name} is accepted within its bounds`, () => {
    for (const brand of brandsOf(taken)) {
      for (const value of taken.good) {
        // A nic that is not primary says nothing.
        const said = valueIn(parse(machineWith(brand, name, value)), name);
        assert(said !== undefined || value === false || value === 0, JSON.stringify(value));
      }
      for (const value of taken.bad) {
        const error = refusalOf(() => parse(machineWith(brand, name, value)));
        const [{ field = "" } = {}] = error.errors;
        assert(field.startsWith(fieldOf(name)), `${JSON.stringify(value)}: ${error.message}`);
      }
    }
    for (const brand of BRANDS.filter((it) => !brandsOf(taken).includes(it))) {
      const error = refusalOf(() => parse(machineWith(brand, name, taken.good[0] ?? null)));
      assertMatch(error.message, /is only for machines of brand (kvm|bhyve)/);
    }
  });
  if (name.includes(".")) continue;
  Deno.test(`vmadm's ${name} is ${taken.update ? "changed" : "not changed"} by an update`, () => {
    // Whether it starts with the host is another thing for a machine that is there.
    if (name === "autoboot") return;
    for (const value of taken.good) {
      const change = () => parseMachineChanges({ [name]: value }, DEFAULT_POLICY);
      if (taken.update) assertEquals(change(), { [name]: value });
      else assertMatch(refusalOf(change).message, /is not allowed: .{10,}/);
    }
    if (!taken.update) return;
    for (const value of taken.bad) {
      const error = refusalOf(() => parseMachineChanges({ [name]: value }, DEFAULT_POLICY));
      assert(error.errors[0]?.field.startsWith(`changes.${name}`), error.message);
    }
  });
}

Deno.test("the manual's table and the policy's lists name the same properties", () => {
  const { machineProperties, diskProperties, nicProperties } = DEFAULT_POLICY;
  const allowed = [
    ...machineProperties,
    ...diskProperties.map((name) => `disks.*.${name}`),
    ...nicProperties.map((name) => `nics.*.${name}`),
    "vnc_password",
  ];
  const taken = Object.entries(MANUAL_PROPERTIES).flatMap(([name, row]) => row ? [name] : []);
  assertEquals(taken.sort(), allowed.sort());
});

Deno.test("changes of properties of the other brand are refused by name", () => {
  for (const [name, owner] of Object.entries(BRAND_OF)) {
    const value = MANUAL_PROPERTIES[name]?.good[0] ?? null;
    requireFitting({ [name]: value, ram: 1 }, { brand: owner }, DEFAULT_POLICY);
    const other = owner === "kvm" ? "bhyve" : "kvm";
    const error = refusalOf(() =>
      requireFitting({ [name]: value, ram: 1 }, { brand: other }, DEFAULT_POLICY)
    );
    assertEquals(error.errors.map(({ field }) => field), [`changes.${name}`]);
  }
});

Deno.test("memory limits that vmadm would adjust are refused", () => {
  const parsed = (limits: JsonObject) => () => parse({ brand: "kvm", ...limits });
  parsed({ max_physical_memory: 2048, max_locked_memory: 2048, max_swap: 2048 })();
  for (const limits of [{ max_locked_memory: 2049 }, { max_swap: 2047 }]) {
    const error = refusalOf(parsed({ max_physical_memory: 2048, ...limits }));
    assertEquals(error.errors.map(({ field }) => field), [`machine.${Object.keys(limits)[0]}`]);
  }
});

Deno.test("two disks cannot have one slot or one uuid, in whatever spelling", () => {
  const disks = (one: JsonObject, other: JsonObject) => () =>
    parse({ brand: "bhyve", disks: [{ ...DISK, ...one }, { ...DISK, ...other }] });
  disks({ pci_slot: "4" }, { pci_slot: "5" })();
  assertMatch(refusalOf(disks({ pci_slot: "4" }, { pci_slot: "0:4:0" })).message, /same pci_slot/);
  const uuid = "aaaaaaaa-0000-4000-8000-000000000001";
  assertMatch(refusalOf(disks({ uuid }, { uuid })).message, /same uuid/);
});

Deno.test("docs/policy.md has the table of properties that the checks require", async () => {
  const { found, required } = await propertiesPage();
  assertEquals(found, required, "run tests/domain/write_policy_table.ts");
});

Deno.test("docs/policy.md has a row for every accepted property, and names the refused ones", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/policy.md", import.meta.url));
  const rows = page.split("\n").filter((line) => line.startsWith("| `"));
  for (const [name, taken] of Object.entries(MANUAL_PROPERTIES)) {
    if (taken === null) continue;
    const [list, , inner] = name.split(".");
    // A row may name several, of which the first tells whose they are.
    const words = inner === undefined ? [`\`${name}\``] : [`\`${list}.`, `${inner}\``];
    const row = rows.find((line) => words.every((word) => line.split("|")[1]?.includes(word)));
    assert(row !== undefined, `no row for ${name}`);
    const [, , kvm = "", bhyve = ""] = row.split("|").map((cell) => cell.trim());
    const mark = taken.update ? "cu" : "c";
    const wanted = BRANDS.map((brand) => brandsOf(taken).includes(brand) ? mark : "");
    assertEquals([name, kvm, bhyve], [name, ...wanted]);
  }
});
