// The settings of the agent as flags of a command.

import { SETTING_ROWS, type SettingRow, valueText, variableOf } from "../config/settings.ts";
import type { ConfigSources, FlagValue } from "../config/sources.ts";
import type { Flag } from "./command/arguments.ts";
import type { Invocation } from "./command/command.ts";

/** One flag for every setting, and `--config`. */
export function configFlags(): readonly Flag[] {
  return [
    { name: "config", placeholder: "FILE", help: "read settings from this TOML file" },
    ...SETTING_ROWS.map((row): Flag => {
      const { placeholder, repeatable, words } = row.kind;
      return {
        name: row.flag,
        help: row.meaning + defaultText(row),
        ...(placeholder === undefined ? {} : { placeholder }),
        ...(repeatable === true ? { many: true } : {}),
        ...(words === undefined ? {} : { words }),
      };
    }),
  ];
}

/** ` [4, from 1 to 64]`; switches and settings without a default have none. */
function defaultText(row: SettingRow): string {
  const value = row.fallback({ dev: false, cwd: "/", os: Deno.build.os });
  const text = valueText(row, value);
  if (typeof value === "boolean" || text === "-") return "";
  const { range, text: written } = row.kind;
  // A size or a time says in its meaning what it takes.
  const bounds = range === undefined || written !== undefined
    ? ""
    : `, from ${range.min} to ${range.max}`;
  return ` [${text}${bounds}]`;
}

/** Where the configuration of this command line is read from. */
export function configSources({ args, terminal }: Invocation): Omit<ConfigSources, "file"> {
  const flags: Record<string, FlagValue> = {};
  for (const { name, placeholder, many } of configFlags()) {
    if (!args.has(name)) continue;
    flags[name] = placeholder === undefined
      ? true
      : many === true
      ? args.texts(name)
      : args.text(name) ?? "";
  }
  return { flags, env: terminal.env, cwd: terminal.cwd, os: Deno.build.os };
}

/** The notes below the flags of `serve`. */
export const CONFIG_NOTES: readonly string[] = [
  `Every flag is also a variable (--state-dir is ${variableOf("state_dir")}) and a key of the\n` +
  "TOML file (state_dir; limits are in the table [limits], the policy is in [policy]). Flags override\n" +
  "variables, variables override the file, the file overrides the defaults; zonewright config show\n" +
  "--origin shows which one applies.",
];
