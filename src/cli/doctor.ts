// `zonewright doctor`: looks at everything that an agent of this host needs, and names cause and fix.
// It works on this machine, with the agent's own configuration, whether the agent runs or not.

import { resolve } from "@std/path";
import { defaultConfigPath } from "../config/settings.ts";
import { loadConfig } from "../config/sources.ts";
import {
  diagnose,
  type Diagnosis,
  type HealthCheck,
  type Outcome,
} from "../service/doctor/check.ts";
import { nearest } from "../domain/field_check.ts";
import { cannot } from "./command/arguments.ts";
import { EXIT, type ExitCode, type Invocation, type Noun } from "./command/command.ts";
import { configFlags, configSources } from "./config.ts";
import type { Paint } from "./output/terminal.ts";

const MARKS: Readonly<Record<Outcome, string>> = {
  ok: "ok",
  warn: "warn",
  fail: "FAIL",
  skipped: "-",
};

/** Of the names of parts, such as "no new privileges". */
const PART_WIDTH = 17;

/** `zonewright doctor`. */
export const DOCTOR: Noun = {
  kind: "command",
  command: {
    summary: "check everything that the agent needs; name cause and fix",
    operands: "",
    operandsMin: 0,
    operandsMax: 0,
    examples: [
      ["doctor", "exits 1 when something is broken"],
      ["doctor --fix", "also repairs what is safe to repair"],
      ["doctor --run guests --json", "one check, for a script"],
    ],
    flags: [
      { name: "list", help: "list the checks without running them" },
      { name: "run", placeholder: "NAME", help: "only this check (repeatable)", many: true },
      { name: "fix", help: "repair rights of the agent's own folders and files" },
      ...configFlags(),
    ],
    notes: ["It reads the state folder and calls vmadm, so run it as the agent's user."],
    shared: "output",
    run: examine,
  },
};

async function examine(call: Invocation): Promise<ExitCode> {
  const { args, printer, terminal } = call;
  const sources = configSources(call);
  const config = await loadConfig(sources);
  const named = args.text("config") ?? terminal.env.ZONEWRIGHT_CONFIG;
  const path = resolve(terminal.cwd, named ?? defaultConfigPath(Deno.build.os));
  const { openExamination } = await import("../service/doctor/examination.ts");
  const examination = openExamination(config, { path, named: named !== undefined });
  try {
    const checks = chosen(examination.checks, args.texts("run"));
    if (args.has("list")) {
      if (printer.json) printer.document(checks.map(({ name, about }) => ({ name, about })));
      else printer.pairs(checks.map(({ name, about }) => [name, about]));
      return EXIT.ok;
    }
    const width = Math.max(...checks.map(({ name }) => name.length));
    const diagnoses = await diagnose(checks, {
      repair: args.has("fix"),
      onDiagnosis: (one) => {
        if (printer.json) return;
        printer.data(line(one, width, printer.paint));
        for (const part of one.parts ?? []) {
          const mark = part.ok ? "  " : printer.paint("yellow", "- ");
          printer.data(
            `${" ".repeat(width + 7)}${mark}${part.name.padEnd(PART_WIDTH)} ${part.detail}`,
          );
        }
        if (one.fix !== undefined) printer.data(`${" ".repeat(width + 7)}fix: ${one.fix}`);
      },
    });
    if (printer.json) printer.document(diagnoses);
    return diagnoses.some(({ outcome }) => outcome === "fail") ? EXIT.failure : EXIT.ok;
  } finally {
    await examination.close();
  }
}

/** @throws {AgentError} `invalid_argument` for a check that there is none of */
function chosen(checks: readonly HealthCheck[], names: readonly string[]): readonly HealthCheck[] {
  const known = checks.map(({ name }) => name);
  for (const name of names) {
    if (known.includes(name)) continue;
    throw cannot(
      `run check ${JSON.stringify(name)}: expected one of ${known.join(", ")}${
        nearest(name, known)
      }`,
    );
  }
  return names.length === 0 ? checks : checks.filter(({ name }) => names.includes(name));
}

function line(
  { name, outcome, detail, repaired }: Diagnosis,
  width: number,
  paint: Paint,
): string {
  const mark = MARKS[outcome].padEnd(5);
  const painted = outcome === "fail"
    ? paint("red", mark)
    : outcome === "warn"
    ? paint("yellow", mark)
    : mark;
  const done = repaired ? " (repaired)" : "";
  return `${painted} ${name.padEnd(width)} ${detail}${done}`;
}
