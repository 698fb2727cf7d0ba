// What this host and its policy allow for a machine: brands, networks and bounds of properties, from the agent's
// description.

import { read, send } from "../../client/client.ts";
import type { Schemas } from "../../client/schema.ts";
import { type JsonObject, valueAt } from "./draft.ts";

/** The bounds of one property. */
export interface Bound {
  readonly min?: number;
  readonly max?: number;
  /** The only accepted values. */
  readonly words?: readonly string[];
}

/** The choices for a new machine. */
export interface Bounds {
  readonly brands: readonly string[];
  /** Undefined when the host gave no answer. */
  readonly networks: readonly string[] | undefined;
  readonly disksMax: number;
  readonly nicsMax: number;
  /** Of a property of a brand: `ram`, `disks.size`, `nics.model`. */
  of(brand: string, property: string): Bound;
}

/** Asks the agent. @throws {CallError} */
export async function readBounds(signal: AbortSignal): Promise<Bounds> {
  const [host, description] = await Promise.all([
    read("GET /agent/v1/host", "/agent/v1/host", signal),
    send({ method: "GET", path: "/openapi.json" }, signal),
  ]);
  const { brands, policy } = host;
  return {
    brands,
    networks: networksOf(host),
    disksMax: policy.disks_max,
    nicsMax: policy.nics_max,
    of: (brand, property) => boundOf(description, brand, property),
  };
}

function networksOf({ networks, policy }: Schemas["Host"]): readonly string[] | undefined {
  const allowed = policy.allow_nic_tag;
  const found = networks.value ?? (allowed.length > 0 ? allowed : undefined);
  return allowed.length === 0 ? found : found?.filter((name) => allowed.includes(name));
}

function boundOf(description: unknown, brand: string, property: string): Bound {
  const schemas = valueAt(description, ["components", "schemas"]);
  const brands = valueAt(schemas, ["MachineDescription", "oneOf"]);
  const machine = (Array.isArray(brands) ? brands : [])
    .map((schema) => resolved(schemas, schema))
    .find((schema) => wordsOf(valueAt(schema, ["properties", "brand"]))?.includes(brand));
  const [name = "", inner] = property.split(".");
  const whole = valueAt(machine, ["properties", name]);
  const found = inner === undefined
    ? whole
    : valueAt(resolved(schemas, valueAt(whole, ["items"])), ["properties", inner]);
  return boundIn(found);
}

function resolved(schemas: unknown, schema: unknown): unknown {
  const ref = valueAt(schema, ["$ref"]);
  return typeof ref === "string" ? valueAt(schemas, [ref.slice(ref.lastIndexOf("/") + 1)]) : schema;
}

function boundIn(schema: unknown): Bound {
  const any = valueAt(schema, ["anyOf"]);
  // The schema also accepts digits as text; the bounds are those of the number.
  const number = Array.isArray(any)
    ? any.find((one: JsonObject) => one.type === "integer")
    : schema;
  const min = valueAt(number, ["minimum"]);
  const max = valueAt(number, ["maximum"]);
  const words = wordsOf(schema);
  return {
    ...(typeof min === "number" ? { min } : {}),
    ...(typeof max === "number" ? { max } : {}),
    ...(words === undefined ? {} : { words }),
  };
}

function wordsOf(schema: unknown): readonly string[] | undefined {
  const words = valueAt(schema, ["enum"]);
  return Array.isArray(words) ? words.map(String) : undefined;
}

/** The form's first value, MiB, unless the operator requires more. */
const FIRST_RAM_MIB = 1_024;
const FIRST_DISK_MIB = 10_240;

/** A disk of a usual size. */
export function firstDisk(bounds: Bounds, brand: string): JsonObject {
  const { max = FIRST_DISK_MIB } = bounds.of(brand, "disks.size");
  return { model: firstModel(bounds, brand, "disks"), size: Math.min(FIRST_DISK_MIB, max) };
}

/** A nic that gets its address by DHCP. */
export function firstNic({ networks, ...bounds }: Bounds, brand: string): JsonObject {
  const model = firstModel({ networks, ...bounds }, brand, "nics");
  return { nic_tag: networks?.[0] ?? "", model, ip: "dhcp" };
}

function firstModel(bounds: Bounds, brand: string, list: "disks" | "nics"): string {
  return bounds.of(brand, `${list}.model`).words?.[0] ?? "";
}

/** The request with which the form begins. */
export function firstRequest(bounds: Bounds, media: JsonObject | undefined): JsonObject {
  const [brand = ""] = bounds.brands;
  const { max = FIRST_RAM_MIB } = bounds.of(brand, "ram");
  return {
    machine: {
      brand,
      vcpus: 1,
      ram: Math.min(FIRST_RAM_MIB, max),
      ...(bounds.disksMax === 0 ? {} : { disks: [{ boot: true, ...firstDisk(bounds, brand) }] }),
      ...(bounds.nicsMax === 0 ? {} : { nics: [{ ...firstNic(bounds, brand), primary: true }] }),
    },
    ...(media === undefined ? {} : { media }),
  };
}
