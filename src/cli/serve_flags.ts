// The settings of the agent as flags of a command.

import { SETTINGS, variableOf } from "../config/config.ts";
import type { Definition } from "../config/definition.ts";
import { type ConfigSources, type FlagValue, TABLES } from "../config/sources.ts";
import type { Flag } from "./kit/arguments.ts";
import type { Invocation } from "./kit/command.ts";

const DEFINITIONS: readonly Definition<unknown>[] = [
  ...Object.values(SETTINGS),
  ...Object.values(TABLES).flatMap((table) => Object.values<Definition<unknown>>(table)),
];

/** A value as it would be written in the file. */
export function valueText(value: unknown): string {
  if (value === null) return "-";
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return value.length === 0 ? "-" : value.join(", ");
  if ("hostname" in value && "port" in value) return `${value.hostname}:${value.port}`;
  if ("destination" in value) {
    return "port" in value
      ? `ssh://${value.destination}:${value.port}`
      : `ssh://${value.destination}`;
  }
  return "kind" in value ? String(value.kind) : JSON.stringify(value);
}

/** One flag for every setting, and `--config`. */
export function configFlags(): readonly Flag[] {
  return [
    { name: "config", placeholder: "FILE", help: "read settings from this TOML file" },
    ...DEFINITIONS.map(({ flag, placeholder, many, help, read, fallback }): Flag => ({
      name: flag,
      help: help + defaultText(fallback({ dev: false, cwd: "/", os: Deno.build.os })),
      ...(placeholder === undefined ? {} : { placeholder }),
      ...(many === true ? { many } : {}),
      ...(read.words === undefined ? {} : { words: read.words }),
    })),
  ];
}

/** ` [4]`; switches and settings without a default have none. */
function defaultText(value: unknown): string {
  const text = valueText(value);
  return typeof value === "boolean" || text === "-" ? "" : ` [${text}]`;
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

/** What is said below the flags of `serve`. */
export const CONFIG_NOTES: readonly string[] = [
  `Every flag is also a variable (--state-dir is ${
    variableOf("state-dir")
  }) and a key of the TOML\n` +
  "file (state_dir; limits stand in the table [limits], the policy in [policy]). Flags beat variables, variables beat\n" +
  "the file, the file beats the defaults: zonewright config show --origin tells which.",
];
