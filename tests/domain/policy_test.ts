import { assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { parseMachineRequest } from "../../src/domain/machine.ts";
import {
  DEFAULT_POLICY,
  OTHER_DISK_PROPERTIES,
  OTHER_MACHINE_PROPERTIES,
  OTHER_NIC_PROPERTIES,
} from "../../src/domain/policy.ts";
import { disk, fieldsOf, nic, request, UUID } from "./machine_request.ts";

/** The field that is refused, and the properties that hold it. */
type Case = readonly [string, JsonObject];

const REFUSED: readonly Case[] = [
  ...OTHER_MACHINE_PROPERTIES.map((name): Case => [`machine.${name}`, { [name]: "x" }]),
  ...OTHER_DISK_PROPERTIES.map((
    name,
  ): Case => [`machine.disks[0].${name}`, { disks: [{ ...disk, [name]: "x" }] }]),
  ...OTHER_NIC_PROPERTIES.map((
    name,
  ): Case => [`machine.nics[0].${name}`, { nics: [{ ...nic, [name]: true }] }]),
  ["machine.uuid", { uuid: UUID }],
];

for (const [field, changes] of REFUSED) {
  Deno.test(`parseMachineRequest() refuses ${field} by the policy`, () => {
    const parse = () => parseMachineRequest(request(changes), DEFAULT_POLICY);
    const error = assertThrows(parse, AgentError);
    assertEquals(error.errors, [{
      field,
      code: "Invalid",
      message: `${field} is not allowed by the policy`,
    }]);
  });
}

Deno.test("a policy that is narrowed refuses what the default allows", () => {
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

Deno.test("a policy that is widened by an unchecked name still refuses it", () => {
  const machineProperties = [...DEFAULT_POLICY.machineProperties, "filesystems"];
  const parse = () =>
    parseMachineRequest(request({ filesystems: [] }), { ...DEFAULT_POLICY, machineProperties });
  assertEquals(fieldsOf(parse), ["machine.filesystems"]);
});
