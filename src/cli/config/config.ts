// `zonewright config` and its verbs `init` and `set`, which write the configuration file without an editor.
// They write nothing that an agent could not read.

import { dirname, resolve } from "@std/path";
import { commentedSettings, tomlValue, withSetting } from "../../config/toml.ts";
import {
  defaultConfigPath,
  nameOf,
  RELOADED_SETTINGS,
  SETTING_ROWS,
  type SettingRow,
  valueText,
  variableOf,
} from "../../config/settings.ts";
import { type ConfigLine, configLines, readConfig } from "../../config/sources.ts";
import {
  AgentError,
  invalidArgument,
  messageOf,
  systemCode,
  systemReason,
} from "../../domain/error.ts";
import { nearest } from "../../domain/near_word.ts";
import { aloneIn } from "../../runtime/folder_lock.ts";
import { CONFIG_MODE } from "../../service/installation.ts";
import { exists, replaceFile } from "../../service/installed_files.ts";
import { SERVICE_NAME } from "../../service/manager.ts";
import { shellQuoted } from "../client/api_call.ts";
import { cannot, type Flag } from "../command/arguments.ts";
import type { Command, Invocation, Noun } from "../command/command.ts";
import { CHECK, SHOW } from "./settings.ts";

const VALUES_MAX = 1024;

const HEAD = `# zonewright: the settings of this agent. A line that begins with # shows a default.
# After a change: zonewright config check, and reload or restart the service.

`;

const FILE_FLAG: Flag = {
  name: "config",
  placeholder: "FILE",
  help: "the configuration file (ZONEWRIGHT_CONFIG) [that of the service]",
};

const INIT: Command = {
  summary: "write a configuration file with every setting as a comment",
  operands: "[FILE]",
  examples: [
    ["config init", "where the agent looks for it; an existing file is left alone"],
    ["config init - | less", "to standard output"],
  ],
  flags: [{ name: "force", help: "replace an existing file" }],
  shared: "output",
  async run(call) {
    const { args, printer, terminal } = call;
    const text = HEAD + commentedSettings([]);
    const [operand] = args.operands;
    if (operand === "-") {
      if (printer.json) printer.document({ file: null, text });
      else terminal.out(text);
      return;
    }
    const path = pathOf(call, operand);
    const replaced = await aloneIn(
      dirname(path),
      () => writeFirst(path, text, args.has("force")),
      printer,
    );
    printer.result({ file: path, replaced }, `${replaced ? "replaced" : "wrote"} ${path}`);
    printer.next(
      `config set ${operand === undefined ? "" : `--config ${shellQuoted(operand)} `}slots 8`,
      "change one",
    );
  },
  hint: ({ code }) =>
    code === "already_exists"
      ? "zonewright config set  changes one setting of a file"
      : "zonewright config init -  prints the text instead",
};

/** @returns whether another file had the name */
async function writeFirst(path: string, text: string, force: boolean): Promise<boolean> {
  const replaced = await exists(path);
  if (replaced) await requireRegular(path);
  if (replaced && !force) {
    const message = `Cannot write ${path}: it exists, expected a new file, or --force`;
    throw new AgentError("already_exists", message);
  }
  await write(path, () => replaceFile(path, text, CONFIG_MODE));
  return replaced;
}

const SET: Command = {
  summary: "change one setting in the file; comments stay",
  operands: "SETTING VALUE...",
  operandsMax: VALUES_MAX + 1,
  examples: [
    ["config set slots 8", "checked first; says whether a reload or a restart puts it in force"],
    ["config set limits.retry_max 20", "a limit; policy.NAME is one of the policy"],
    ["config set media_dir /zones/iso /zones/more", "a list"],
  ],
  flags: [FILE_FLAG],
  notes: [
    "The whole configuration is checked before anything is written. Flags of the agent and variables still\n" +
    "override the file; config show --origin shows which one applies.",
  ],
  shared: "output",
  async run(call) {
    const { args, terminal } = call;
    const path = await Deno.realPath(pathOf(call, args.text("config"))).catch(() =>
      pathOf(call, args.text("config"))
    );
    const change = await aloneIn(dirname(path), () => writeSetting(call, path), call.printer);
    report(call, change);
    const variable = variableOf(change.row.key);
    if (!call.printer.json && terminal.env[variable] !== undefined) {
      call.printer.note(`${variable} overrides the file here`);
    }
  },
  hint(error) {
    if (error.code === "not_found") return "zonewright config init  writes the file";
    return error.errors.some(({ field }) => field === SETTING_FIELD)
      ? "zonewright config show  lists the settings"
      : undefined;
  },
};

/** A setting that was changed in a file. */
interface SettingChange {
  readonly path: string;
  readonly row: SettingRow;
  /** Its value in the file before; undefined when it could not be read. */
  readonly before: string | undefined;
  readonly after: ConfigLine;
}

async function writeSetting(
  { args, terminal }: Invocation,
  path: string,
): Promise<SettingChange> {
  const [name = "", ...raws] = args.operands;
  const row = rowNamed(name);
  // Checked first: reading a pipe may never end.
  if (await exists(path)) await requireRegular(path);
  const text = await readText(path);
  if (row.kind.repeatable !== true && raws.length > 1) {
    throw cannot(`set ${nameOf(row)} to ${raws.length} values, expected one`);
  }
  let value: string;
  try {
    value = tomlValue(row, raws, terminal.cwd);
  } catch (error) {
    throw cannot(`set ${nameOf(row)}: ${messageOf(error)}`);
  }
  const changed = withSetting({ path, text }, row, value);
  // A variable that overrides the value must not hide that it is wrong.
  const { [variableOf(row.key)]: _, ...others } = terminal.env;
  const read = (source: string) => {
    const file = { path, text: source };
    const sources = { flags: {}, env: others, cwd: dirname(path), os: Deno.build.os };
    return lineOf(configLines(readConfig({ ...sources, file })), row);
  };
  const after = read(changed);
  const before = valueBefore(() => read(text), row);
  const { mode, uid, gid } = await Deno.stat(path);
  await write(
    path,
    () => replaceFile(path, changed, (mode ?? CONFIG_MODE) & 0o7777, { uid, gid }),
  );
  return { path, row, before, after };
}

/** The value in the file before; undefined when it could not be read. */
function valueBefore(read: () => ConfigLine, row: SettingRow): string | undefined {
  try {
    return valueText(row, read().setting.value);
  } catch (error) {
    // The change replaces the wrong value.
    if (error instanceof AgentError) return undefined;
    throw error;
  }
}

function report(
  { printer }: Invocation,
  { path, row, before, after }: SettingChange,
): void {
  const reload = RELOADED_SETTINGS.some((name) => name === (row.table ?? row.key));
  const value = valueText(row, after.setting.value);
  const name = nameOf(row);
  if (printer.json) {
    const in_force_after = reload ? "reload" : "restart";
    printer.document({ file: path, setting: name, value, before: before ?? null, in_force_after });
    return;
  }
  printer.data(`${path}: ${name} = ${value}${before === undefined ? "" : ` (was ${before})`}`);
  const illumos = Deno.build.os !== "linux";
  const service = SERVICE_NAME[illumos ? "smf" : "systemd"];
  const program = illumos ? "svcadm" : "systemctl";
  const verb = reload ? (illumos ? "refresh" : "reload") : "restart";
  printer.data(
    `a ${reload ? "reload" : "restart"} puts it in force: ${program} ${verb} ${service}`,
  );
}

/** The field that an error names when there is no such setting. */
const SETTING_FIELD = "setting";

function rowNamed(name: string): SettingRow {
  const word = name.replaceAll("-", "_");
  const row = SETTING_ROWS.find((one) => nameOf(one) === word) ??
    SETTING_ROWS.find(({ key }) => key === word);
  if (row !== undefined) return row;
  const near = nearest(word, SETTING_ROWS.map(nameOf));
  const why = near || ": no setting has that name";
  throw invalidArgument(SETTING_FIELD, `Cannot find the setting ${JSON.stringify(name)}${why}`);
}

function lineOf(lines: readonly ConfigLine[], row: SettingRow): ConfigLine {
  // There is a line for every row.
  return lines.find((line) => line.row === row) as ConfigLine;
}

/** Never replaces a device, a pipe or a folder by a file. @throws {AgentError} `conflict` */
async function requireRegular(path: string): Promise<void> {
  if ((await Deno.lstat(path)).isFile) return;
  const message = `Cannot write ${path}: it is not a regular file, expected a configuration file`;
  throw new AgentError("conflict", message);
}

function pathOf({ terminal }: Invocation, named: string | undefined): string {
  const { cwd, env } = terminal;
  return resolve(cwd, named ?? env.ZONEWRIGHT_CONFIG ?? defaultConfigPath(Deno.build.os));
}

async function readText(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    const missing = error instanceof Deno.errors.NotFound;
    const why = missing ? "it does not exist" : systemReason(error);
    const denied = error instanceof Deno.errors.PermissionDenied;
    const who = denied ? ` that user ${Deno.uid()} may read and write` : "";
    const message = `Cannot change ${path}: ${why}, expected a configuration file${who}`;
    throw new AgentError(systemCode(error) ?? "conflict", message, { cause: error });
  }
}

/** Adds the name of the file to an error of the system. */
async function write(path: string, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const code = systemCode(error) ?? "conflict";
    const who = code === "forbidden" ? `, expected a file that user ${Deno.uid()} may write` : "";
    const message = `Cannot write ${path}: ${systemReason(error)}${who}`;
    throw new AgentError(code, message, { cause: error });
  }
}

/** `zonewright config`: all verbs but `show --running` read and write files, without an agent. */
export const CONFIG: Noun = {
  kind: "verbs",
  summary: "show, check, write and change the settings of the agent",
  verbs: { show: SHOW, check: CHECK, init: INIT, set: SET },
};
