// Writes the table of properties in docs/policy.md from the checks that read them: what each says of a
// wrong value, and the note of its published schema. Run it after a change of a property:
//   deno run --allow-read --allow-write tests/domain/write_policy_table.ts

import { fromFileUrl } from "@std/path";
import { openFindings } from "../../src/domain/description/description.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { machineChanges } from "../../src/domain/machine/changes.ts";
import { machineRequest } from "../../src/domain/machine/machine.ts";
import { BRANDS, DEFAULT_POLICY, type MachineBrand } from "../../src/domain/policy.ts";

const PAGE = fromFileUrl(new URL("../../docs/policy.md", import.meta.url));
const BEGIN = "<!-- properties -->\n";
const END = "<!-- end of properties -->";
/** The rest of a disk and a nic whose one property is tried. */
const DEVICE: Readonly<Record<string, JsonObject>> = {
  disks: { model: "virtio", size: 1024 },
  nics: { nic_tag: "admin", model: "virtio" },
};
const MANY = 10_000;

const REQUEST = machineRequest(DEFAULT_POLICY);
const CHANGES = machineChanges(DEFAULT_POLICY);
const SCHEMAS: JsonObject = {};
REQUEST.schema(SCHEMAS);

/** What the check says of one value of a property: the words behind `path must `, or of an item. */
function saidOf(brand: MachineBrand, name: string, value: JsonValue): string | undefined {
  const [list = "", inner] = name.split(".");
  const machine = inner === undefined
    ? { brand, [list]: value }
    : { brand, [list]: [{ ...DEVICE[list], [inner]: value }] };
  const path = inner === undefined ? `machine.${list}` : `machine.${list}[0].${inner}`;
  const findings = openFindings();
  REQUEST.read({ machine, media: { path: "/a.iso" } }, "", findings);
  const own = findings.list.find(({ field }) => field === path || field === `${path}[0]`);
  return own?.message.slice(own.field.length + 1);
}

/** Words of a refusal as a bound; settings by their own names. */
function bound(words: string | undefined): string {
  return (words ?? "").replace(/^must (?:be |hold |have )?/, "")
    .replace(/ \(setting policy\.(\w+)\)/, " (`$1`)").replace(/: did you mean .*$|, found .*$/, "")
    .replaceAll("|", "\\|");
}

/** The bounds of a property: of the list and of its items, or of the value. */
function boundsOf(brand: MachineBrand, name: string): string {
  const large = bound(saidOf(brand, name, Number.MAX_SAFE_INTEGER));
  if (large.startsWith("an object")) {
    const entries = Array.from({ length: MANY }, (_, index): [string, number] => [`${index}`, 0]);
    return `${large}, ${bound(saidOf(brand, name, Object.fromEntries(entries)))}`;
  }
  if (saidOf(brand, name, [])?.startsWith("must") === true) return large;
  const most = bound(saidOf(brand, name, Array(MANY).fill({})));
  const item = Object.hasOwn(DEVICE, name) ? "" : bound(saidOf(brand, name, [{}]));
  return item === "" ? most : `${most}, each ${item}`;
}

/** The schema of a property, for its note. */
function noteOf(brand: MachineBrand, name: string): string {
  const [list = "", inner] = name.split(".");
  const part = inner === undefined ? "Machine" : list === "disks" ? "Disk" : "Nic";
  const schema = SCHEMAS[(brand === "kvm" ? "Kvm" : "Bhyve") + part];
  const properties = isJsonObject(schema) && isJsonObject(schema.properties)
    ? schema.properties
    : {};
  const property = properties[inner ?? list];
  const note = isJsonObject(property) && typeof property.description === "string"
    ? property.description
    : "";
  const required = isJsonObject(schema) && Array.isArray(schema.required) ? schema.required : [];
  return [required.includes(inner ?? list) ? "Required." : "", note].filter(Boolean).join(" ");
}

/** Whether `vmadm.update()` takes the property in the same words. */
function isChanged(brand: MachineBrand, name: string): boolean {
  if (name.includes(".")) return false;
  const findings = openFindings();
  CHANGES.read({ [name]: Number.MAX_SAFE_INTEGER }, "", findings);
  const said = findings.list[0]?.message.slice(name.length + 1);
  return said === saidOf(brand, name, Number.MAX_SAFE_INTEGER);
}

function row(name: string): string {
  const brands = BRANDS.filter((brand) =>
    saidOf(brand, name, Number.MAX_SAFE_INTEGER)?.startsWith("is only for") !== true
  );
  const bounds = brands.map((brand) => boundsOf(brand, name));
  const differ = new Set(bounds).size > 1;
  const words = differ
    ? brands.map((brand, index) => `${brand}: ${bounds[index]}`).join("; ")
    : bounds[0] ?? "";
  const [first = "kvm"] = brands;
  const note = noteOf(first, name);
  const marks = BRANDS.map((brand) =>
    brands.includes(brand) ? (isChanged(brand, name) ? "cu" : "c") : ""
  );
  return `| \`${name}\` | ${marks.join(" | ")} | ${[words, note].filter(Boolean).join(". ")} |`;
}

/** The page as it is, and as the checks require it. */
export async function propertiesPage(): Promise<{ found: string; required: string }> {
  const found = await Deno.readTextFile(PAGE);
  const [begin, end] = [found.indexOf(BEGIN), found.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`${PAGE} has no ${BEGIN.trim()} ... ${END}`);
  const { machineProperties, diskProperties, nicProperties } = DEFAULT_POLICY;
  const names = [
    ...machineProperties.flatMap((name) => {
      const inner = { disks: diskProperties, nics: nicProperties }[name] ?? [];
      return [name, ...inner.map((one) => `${name}.${one}`)];
    }),
    "vnc_password",
  ];
  const head = ["| Property | kvm | bhyve | Bounds |", "|---|---|---|---|"];
  const table = [...head, ...names.map(row), ""].join("\n");
  return { found, required: found.slice(0, begin + BEGIN.length) + table + found.slice(end) };
}

if (import.meta.main) await Deno.writeTextFile(PAGE, (await propertiesPage()).required);
