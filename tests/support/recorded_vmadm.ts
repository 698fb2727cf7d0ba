// What the real vmadm answered to payloads, as tests/fixtures/vmadm/README.md describes it.

import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";

const FOLDER = new URL("../fixtures/vmadm/", import.meta.url);

/** A payload and what the tool said of it. */
export interface RecordedVerdict {
  readonly name: string;
  readonly payload: JsonObject;
  /** The lists that `vmadm validate create` printed, the text of its crash, or null: it took it. */
  readonly validate: JsonValue;
  /** What `vmadm create` said against it, or null: it took it. */
  readonly create: string | null;
}

/** A machine as it was asked for, and as `vmadm get` printed it afterwards. */
export interface RecordedMachine {
  readonly name: string;
  readonly create: JsonObject;
  readonly get: JsonObject;
}

/** Every recorded payload with its verdicts. */
export async function recordedVerdicts(): Promise<RecordedVerdict[]> {
  const [first, ...variants] = await linesOf("verdicts.jsonl");
  const base = objectOf(first?.base);
  return variants.map(({ name, set, gone, validate, create }) => {
    const left = Array.isArray(gone) ? gone : [];
    const kept = Object.entries(base).filter(([property]) => !left.includes(property));
    return {
      name: String(name),
      payload: { ...Object.fromEntries(kept), ...objectOf(set) },
      validate: validate ?? null,
      create: typeof create === "string" ? create : null,
    };
  });
}

export async function recordedMachines(): Promise<RecordedMachine[]> {
  return (await linesOf("created.jsonl")).map(({ name, create, get }) => ({
    name: String(name),
    create: objectOf(create),
    get: objectOf(get),
  }));
}

async function linesOf(file: string): Promise<JsonObject[]> {
  const text = await Deno.readTextFile(new URL(file, FOLDER));
  return text.trimEnd().split("\n").map((line) => objectOf(JSON.parse(line)));
}

function objectOf(value: unknown): JsonObject {
  if (isJsonObject(value)) return value;
  throw new Error(`Cannot read the recorded payloads: found ${JSON.stringify(value)}`);
}
