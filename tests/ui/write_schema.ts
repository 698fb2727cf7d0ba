// Writes src/ui/client/schema.ts: the types of what the console reads, made of the agent's description. A
// page that calls something else adds its operation here and runs this file.

import { fromFileUrl } from "@std/path";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { OPENAPI } from "../http/openapi_operations.ts";

/** The operations that the console reads the answers of. */
const OPERATIONS = [
  "GET /agent/v1/config",
  "GET /agent/v1/doctor",
  "GET /agent/v1/host",
  "GET /agent/v1/hosts",
  "GET /agent/v1/images",
  "GET /agent/v1/index",
  "GET /agent/v1/jobs",
  "GET /agent/v1/jobs/counts",
  "GET /agent/v1/jobs/{job_uuid}",
  "GET /agent/v1/jobs/{job_uuid}/log",
  "GET /agent/v1/leftovers",
  "GET /agent/v1/machines",
  "GET /agent/v1/machines/{uuid}",
  "GET /agent/v1/machines/{uuid}/vnc",
  "GET /agent/v1/media/library",
  "GET /agent/v1/session",
  "GET /agent/v1/stats/hourly",
  "GET /jobs/{job_uuid}",
  "GET /stats",
  "GET /v1/distros/{distro}/index.json",
  "GET /v1/index.json",
  "GET /workflows",
  "GET /workflows/{wf_uuid}",
  "POST /agent/v1/jobs/{job_uuid}/retry",
  "POST /agent/v1/machines/{uuid}/console-tickets",
  "POST /agent/v1/machines",
  "POST /agent/v1/media",
  "POST /agent/v1/media/{digest}/verify",
  "POST /agent/v1/session",
  "POST /agent/v1/workflows/validate",
] as const;

const HEAD =
  `// What the agent answers to the console. Written by tests/ui/write_schema.ts from the agent's
// description; a test compares them.
`;
const PATH = fromFileUrl(new URL("../../src/ui/client/schema.ts", import.meta.url));

/** The text of the file. */
export async function schemaText(): Promise<string> {
  const needed = new Set<string>();
  const answers = OPERATIONS.map((name) => `readonly "${name}": ${answerType(name, needed)};`);
  const schemas: string[] = [];
  for (const name of needed) {
    schemas.push(
      `readonly ${name}: ${typeOf(member(OPENAPI.components, "schemas", name), needed)};`,
    );
  }
  return await formatted(`${HEAD}
/** The schemas of the description by their names. */
export interface Schemas {
${schemas.sort().join("\n")}
}

/** The body of each successful answer. */
export interface Answers {
${answers.join("\n")}
}
`);
}

function answerType(name: string, needed: Set<string>): string {
  const [method = "", path = ""] = name.split(" ");
  const responses = member(OPENAPI.paths, path, method.toLowerCase(), "responses");
  const types = ["200", "201", "202"]
    .filter((status) => isJsonObject(responses) && status in responses)
    .map((status) =>
      typeOf(member(responses, status, "content", "application/json", "schema"), needed)
    );
  return [...new Set(types)].join(" | ");
}

function member(value: JsonValue | undefined, ...names: string[]): JsonValue {
  let found: JsonValue = value ?? null;
  for (const name of names) {
    const next: JsonValue | undefined = isJsonObject(found) ? found[name] : undefined;
    if (next === undefined) throw new Error(`The description has no ${names.join(" ")}`);
    found = next;
  }
  return found;
}

function typeOf(schema: JsonValue, needed: Set<string>): string {
  if (!isJsonObject(schema)) return "unknown";
  if (typeof schema.$ref === "string") {
    const name = schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1);
    needed.add(name);
    return `Schemas["${name}"]`;
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  // The index has no other way to say that a reference may be null: OpenAPI 3.0 has none.
  if (Array.isArray(schema.allOf) && Object.keys(schema).length === 1) {
    return typeOf(schema.allOf[0] ?? null, needed);
  }
  for (const any of [schema.anyOf, schema.oneOf]) {
    if (Array.isArray(any)) return any.map((one) => typeOf(one, needed)).join(" | ");
  }
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  return types.map((type) => typeNamed(type ?? null, schema, needed)).join(" | ");
}

function typeNamed(type: JsonValue, schema: JsonObject, needed: Set<string>): string {
  switch (type) {
    case "string":
    case "boolean":
    case "null":
    case "number":
      return type;
    case "integer":
      return "number";
    case "array":
      return `readonly (${typeOf(schema.items ?? null, needed)})[]`;
    case "object":
      return objectType(schema, needed);
    default:
      return "unknown";
  }
}

function objectType(schema: JsonObject, needed: Set<string>): string {
  if (!isJsonObject(schema.properties)) {
    return `Readonly<Record<string, ${typeOf(schema.additionalProperties ?? null, needed)}>>`;
  }
  const required = Array.isArray(schema.required) ? schema.required : [];
  const members = Object.entries(schema.properties).map(([name, inner]) =>
    `readonly ${name}${required.includes(name) ? "" : "?"}: ${typeOf(inner, needed)};`
  );
  return `{\n${members.join("\n")}\n}`;
}

async function formatted(text: string): Promise<string> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["fmt", "--quiet", "--ext", "ts", "--line-width", "100", "-"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  await new Blob([text]).stream().pipeTo(child.stdin);
  return new TextDecoder().decode((await child.output()).stdout);
}

if (import.meta.main) await Deno.writeTextFile(PATH, await schemaText());
