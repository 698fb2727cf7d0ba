// The published schemas of what is sent, beside the checks that read it: both take and refuse the same
// documents, but for the rules that JSON Schema cannot state.

import { assert, assertEquals } from "@std/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import {
  type Description,
  openFindings,
  UNSTATED_RULES,
} from "../../src/domain/description/description.ts";
import { named } from "../../src/domain/description/value.ts";
import { machineChanges } from "../../src/domain/machine/changes.ts";
import { type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { DEFAULT_POLICY, type Policy } from "../../src/domain/policy.ts";
import { openapiDocument } from "../../src/http/openapi/document.ts";
import { type AgentBounds, requestBodies } from "../../src/http/openapi/operation.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { inPlace } from "./openapi_operations.ts";
import { randomDocuments } from "./random_documents.ts";

const SEED = Number(Deno.env.get("ZONEWRIGHT_TEST_SEED") ?? 14);
/** Documents of one kind; the largest kind has the most rules. */
const documentsOf = (name: string) => name === "MachineRequest" ? 9000 : 1000;

const NARROW: Policy = {
  ...DEFAULT_POLICY,
  brands: ["kvm"],
  vcpusMax: 100,
  ramMiBMax: 512,
  disksMax: 1,
  nicsMax: 2,
  nicTags: ["admin", "a"],
  machineProperties: DEFAULT_POLICY.machineProperties.filter((name) => name !== "quota"),
};
const BOUNDS: Readonly<Record<string, AgentBounds>> = {
  "default bounds": { policy: DEFAULT_POLICY, limits: DEFAULT_HTTP_LIMITS },
  "narrow bounds": {
    policy: NARROW,
    limits: { ...DEFAULT_HTTP_LIMITS, tasksMax: 2, retryMax: 3, targetCharsMax: 16 },
  },
};

/** Rules by which a check has refused what its schema admits. */
const broken = new Set<string>();

/** What a check and a schema say of a document: that they agree, or how they do not. */
function disagreement(
  description: Description<unknown>,
  admits: (document: JsonValue) => boolean,
  document: JsonValue,
): "taken" | "refused" | "beyond the schema" | "differ" {
  const findings = openFindings();
  description.read(document, "", findings);
  const taken = findings.list.length === 0;
  if (admits(document) === taken) return taken ? "taken" : "refused";
  const rules = findings.rules.filter((rule) => rule !== null);
  if (taken || rules.length < findings.rules.length) return "differ";
  for (const rule of rules) broken.add(rule);
  return "beyond the schema";
}

for (const [label, bounds] of Object.entries(BOUNDS)) {
  // What `vmadm.update()` takes is no body of a request, but is described in the same way.
  const bodies = { ...requestBodies(bounds), MachineChanges: machineChanges(bounds.policy) };
  const published = openapiDocument(bounds);
  const components = inPlace(published.components);
  const schemas: JsonObject = { ...inPlace(components.schemas) };
  named("MachineChanges", bodies.MachineChanges).schema(schemas);
  const document = { ...published, components: { ...components, schemas } };
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document, "openapi");
  for (const [name, description] of Object.entries(bodies)) {
    Deno.test(`${name} is taken and refused as its schema says, with ${label}`, () => {
      const admits = ajv.getSchema(`openapi#/components/schemas/${name}`);
      assert(admits !== undefined);
      const random = randomDocuments(SEED, document);
      const seen = { taken: 0, refused: 0, "beyond the schema": 0 };
      for (let index = 0; index < documentsOf(name); index++) {
        // A key __proto__ of the text would be one of the object.
        const one = JSON.parse(JSON.stringify(random.next(schemas[name] as JsonObject)));
        const found = disagreement(description, (value) => admits(value) === true, one);
        if (found === "differ") {
          const findings = openFindings();
          description.read(one, "", findings);
          const schemaSays = admits(one) === true ? "admitted" : ajv.errorsText(admits.errors);
          const shown = JSON.stringify(one).slice(0, 1500);
          throw new Error(
            `${shown}\nschema: ${schemaSays}\ncheck: ${JSON.stringify(findings.list)}`,
          );
        }
        seen[found] += 1;
      }
      const least = documentsOf(name) / 50;
      assert(seen.taken >= least && seen.refused >= least, JSON.stringify(seen));
    });
  }
}

Deno.test("every rule beyond the schemas was broken by at least one test document", () => {
  assertEquals([...broken].sort(), Object.keys(UNSTATED_RULES).sort());
});

Deno.test("the description shows the bounds of this agent", () => {
  const [wide, narrow] = Object.values(BOUNDS).map(openapiDocument);
  const machine = (document: JsonObject | undefined) => {
    const schemas = inPlace(inPlace(document?.components).schemas);
    return inPlace(inPlace(schemas.KvmMachine).properties);
  };
  const digits = { type: "string", pattern: "^[0-9]{1,16}$" };
  const upTo = (maximum: number) => [{ type: "integer", minimum: 1, maximum }, digits];
  assertEquals(inPlace(machine(wide).vcpus).anyOf, upTo(64));
  assertEquals(inPlace(machine(narrow).vcpus).anyOf, upTo(100));
  assertEquals(inPlace(machine(narrow).cpu_cap).anyOf, upTo(10_000));
  assertEquals(inPlace(machine(narrow).disks).maxItems, 1);
  assertEquals(machine(narrow).quota, undefined);
});
