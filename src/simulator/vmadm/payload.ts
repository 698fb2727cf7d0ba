// Parses and checks machine descriptions: JSON text, brand, values, missing properties, in the tool's order.
// The messages are built here too, so that `validate` and `create` agree.

import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import type { Brand } from "../machine.ts";
import { refusal } from "../outcome.ts";
import type { State } from "../host_folder.ts";
import {
  DISK_PROPERTIES,
  type Draft,
  MACHINE_PROPERTIES,
  NIC_PROPERTIES,
  type Property,
  settled,
} from "./property.ts";

/** What is wrong with a payload. `validate` prints it without empty lists. */
interface Verdict {
  readonly bad_values: readonly string[];
  readonly bad_properties: readonly string[];
  readonly missing_properties: readonly string[];
}

/** Brands of the real tool that the simulator does not run; for these, create requires an image. */
const OTHER_BRANDS = ["joyent", "joyent-minimal", "lx", "sngl", "builder"];

/**
 * The JSON value in a payload text.
 * @throws {AgentError} `host` with the words of the tool's old JSON parser
 */
export function parsePayload(text: string): JsonValue {
  try {
    const value: JsonValue = JSON.parse(text);
    return value;
  } catch (error) {
    throw refusal(`Invalid JSON payload: ${oldWords(text, String(error))}`);
  }
}

/** The platform runs node 0.10, whose parse errors are worded differently. */
function oldWords(text: string, words: string): string {
  if (/Unexpected end|Unterminated/.test(words)) return "Unexpected end of input";
  const position = /at position (\d+)/.exec(words)?.[1];
  const token = /Unexpected token '(.+?)'/su.exec(words)?.[1] ??
    (position === undefined ? undefined : text[Number(position)]);
  return token === undefined ? "Unexpected end of input" : `Unexpected token ${token}`;
}

/** The brand of a payload; an omitted one means `joyent`. */
export function brandOf(payload: JsonObject): { known: Brand } | { other: string } | null {
  const brand = payload.brand ?? "joyent";
  if (brand === "kvm" || brand === "bhyve") return { known: brand };
  return typeof brand === "string" && OTHER_BRANDS.includes(brand) ? { other: brand } : null;
}

/** Checks a payload against the table of properties. */
export function judge(
  { host }: State,
  payload: Draft,
  brand: Brand,
  action: "create" | "update",
): Verdict {
  const bad_values: string[] = [];
  const bad_properties: string[] = [];
  const missing_properties: string[] = [];
  const look = (object: Draft, table: Readonly<Record<string, Property>>, prefix: string) => {
    for (const [name, value] of Object.entries(object)) {
      const property = Object.hasOwn(table, name) ? table[name] : undefined;
      const takes = property?.brands.includes(brand) && property.on.includes(action);
      if (takes !== true) bad_properties.push(prefix + name);
      // Even a property that will be dropped must have a valid value.
      const isBad = property?.valid(value) === false ||
        (property?.type === "zpool" && value !== host.pool.name);
      if (isBad) bad_values.push(prefix + name);
    }
  };
  look(payload, MACHINE_PROPERTIES, "");
  const [disks, nics] = action === "create" ? ["disks", "nics"] : ["add_disks", "add_nics"];
  const { image_uuid } = payload;
  if (image_uuid !== undefined && host.images.every(({ uuid }) => uuid !== image_uuid)) {
    bad_values.push("image_uuid");
  }
  for (const [index, disk] of entriesOf(payload[disks])) {
    if (isJsonObject(disk)) look(disk, DISK_PROPERTIES, "disks.*.");
    const source = sourceOf(host.images, payload, isJsonObject(disk) ? disk : {});
    bad_values.push(...source.bad_values.map((name) => `${disks}.${index}.${name}`));
    bad_properties.push(...source.bad_properties.map((name) => `${disks}.${index}.${name}`));
    missing_properties.push(...source.missing.map((name) => `${disks}.${index}.${name}`));
  }
  for (const [, nic] of entriesOf(payload[nics])) {
    if (isJsonObject(nic)) look(nic, NIC_PROPERTIES, "nics.*.");
  }
  return {
    bad_values: unique(bad_values),
    bad_properties: unique(bad_properties),
    missing_properties,
  };
}

/** What is wrong with the source of a disk: its size, or an image. */
function sourceOf(
  images: State["host"]["images"],
  { flexible_disk_size }: Draft,
  disk: JsonObject,
): { bad_values: string[]; bad_properties: string[]; missing: string[] } {
  const has = (name: string) => Object.hasOwn(disk, name);
  const given = (...names: string[]) => names.filter(has);
  const bad_values = Number(disk.refreservation) < 0 ? ["refreservation"] : [];
  if (disk.media !== undefined && disk.media !== "disk") {
    return { bad_values, bad_properties: [], missing: [] };
  }
  if (!has("image_uuid")) {
    const missing = has("size") ? [] : ["size"];
    return { bad_values, bad_properties: given("image_name", "image_size"), missing };
  }
  const isKnown = images.some(({ uuid }) => uuid === disk.image_uuid);
  return {
    bad_values: [...bad_values, ...(isKnown ? [] : ["image_uuid"])],
    bad_properties: given(...(flexible_disk_size === undefined ? ["size"] : []), "block_size"),
    missing: isKnown || has("image_size") ? [] : ["image_size"],
  };
}

function entriesOf(value: JsonValue | undefined): [number, JsonValue][] {
  return Array.isArray(value) ? [...value.entries()] : [];
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)];
}

/** The verdict as `validate` prints it, or null when there is nothing to say. */
export function verdictJson(verdict: Verdict): JsonObject | null {
  const lists = Object.entries(verdict).filter(([, names]) => names.length > 0);
  return lists.length === 0 ? null : Object.fromEntries(lists);
}

/**
 * Refuses a payload as create and update do: values first, then missing properties. Unknown
 * properties are dropped silently.
 * @throws {AgentError} `host`
 */
export function refuseBad(verdict: Verdict): void {
  if (verdict.bad_values.length > 0) {
    throw refusal(`Invalid value(s) for: ${verdict.bad_values.join(",")}`);
  }
  if (verdict.missing_properties.length > 0) {
    throw refusal(`Missing required properties: ${verdict.missing_properties.join(",")}`);
  }
}

/** The payload without the properties that its brand does not take. */
export function withoutUnknown(
  payload: Draft,
  brand: Brand,
  action: "create" | "update",
): JsonObject {
  const keep = (object: Draft, table: Readonly<Record<string, Property>>): JsonObject =>
    settled(Object.fromEntries(
      Object.entries(object).filter(([name]) => {
        const property = Object.hasOwn(table, name) ? table[name] : undefined;
        return property?.brands.includes(brand) === true && property.on.includes(action);
      }),
    ));
  const kept = keep(payload, MACHINE_PROPERTIES);
  const [disks, nics] = action === "create" ? ["disks", "nics"] : ["add_disks", "add_nics"];
  for (const [name, table] of [[disks, DISK_PROPERTIES], [nics, NIC_PROPERTIES]] as const) {
    const items = kept[name];
    if (!Array.isArray(items)) continue;
    kept[name] = items.map((item) => isJsonObject(item) ? keep(item, table) : item);
  }
  return kept;
}
