// Writes the table of flags in docs/reference.md from the settings. Run it after a change of a setting:
//   deno run --allow-read --allow-write --allow-env tests/cli/write_reference.ts

import { fromFileUrl } from "@std/path";
import { configFlags } from "../../src/cli/config.ts";
import { SETTINGS } from "../../src/config/settings.ts";

const PAGE = fromFileUrl(new URL("../../docs/reference.md", import.meta.url));
const BEGIN = "<!-- flags -->\n";
const END = "<!-- end of flags -->";

/** One row for each flag that has no table of its own elsewhere. */
function rows(): string[] {
  const own = new Set(["config", ...Object.keys(SETTINGS).map((key) => key.replaceAll("_", "-"))]);
  return configFlags().filter(({ name }) => own.has(name)).map(({ name, placeholder, help }) => {
    const flag = placeholder === undefined ? `--${name}` : `--${name} ${placeholder}`;
    return `| \`${flag.replaceAll("|", "\\|")}\` | ${help.replaceAll("|", "\\|")} |`;
  });
}

/** The page as it is, and as the settings require it. */
export async function referencePage(): Promise<{ found: string; required: string }> {
  const found = await Deno.readTextFile(PAGE);
  const begin = found.indexOf(BEGIN);
  const end = found.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`${PAGE} has no ${BEGIN.trim()} ... ${END}`);
  const table = ["| Flag | Meaning [default] |", "|---|---|", ...rows(), ""].join("\n");
  const required = found.slice(0, begin + BEGIN.length) + table + found.slice(end);
  return { found, required };
}

if (import.meta.main) await Deno.writeTextFile(PAGE, (await referencePage()).required);
