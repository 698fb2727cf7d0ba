// The schemas of what is sent, beside the parsers that read it: both take and refuse the same.

import { assert, assertEquals } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { randomUuid, type WorkflowUuid } from "../../src/domain/id.ts";
import type { JsonObject, JsonValue } from "../../src/domain/json.ts";
import { parseJobRequest } from "../../src/domain/job/request.ts";
import { parseMachineRequest } from "../../src/domain/machine/machine.ts";
import { BRAND_OF } from "../../src/domain/machine/properties.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { parseWorkflow } from "../support/parsed_workflow.ts";
import { DEFAULT_HTTP_LIMITS } from "../../src/http/context.ts";
import { parseSelection } from "../../src/http/routes/jobs/bulk.ts";
import { OPENAPI } from "../../src/http/openapi/document.ts";
import { schemaProblems } from "../support/json_schema.ts";
import { uuidOf } from "../support/job.ts";
import { inPlace, membersOf } from "./openapi_operations.ts";

const SCHEMAS = inPlace(inPlace(OPENAPI.components).schemas);
const MASK = "255.255.255.0";
const MEDIA: JsonObject = { path: "/media/installer.iso" };

function named(name: string): JsonObject {
  return inPlace(SCHEMAS[name]);
}

function parses(parse: () => unknown): boolean {
  try {
    parse();
    return true;
  } catch (error) {
    assert(error instanceof AgentError, `${error}`);
    return false;
  }
}

/** Texts that some property takes. */
const WORDS = ["02:08:20:AA:bb:cc", "03:08:20:aa:bb:cc", "00:00:00:00:00:00", "192.0.2.7", "dhcp"];

/** Values at and beyond the limits of a schema, with others of every type. */
function valuesOf(schema: JsonObject): JsonValue[] {
  const { enum: words, minimum, maximum, maxItems, type } = schema;
  const numbers = [minimum, maximum].flatMap((limit) =>
    typeof limit === "number" ? [limit - 1, limit, limit + 1, limit + 0.5] : []
  );
  const lists = typeof maxItems === "number" && type === "array"
    ? [[], Array<JsonValue>(maxItems + 1).fill("192.0.2.7")]
    : [];
  const listed = Array.isArray(words) ? words : [];
  return [
    ...numbers,
    ...lists,
    ...listed,
    ...WORDS,
    null,
    "",
    "a b",
    {},
    [],
    [{}],
    true,
    -1,
    "other",
  ];
}

/** Asserts that a schema and a parser agree on every value of every property. */
function agree(
  schema: JsonObject,
  around: (name: string, value: JsonValue) => JsonObject,
  parse: (object: JsonObject) => unknown,
): void {
  let taken = 0;
  let refused = 0;
  for (const [name, property] of membersOf(schema.properties)) {
    for (const value of valuesOf(property)) {
      const object = around(name, value);
      const fits = schemaProblems(object, schema, OPENAPI).length === 0;
      const place = `${name}: ${JSON.stringify(value)}`;
      assertEquals([place, parses(() => parse(object))], [place, fits]);
      if (fits) taken += 1;
      else refused += 1;
    }
  }
  assert(taken > 5 && refused > 5, `${taken} taken, ${refused} refused`);
  const unknown = around("unheard_of", 1);
  assertEquals(parses(() => parse(unknown)), schema.additionalProperties !== false);
}

function parseMachine(machine: JsonObject): unknown {
  return parseMachineRequest({ machine, media: MEDIA, boot: "cd" }, DEFAULT_POLICY);
}

Deno.test("the schema of a machine takes what the parser takes, for either brand", () => {
  const schema = named("MachineDescription");
  for (const brand of ["kvm", "bhyve"]) {
    const properties = Object.entries(inPlace(schema.properties)).filter(([name]) =>
      (BRAND_OF[name] ?? brand) === brand
    );
    const own = { ...schema, properties: Object.fromEntries(properties) };
    agree(own, (name, value) => ({ brand, [name]: value }), parseMachine);
  }
});

Deno.test("the schemas of a disk and a nic take what the parser takes", () => {
  const disk = named("Disk");
  const models = inPlace(inPlace(disk.properties).model).enum;
  assert(Array.isArray(models));
  const { guest_block_size: _g, notrim: _n, pci_slot: _p, uuid: _u, ...ofKvm } = inPlace(
    disk.properties,
  );
  const kvm = { ...ofKvm, model: { enum: ["virtio", "scsi", "ide"] } };
  const bhyve = { ...inPlace(disk.properties), model: { enum: ["virtio", "ahci", "nvme"] } };
  for (const [brand, properties] of Object.entries({ kvm, bhyve })) {
    agree(
      { ...disk, properties },
      (name, value) => ({ model: "virtio", size: 4_194_304, [name]: value }),
      (one) => parseMachine({ brand, disks: [one] }),
    );
  }
  for (const model of models) {
    const brands = ["kvm", "bhyve"].filter((brand) =>
      parses(() => parseMachine({ brand, disks: [{ model, size: 1 }] }))
    );
    assert(brands.length > 0, `no brand takes ${model}`);
  }
  // Which numbers make a mask, and that an address has one, is said in words.
  const { netmask: _, ...properties } = inPlace(named("Nic").properties);
  agree(
    { ...named("Nic"), properties: { ...properties, netmask: { const: MASK } } },
    (name, value) => {
      const addressed = name === "ip" && value !== "dhcp";
      const mask = addressed ? { netmask: MASK } : {};
      const nic = { nic_tag: "admin", model: "virtio", ...mask };
      return name === "netmask"
        ? { ...nic, ip: "192.0.2.7", netmask: MASK }
        : { ...nic, [name]: value };
    },
    (one) => parseMachine({ brand: "kvm", nics: [one] }),
  );
});

Deno.test("the schema of a machine request takes what the parser takes", () => {
  const machine: JsonObject = { brand: "kvm" };
  const digest = `sha256:${"a".repeat(64)}`;
  const schema = named("MachineRequest");
  const parse = (request: JsonObject) => parseMachineRequest(request, DEFAULT_POLICY);
  const media: JsonValue[] = [
    MEDIA,
    { ...MEDIA, digest },
    { ...MEDIA, digest: "sha256:aa" },
    { path: "/media/installer.txt" },
    { url: "https://images.example.com/a.iso" },
    { url: "https://images.example.com/a.iso", digest },
    { artifact: { distro: "a", release: "latest" } },
    { artifact: { distro: "a", release: "latest", format: "iso" }, digest },
    { artifact: { distro: "a", release: "latest", format: "qcow2" } },
    { artifact: { distro: "a" } },
    { artifact: { distro: "a", release: "b c" } },
    { ...MEDIA, artifact: { distro: "a", release: "b" } },
    { path: "installer.iso", unheard_of: 1 },
    {},
    null,
  ];
  for (const one of media) {
    const request = { machine, media: one };
    const fits = schemaProblems(request, schema, OPENAPI).length === 0;
    assertEquals([one, parses(() => parse(request))], [one, fits]);
  }
  const { machine: _, media: __, ...rest } = inPlace(schema.properties);
  // Those two are held against their own parsers above.
  agree(
    { ...schema, properties: { ...rest, machine: {}, media: {} } },
    (name, value) =>
      Object.hasOwn(rest, name) || name === "unheard_of"
        ? { machine, media: MEDIA, [name]: value }
        : { machine, media: MEDIA },
    parse,
  );
});

Deno.test("the schemas of calls on many jobs take what the parser takes", () => {
  const words = {
    CancelSelection: ["queued", "waiting", "running"],
    RetrySelection: ["failed", "failure", "canceled"],
  };
  for (const [name, executions] of Object.entries(words)) {
    const schema = named(name);
    const filter = inPlace(inPlace(schema.properties).filter);
    // Which texts are dates is said in words.
    const { since: _, until: __, params: ___, ...keys } = inPlace(filter.properties);
    agree(
      { ...filter, properties: keys },
      (key, value) => ({ [key]: value }),
      (one) => parseSelection({ filter: one }, executions),
    );
    const whole = { filter: { name: "x" } };
    agree(
      { ...schema, properties: { ...inPlace(schema.properties), filter: {} } },
      (key, value) => key === "filter" ? whole : { ...whole, [key]: value },
      (one) => parseSelection(one, executions),
    );
    const params: JsonValue[] = [
      {},
      { a: 1 },
      { a: "x", b: true, c: null },
      { a: {} },
      { a: [] },
      [],
      null,
      "x",
      Object.fromEntries(Array.from("abcdefgh", (key) => [key, 1])),
      Object.fromEntries(Array.from("abcdefghi", (key) => [key, 1])),
    ];
    for (const one of params) {
      const body = { filter: { params: one } };
      const fits = schemaProblems(body, schema, OPENAPI).length === 0;
      assertEquals([one, parses(() => parseSelection(body, executions))], [one, fits]);
    }
    assertEquals(parses(() => parseSelection({ filter: {} }, executions)), false);
    assert(schemaProblems({ filter: {} }, schema, OPENAPI).length > 0);
  }
});

Deno.test("the schema of a job takes the locks and callbacks that the parser takes", () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, callbackHosts: ["hooks.example.com"] };
  const workflow = uuidOf<WorkflowUuid>(1);
  const parse = (body: JsonObject) => parseJobRequest(body, limits);
  const schema = named("JobRequest");
  const url = "https://hooks.example.com/";
  const cases: JsonObject[] = [
    ...[256, 257].map((length) => ({ locks: "x".repeat(length) })),
    ...[2048, 2049].map((length) => ({ callback_url: url.padEnd(length, "x") })),
    ...["", 7, null, {}].flatMap((value) => [{ locks: value }, { callback_url: value }]),
    ...["", 7, null, {}].map((target) => ({ target })),
    { workflow: "x" },
    { callback_url: "hooks" },
    { other: [] },
  ];
  for (const fields of cases) {
    const body = { workflow, ...fields };
    const fits = schemaProblems(body, schema, OPENAPI).length === 0;
    assertEquals([fields, parses(() => parse(body))], [fields, fits]);
  }
});

Deno.test("the schemas of a workflow and a task take what the parser takes", () => {
  const uuid = uuidOf<WorkflowUuid>(1);
  const parse = (workflow: JsonObject) =>
    parseWorkflow(workflow, uuid, randomUuid, DEFAULT_HTTP_LIMITS);
  agree(named("WorkflowRequest"), (name, value) => ({ name: "x", [name]: value }), parse);
  const body = "(job, cb) => cb()";
  const task = named("TaskRequest");
  const { body: _, fallback: __, uuid: ___, ...fields } = inPlace(task.properties);
  agree(
    { ...task, properties: { ...fields, body: {} } },
    (name, value) => name === "body" ? { body } : { body, [name]: value },
    (one) => parse({ name: "x", chain: [one] }),
  );
  for (const length of [255, 256]) {
    const workflow = { name: "x".repeat(length) };
    const fits = schemaProblems(workflow, named("WorkflowRequest"), OPENAPI).length === 0;
    assertEquals([length, parses(() => parse(workflow))], [length, fits]);
  }
});
