// `zonewright doctor`: checks everything that an agent on this host needs, and names cause and fix. It works
// on this machine, with the agent's own configuration, whether or not the agent runs; or it asks the running
// agent for the findings of its own doctor.

import { resolve } from "@std/path";
import { type Config, defaultConfigPath } from "../config/settings.ts";
import { loadConfig } from "../config/sources.ts";
import { diagnose, type Diagnosis, type Outcome } from "../service/doctor/check.ts";
import { nearest } from "../domain/near_word.ts";
import { cannot } from "./command/arguments.ts";
import { objectsAt, readObject, textIn } from "./client/answer.ts";
import {
  asksRunning,
  type CommandEnd,
  EXIT,
  type ExitCode,
  type Invocation,
  type Noun,
  RUNNING_NOTE,
} from "./command/command.ts";
import { configFlags, configSources } from "./config/settings.ts";
import type { Printer } from "./output/printer.ts";
import type { JsonObject } from "../domain/json.ts";

/** Outcomes that are printed in other words. */
const MARKS: ReadonlyMap<string, string> = new Map<Outcome, string>([
  ["fail", "FAIL"],
  ["skipped", "-"],
]);

/** Width of the names of parts, such as "no new privileges". */
const PART_WIDTH = 17;

/** `zonewright doctor`: examines this machine without an agent. Exits 1 when a check fails. */
export const DOCTOR: Noun = {
  kind: "command",
  command: {
    summary: "check everything that the agent needs; name cause and fix",
    examples: [
      ["doctor", "exits 1 when something is broken"],
      ["doctor --fix", "also repairs what is safe to repair"],
      ["doctor --run guests --json", "one check, for a script"],
      ["doctor --smartos-trial report.txt", "ten commands on a SmartOS host, for a report to send"],
      ["doctor --url localhost:8780", "what the running agent's own doctor finds"],
    ],
    flags: [
      { name: "list", help: "list the checks without running them" },
      { name: "run", placeholder: "NAME", help: "only this check (repeatable)", many: true },
      { name: "fix", help: "repair permissions of the agent's own folders and files" },
      {
        name: "smartos-trial",
        placeholder: "FILE",
        help: "try the program on this SmartOS host, and write a report here",
      },
      ...configFlags(),
    ],
    notes: [
      "It reads the state folder and calls vmadm, so run it as the agent's user.",
      RUNNING_NOTE,
    ],
    shared: "either",
    run: examine,
  },
};

/** Milliseconds for the answer of a running agent: more than the 180 s that it gives its own doctor. */
const RUNNING_DEADLINE_MS = 200_000;

/** The printed part of a finding; the agent may be of a later version. */
interface ShownFinding extends Pick<Diagnosis, "name" | "detail" | "parts"> {
  readonly outcome: string;
  readonly repaired: boolean;
  readonly fix?: string | undefined;
}

async function examine(call: Invocation): Promise<CommandEnd> {
  if (asksRunning(call, ["run"])) return await examineRunning(call);
  const { args, printer, terminal } = call;
  const sources = configSources(call);
  const config = await loadConfig(sources);
  const report = args.text("smartos-trial");
  if (report !== undefined) return await tryOnSmartos(call, report, config);
  const named = args.text("config") ?? terminal.env.ZONEWRIGHT_CONFIG;
  const path = resolve(terminal.cwd, named ?? defaultConfigPath(Deno.build.os));
  const { openExamination } = await import("../service/doctor/examination.ts");
  const examination = openExamination(config, { path, named: named !== undefined });
  try {
    const checks = chosenOf(examination.checks, args.texts("run"));
    if (args.has("list")) {
      return printer.json
        ? printer.document(checks.map(({ name, about }) => ({ name, about })))
        : printer.pairs(checks.map(({ name, about }) => [name, about]));
    }
    const width = Math.max(...checks.map(({ name }) => name.length));
    const diagnoses = await diagnose(checks, {
      repair: args.has("fix"),
      onDiagnosis: (one) => {
        if (!printer.json) showFinding(printer, one, width);
      },
    });
    if (printer.json) printer.document(diagnoses);
    return diagnoses.some(({ outcome }) => outcome === "fail") ? EXIT.failure : EXIT.ok;
  } finally {
    await examination.close();
  }
}

/** Runs the ten commands. Their report shows what the host says about itself, and no secrets. */
async function tryOnSmartos(
  { printer, terminal }: Invocation,
  file: string,
  config: Config,
): Promise<ExitCode> {
  const { reportOnSmartos } = await import("../service/smartos_report.ts");
  const { text, failed } = await reportOnSmartos({
    vmadm: config.vmadm.value,
    progress: (line) => printer.note(line),
  });
  const path = resolve(terminal.cwd, file);
  await Deno.writeTextFile(path, text, { mode: 0o600 });
  printer.data(path);
  return failed === 0 ? EXIT.ok : EXIT.failure;
}

/** Shows the findings of the running agent's doctor, which the agent keeps for some seconds. */
async function examineRunning(call: Invocation): Promise<ExitCode> {
  const { args, client, printer } = call;
  const path = "/agent/v1/doctor";
  const sent = await client.send({ method: "GET", path, deadlineMs: RUNNING_DEADLINE_MS });
  const answer = readObject(sent.body, "the findings");
  const checks = objectsAt(answer, "checks").map((raw) => ({
    name: textIn(raw, "name") ?? "",
    raw,
  }));
  const chosen = chosenOf(checks, args.texts("run"));
  if (printer.json) printer.document(chosen.map(({ raw }) => raw));
  else {
    const width = Math.max(0, ...chosen.map(({ name }) => name.length));
    for (const { raw } of chosen) showFinding(printer, findingOf(raw), width);
    const at = textIn(answer, "examined_at");
    if (at !== undefined) printer.note(`examined at ${at} by the running agent`);
  }
  return chosen.some(({ raw }) => raw.outcome === "fail") ? EXIT.failure : EXIT.ok;
}

function findingOf(raw: JsonObject): ShownFinding {
  const text = (object: JsonObject, key: string) => textIn(object, key) ?? "-";
  return {
    name: text(raw, "name"),
    outcome: text(raw, "outcome"),
    detail: text(raw, "detail"),
    repaired: raw.repaired === true,
    fix: raw.fix === undefined ? undefined : text(raw, "fix"),
    parts: objectsAt(raw, "parts").map((part) => ({
      name: text(part, "name"),
      ok: part.ok === true,
      detail: text(part, "detail"),
    })),
  };
}

/** @throws {AgentError} `invalid_argument` for an unknown check */
function chosenOf<T extends { readonly name: string }>(
  checks: readonly T[],
  names: readonly string[],
): readonly T[] {
  const known = checks.map(({ name }) => name);
  for (const name of names) {
    if (known.includes(name)) continue;
    throw cannot(
      `run check ${JSON.stringify(name)}, expected one of ${known.join(", ")}${
        nearest(name, known)
      }`,
    );
  }
  return names.length === 0 ? checks : checks.filter(({ name }) => names.includes(name));
}

function showFinding(printer: Printer, one: ShownFinding, width: number): void {
  const { name, outcome, detail, repaired } = one;
  const indent = " ".repeat(width + 7);
  const style = outcome === "fail" ? "red" : outcome === "warn" ? "yellow" : undefined;
  const done = repaired ? " (repaired)" : "";
  const text = (MARKS.get(outcome) ?? outcome).padEnd(5);
  printer.marked({ text, style }, ` ${name.padEnd(width)} ${detail}${done}`);
  for (const part of one.parts ?? []) {
    const mark = part.ok
      ? { text: `${indent}  `, style: undefined }
      : { text: `${indent}- `, style: "yellow" } as const;
    printer.marked(mark, `${part.name.padEnd(PART_WIDTH)} ${part.detail}`);
  }
  if (one.fix !== undefined) printer.data(`${indent}fix: ${one.fix}`);
}
