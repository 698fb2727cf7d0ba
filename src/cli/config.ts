// `zonewright config`: what an agent that was started here and now would be configured with.

import { type Setting, SETTINGS } from "../config/config.ts";
import { loadConfig, originText, TABLES } from "../config/sources.ts";
import type { Definition } from "../config/definition.ts";
import { type Command, EXIT, type Invocation, type Noun } from "./kit/command.ts";
import { AgentError } from "../domain/error.ts";
import { configFlags, configSources, valueText } from "./serve_flags.ts";

/** One setting with the name that it has in the file. */
interface Row {
  readonly name: string;
  readonly setting: Setting<unknown>;
}

async function rowsOf(call: Invocation): Promise<Row[]> {
  const config = await loadConfig(configSources(call));
  const settings: Readonly<Record<string, unknown>> = { ...config };
  return [
    ...Object.entries(SETTINGS).map(([name, { key }]) => ({
      name: key,
      setting: settings[name] as Setting<unknown>,
    })),
    ...Object.entries(TABLES).flatMap(([table, definitions]) => {
      const within = settings[table] as Readonly<Record<string, Setting<unknown>>>;
      return Object.entries<Definition<unknown>>(definitions).map(([name, { key }]) => ({
        name: `${table}.${key}`,
        setting: within[name] as Setting<unknown>,
      }));
    }),
  ];
}

const SHOW: Command = {
  summary: "print every setting, and where it comes from",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["config show --origin", "flag, variable, file or default"],
    ["config show --config ./zonewright.toml --json", "what this file would mean"],
  ],
  flags: [{ name: "origin", help: "where each value comes from" }, ...configFlags()],
  shared: "output",
  async run(call) {
    const rows = await rowsOf(call);
    const origin = call.args.has("origin");
    if (call.printer.json) {
      call.printer.document(Object.fromEntries(rows.map(({ name, setting }) => [
        name,
        origin ? { value: setting.value, origin: originText(setting.origin) } : setting.value,
      ])));
      return EXIT.ok;
    }
    call.printer.table(
      [{ head: "SETTING" }, { head: "VALUE" }, ...(origin ? [{ head: "ORIGIN" }] : [])],
      rows.map(({ name, setting }) => [
        name,
        valueText(setting.value),
        originText(setting.origin),
      ]),
    );
    return EXIT.ok;
  },
};

const CHECK: Command = {
  summary: "tell whether the configuration can be read; exits 2 when not",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [["config check --config ./zonewright.toml", "before the agent is started with it"]],
  flags: configFlags(),
  shared: "output",
  async run(call) {
    const rows = await checkedRows(call);
    const set = rows.filter(({ setting }) => setting.origin.kind !== "default").length;
    if (call.printer.json) call.printer.document({ ok: true, settings: rows.length, set });
    else call.printer.data(`ok: ${rows.length} settings, ${set} of them not the default`);
    return EXIT.ok;
  },
};

/** Whatever keeps the configuration from being read, a file that is not there included, is its fault. */
async function checkedRows(call: Invocation): Promise<Row[]> {
  try {
    return await rowsOf(call);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    const { message, errors } = error;
    if (call.printer.json) {
      const told = errors.length === 0 ? [{ field: "config", code: "Invalid", message }] : errors;
      call.printer.document({ ok: false, errors: told });
    }
    throw new AgentError("invalid_argument", message, { cause: error, errors });
  }
}

/** `zonewright config`. */
export const CONFIG: Noun = {
  kind: "verbs",
  summary: "show and check the settings of the agent",
  verbs: { show: SHOW, check: CHECK },
};
