import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  forbiddableProperties,
  POLICY_TABLE,
  policyOf,
  takingOf,
} from "../../src/config/policy.ts";
import { type ConfigSources, readConfig } from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";
import { TAKING_SETTINGS } from "../../src/domain/taking.ts";
import { DEFAULT_POLICY, POLICY_SETTINGS } from "../../src/domain/policy.ts";

function read(sources: Partial<ConfigSources> = {}) {
  return readConfig({ flags: {}, env: {}, cwd: "/here", os: "linux", ...sources });
}

function file(policy: string): Pick<ConfigSources, "file"> {
  return { file: { path: "/etc/zonewright/zonewright.toml", text: `[policy]\n${policy}\n` } };
}

function problem(sources: Partial<ConfigSources>): string {
  const error = assertThrows(() => read(sources), AgentError);
  return error.errors.map(({ message }) => message).join("\n");
}

Deno.test("policyOf() without settings is the default policy", () => {
  assertEquals(policyOf(read().policy), DEFAULT_POLICY);
});

Deno.test("every refusal names an existing setting, and every setting is named by a refusal", () => {
  const settings = Object.keys(POLICY_TABLE).map((key) => `policy.${key}`);
  const named: string[] = Object.values({ ...POLICY_SETTINGS, ...TAKING_SETTINGS });
  assertEquals(named.toSorted(), settings.toSorted());
});

Deno.test("readConfig() reads the policy from its table, from variables and from flags", () => {
  const text = 'ram_mib_max = 4096\nallow_brand = ["kvm"]\nallow_nic_tag = ["admin"]\n' +
    'forbid_property = ["quota", "nics.mac"]\nforeign_machines = "read"\ndisks_max = 0';
  const { policy } = read({
    ...file(text),
    env: { ZONEWRIGHT_RAM_MIB_MAX: "2048", ZONEWRIGHT_ALLOW_NIC_TAG: "external,stub/0" },
    flags: { "ram-mib-max": "1024", "quota-gib-max": "20" },
  });
  const made = policyOf(policy);
  assertEquals([made.ramMiBMax, made.quotaGiBMax, made.disksMax], [1024, 20, 0]);
  assertEquals([made.brands, made.nicTags], [["kvm"], ["external", "stub/0"]]);
  assertEquals(made.foreignMachines, "read");
  assertEquals(made.machineProperties.includes("quota"), false);
  assertEquals(made.nicProperties.includes("mac"), false);
  assertEquals(made.diskProperties, DEFAULT_POLICY.diskProperties);
});

Deno.test("readConfig() refuses policies that no machine could fit, and unknown names", () => {
  const refused: readonly (readonly [string, RegExp])[] = [
    ["ram_mib_max = 0", /policy|ram_mib_max: 0 is not an integer from 1/],
    ['ram_mib_max = "8g"', /ram_mib_max: "8g" is not an integer/],
    ["vcpus_max = 1025", /vcpus_max: 1025 is not an integer from 1 to 1024/],
    ["disks_max = -1", /disks_max: -1 is not an integer from 0/],
    ["allow_brand = []", /allow_brand: expected at least one of kvm, bhyve/],
    ['allow_brand = ["joyent"]', /allow_brand: "joyent" is not one of kvm, bhyve/],
    ["allow_brand = 5", /allow_brand: 5 is not a list of at most 256 names/],
    ['allow_nic_tag = ["a b"]', /allow_nic_tag: "a b" is not the name of a nic_tag/],
    ["allow_nic_tag = [5]", /allow_nic_tag: expected a list of names/],
    ['forbid_property = ["quotas"]', /forbid_property: "quotas" is not a property.*"quota"/],
    ['forbid_property = ["brand"]', /forbid_property: "brand" is not a property/],
    ['forbid_property = ["disks.size"]', /forbid_property: "disks.size" is not a property/],
    ['foreign_machines = "none"', /foreign_machines: "none" is not one of change, read/],
    ["ram_max = 5", /unknown key "ram_max": did you mean "ram_mib_max"/],
  ];
  for (const [text, wanted] of refused) {
    const message = problem(file(text));
    assertEquals(wanted.test(message), true, message);
  }
  const top = { file: { path: "/z.toml", text: "policy = 5" } };
  assertEquals(problem(top), "/z.toml: policy is not a table, expected [policy]");
});

Deno.test("every allowed property can be forbidden, except those that a machine needs", () => {
  const forbiddable = forbiddableProperties();
  for (const name of forbiddable) {
    assertEquals(read(file(`forbid_property = ["${name}"]`)).policy.forbid_property.value, [name]);
  }
  for (const name of ["brand", "disks.model", "disks.size", "nics.nic_tag", "nics.model"]) {
    assertEquals(forbiddable.includes(name), false);
  }
});

Deno.test("readConfig() reads which jobs of a shared store a host accepts, and refuses that for other stores", () => {
  const digest = `sha256:${"5d".repeat(32)}`;
  const text =
    `allow_workflow = ["nightly@${digest}", "a, b"]\nallow_caller = ["token:ops", "socket"]`;
  const { policy } = read({ ...file(text), flags: { store: "postgres://agent@localhost/fleet" } });
  assertEquals(takingOf(policy), {
    allow_workflow: [`nightly@${digest}`, "a, b"],
    allow_caller: ["token:ops", "socket"],
  });
  assertEquals(problem(file(text)).match(/expected a store postgres:\/\/ as well/g)?.length, 2);
  const refused: readonly (readonly [string, RegExp])[] = [
    [
      'allow_workflow = ["nightly@sha256:5d5d"]',
      /"nightly@sha256:5d5d" is not the name of a workflow/,
    ],
    ['allow_workflow = [""]', /"" is not the name of a workflow/],
    ['allow_caller = ["ops"]', /"ops" is not a caller, expected token:NAME, socket/],
  ];
  for (const [line, words] of refused) assertMatch(problem(file(line)), words);
});
