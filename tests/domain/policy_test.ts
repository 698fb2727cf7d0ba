import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { parseMachineRequest } from "../../src/domain/machine/machine.ts";
import { parseMachineChanges } from "../../src/domain/machine/changes.ts";
import {
  DEFAULT_POLICY,
  type Policy,
  type Reasons,
  requireOwnMachine,
} from "../../src/domain/policy.ts";
import { withoutProperties } from "../../src/config/policy.ts";
import {
  REFUSED_DISK_PROPERTIES,
  REFUSED_MACHINE_PROPERTIES,
  REFUSED_NIC_PROPERTIES,
} from "../../src/domain/machine/refused_properties.ts";
import { disk, fieldsOf, nic, request, UUID } from "./machine_request.ts";

/** The field that is refused, why, and the properties that hold it. */
type Case = readonly [field: string, reason: string, JsonObject];

function casesOf(reasons: Reasons, prefix: string, wrap: (name: string) => JsonObject): Case[] {
  return Object.entries(reasons).map(([name, reason]) => [prefix + name, reason, wrap(name)]);
}

const REFUSED: readonly Case[] = [
  // Whether a console has a password may be requested, its text may not.
  ...casesOf(REFUSED_MACHINE_PROPERTIES, "machine.", (name) => ({ [name]: "x" }))
    .filter(([field]) => field !== "machine.vnc_password"),
  ...casesOf(REFUSED_DISK_PROPERTIES, "machine.disks[0].", (name) => ({
    disks: [{ ...disk, [name]: "x" }],
  })),
  ...casesOf(REFUSED_NIC_PROPERTIES, "machine.nics[0].", (name) => ({
    nics: [{ ...nic, [name]: true }],
  })),
];

for (const [field, reason, changes] of REFUSED) {
  Deno.test(`parseMachineRequest() refuses ${field} and says why`, () => {
    const parse = () => parseMachineRequest(request(changes), DEFAULT_POLICY);
    const error = assertThrows(parse, AgentError);
    const message = `${field} is not allowed: ${reason}`;
    assertEquals(error.errors, [{ field, code: "Invalid", message }]);
  });
}

Deno.test("a narrower policy refuses what the default allows", () => {
  const policy = {
    ...DEFAULT_POLICY,
    brands: ["kvm"] as const,
    ramMiBMax: 512,
    machineProperties: DEFAULT_POLICY.machineProperties.filter((name) => name !== "quota"),
  };
  assertEquals(fieldsOf(() => parseMachineRequest(request({ quota: 5 }), policy)), [
    "machine.ram",
    "machine.quota",
  ]);
  const bhyve = request({ brand: "bhyve", ram: 1 });
  assertEquals(fieldsOf(() => parseMachineRequest(bhyve, policy)), ["machine.brand"]);
});

/** What one field of a policy refuses, and the setting that its message names. */
type PolicyCase = readonly [Partial<Policy>, JsonObject, field: string, setting: string];

const BY_SETTING: readonly PolicyCase[] = [
  [{ brands: ["kvm"] }, { brand: "bhyve", disks: [] }, "machine.brand", "allow_brand"],
  [{ vcpusMax: 2 }, { vcpus: 3 }, "machine.vcpus", "vcpus_max"],
  [{ vcpusMax: 2 }, { cpu_cap: 201 }, "machine.cpu_cap", "vcpus_max"],
  [{ ramMiBMax: 2048 }, { ram: 2049 }, "machine.ram", "ram_mib_max"],
  [
    { ramMiBMax: 2048 },
    { max_physical_memory: 6145 },
    "machine.max_physical_memory",
    "ram_mib_max",
  ],
  [{ disksMax: 1 }, { disks: [disk, disk] }, "machine.disks", "disks_max"],
  [{ diskMiBMax: 9 }, { disks: [{ ...disk, size: 10 }] }, "machine.disks[0].size", "disk_mib_max"],
  [
    { nicsMax: 1 },
    { nics: [nic, { ...nic, mac: "02:08:20:aa:bb:cc" }] },
    "machine.nics",
    "nics_max",
  ],
  [{ quotaGiBMax: 5 }, { quota: 6 }, "machine.quota", "quota_gib_max"],
  [
    { nicTags: ["external"] },
    { nics: [{ ...nic, nic_tag: "admin" }] },
    "machine.nics[0].nic_tag",
    "allow_nic_tag",
  ],
  [
    withoutProperties(DEFAULT_POLICY, ["quota"]),
    { quota: 5 },
    "machine.quota",
    "forbid_property",
  ],
  [
    withoutProperties(DEFAULT_POLICY, ["disks.compression"]),
    { disks: [{ ...disk, compression: "lz4" }] },
    "machine.disks[0].compression",
    "forbid_property",
  ],
  [
    withoutProperties(DEFAULT_POLICY, ["nics.mac"]),
    { nics: [{ ...nic, mac: "02:08:20:aa:bb:cc" }] },
    "machine.nics[0].mac",
    "forbid_property",
  ],
];

/** A policy whose sizes fit the example of document 3, besides what is tried. */
function policyWith(changes: Partial<Policy>): Policy {
  return { ...DEFAULT_POLICY, ...changes };
}

for (const [changes, properties, field, setting] of BY_SETTING) {
  Deno.test(`parseMachineRequest() names policy.${setting} when it refuses ${field}`, () => {
    const { ram = 512, ...others } = properties;
    const body = request({ ram, disks: [], nics: [], ...others });
    parseMachineRequest(body, DEFAULT_POLICY);
    const error = assertThrows(() => parseMachineRequest(body, policyWith(changes)), AgentError);
    assertEquals(error.errors.map((one) => one.field), [field]);
    assertStringIncludes(error.message, `(setting policy.${setting})`);
  });
}

Deno.test("parseMachineChanges() checks against the same policy", () => {
  const cases: readonly PolicyCase[] = [
    [{ vcpusMax: 2 }, { vcpus: 3 }, "changes.vcpus", "vcpus_max"],
    [{ ramMiBMax: 2048 }, { ram: 2049 }, "changes.ram", "ram_mib_max"],
    [{ quotaGiBMax: 5 }, { quota: 6 }, "changes.quota", "quota_gib_max"],
    ...["set_tags", "remove_tags"].map((name): PolicyCase => [
      withoutProperties(DEFAULT_POLICY, ["tags"]),
      { [name]: name === "set_tags" ? {} : [] },
      `changes.${name}`,
      "forbid_property",
    ]),
    ...["set_customer_metadata", "remove_customer_metadata"].map((name): PolicyCase => [
      withoutProperties(DEFAULT_POLICY, ["customer_metadata"]),
      { [name]: name === "set_customer_metadata" ? {} : [] },
      `changes.${name}`,
      "forbid_property",
    ]),
  ];
  for (const [changes, body, field, setting] of cases) {
    parseMachineChanges(body, DEFAULT_POLICY);
    const parse = () => parseMachineChanges(body, policyWith(changes));
    const error = assertThrows(parse, AgentError);
    assertEquals(error.errors.map((one) => one.field), [field]);
    assertStringIncludes(error.message, `(setting policy.${setting})`);
  }
});

Deno.test("a policy with limits above the default allows what the default refuses", () => {
  const large = request({ ram: 1_000_000, vcpus: 128, quota: 4096 });
  assertEquals(fieldsOf(() => parseMachineRequest(large, DEFAULT_POLICY)).length, 3);
  parseMachineRequest(
    large,
    policyWith({ ramMiBMax: 2_000_000, vcpusMax: 128, quotaGiBMax: 4096 }),
  );
});

Deno.test("requireOwnMachine() accepts machines that jobs made, and others if the policy allows", () => {
  const made = { tags: { zonewright_job: UUID } };
  const read = policyWith({ foreignMachines: "read" });
  requireOwnMachine(read, UUID, made);
  const others = [{}, { tags: {} }, { tags: [] }, { tags: null }, { tags: { role: "web" } }];
  for (const machine of [...others, JSON.parse('{"tags":{"__proto__":{"zonewright_job":1}}}')]) {
    requireOwnMachine(DEFAULT_POLICY, UUID, machine);
    const error = assertThrows(() => requireOwnMachine(read, UUID, machine), AgentError);
    assertEquals(error.code, "forbidden");
    assertStringIncludes(error.message, "(setting policy.foreign_machines)");
  }
});

Deno.test("a name added to the policy unchecked is still refused", () => {
  const machineProperties = [...DEFAULT_POLICY.machineProperties, "filesystems"];
  const parse = () =>
    parseMachineRequest(request({ filesystems: [] }), { ...DEFAULT_POLICY, machineProperties });
  assertEquals(fieldsOf(parse), ["machine.filesystems"]);
});
