// Writes the tables of docs/limits.md from the table of settings. Run it after a change of a limit:
//   deno run --allow-read --allow-write tests/limits/write_page.ts

import { fromFileUrl } from "@std/path";
import { LIMITS } from "../../src/config/limits.ts";
import { SETTING_ROWS, type SettingRow } from "../../src/config/settings.ts";

const PAGE = fromFileUrl(new URL("../../docs/limits.md", import.meta.url));
const KI = 1024;

/** The groups of the page: each begins with this limit, and goes on in the order of the table. */
const GROUPS: readonly (keyof typeof LIMITS)[] = [
  "connections_max",
  "tasks_max",
];

const UNITS: Readonly<Record<string, string>> = { BYTES: "bytes", CHARS: "chars", SECONDS: "s" };

/** 32768 characters are 32 Ki; counts and seconds stay as they are. */
function numberText(value: number, unit: string): string {
  if (unit !== "BYTES" && unit !== "CHARS") return String(value);
  if (value % (KI * KI) === 0) return `${value / (KI * KI)} Mi`;
  return value % KI === 0 ? `${value / KI} Ki` : String(value);
}

function line({ key, kind, meaning, met = "", fallback }: SettingRow): string {
  const { placeholder = "", range = { min: 0, max: 0 } } = kind;
  const value = Number(fallback({ dev: false, cwd: "/", os: "linux" }));
  const text = (number: number) => numberText(number, placeholder);
  const unit = UNITS[placeholder] ?? "";
  const bounds = `${text(range.min)} to ${text(range.max)}`;
  return `| \`${key}\` | ${
    [text(value), unit].join(" ").trim()
  } | ${bounds} | ${meaning} | ${met} |`;
}

function table(rows: readonly SettingRow[]): string {
  const head =
    "| Setting | Default | Range | What it bounds | When it is reached |\n|---|---|---|---|---|";
  return [head, ...rows.map(line), ""].join("\n");
}

/** The page as it is, and as the settings require it. */
export async function limitsPage(): Promise<{ found: string; required: string }> {
  const found = await Deno.readTextFile(PAGE);
  const rows = SETTING_ROWS.filter((row) => row.table === "limits");
  const starts = GROUPS.map((name) => rows.findIndex(({ key }) => key === name));
  let required = found;
  for (const [at, name] of GROUPS.entries()) {
    const begin = `<!-- limits from ${name} -->\n`;
    const end = "<!-- end of limits -->";
    const from = required.indexOf(begin);
    const to = required.indexOf(end, from);
    if (from < 0 || to < from) throw new Error(`${PAGE} has no ${begin.trim()} ... ${end}`);
    const text = table(rows.slice(starts[at], starts[at + 1]));
    required = required.slice(0, from + begin.length) + text + required.slice(to);
  }
  return { found, required };
}

if (import.meta.main) await Deno.writeTextFile(PAGE, (await limitsPage()).required);
