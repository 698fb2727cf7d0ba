// `zonewright job run`: a job of a workflow, by its name or its uuid.

import { durationSeconds } from "../domain/duration.ts";
import { instantAfter, parseInstant } from "../domain/instant.ts";
import type { JsonValue } from "../domain/json.ts";
import { usageError } from "./arguments.ts";
import type { Command } from "./command.ts";
import { EXIT } from "./exit_code.ts";
import { follow, FOLLOW_FLAGS, followedExit, stays, timeoutMsOf, viewFor } from "./follow.ts";
import { readJob } from "./job_answer.ts";
import { parseJsonText } from "./json_text.ts";
import { workflowUuid } from "./workflow_name.ts";

/** `zonewright job run`. */
export const RUN: Command = {
  summary: "create a job of a workflow",
  operands: "WORKFLOW",
  operandsMin: 1,
  operandsMax: 1,
  examples: [
    ["job run hello -p name=world --follow", "by name, with a parameter, and watch it"],
    ["job run resize -p disks:='[{\"size\":10240}]' --wait --timeout 10m", "a JSON parameter"],
    ["job run backup --at 2026-12-01T03:00:00Z --target /host", "later, and only one at a time"],
  ],
  flags: [
    {
      name: "param",
      short: "p",
      placeholder: "K=V",
      many: true,
      help: "a parameter as text, or as JSON with K:=JSON (repeatable)",
    },
    { name: "target", placeholder: "TEXT", help: "refuse a second unfinished job of equal params" },
    { name: "at", placeholder: "TIME", help: "not before this ISO 8601 time, or +10m from now" },
    ...FOLLOW_FLAGS,
  ],
  shared: "agent",
  async run(call) {
    const { args, client, printer, terminal } = call;
    timeoutMsOf(call);
    const target = args.text("target");
    const at = args.text("at");
    const params = Object.fromEntries(args.texts("param").map(parameter));
    const workflow = await workflowUuid(client, args.operands[0] ?? "");
    const body = {
      ...params,
      workflow,
      ...(target === undefined ? {} : { target }),
      ...(at === undefined ? {} : { exec_after: instantOf(at, terminal.nowMs()) }),
    };
    const sent = await client.send({ method: "POST", path: "/jobs", body });
    if (sent.kind === "printed") return EXIT.ok;
    const job = readJob(sent.body);
    if (!stays(call)) {
      if (printer.json) printer.document(job.raw);
      else printer.data(job.uuid);
      printer.next(`job tail ${job.uuid}`, "watch it");
      return EXIT.ok;
    }
    const followed = await follow(call, job.uuid, viewFor(call));
    if (followed.kind === "ended" && printer.json) printer.document(followed.job.raw);
    else if (!printer.json) printer.data(job.uuid);
    return followedExit(call, job.uuid, followed);
  },
};

const RESERVED = ["workflow", "target", "exec_after"];

/** `k=v` is a text, `k:=v` is JSON. */
function parameter(text: string): [string, JsonValue] {
  const match = /^([^=:]+)(:?=)(.*)$/s.exec(text);
  const [, name = "", sign, value = ""] = match ?? [];
  if (match === null) {
    throw usageError(`--param ${JSON.stringify(text)} is neither K=V nor K:=JSON`);
  }
  if (RESERVED.includes(name)) {
    const instead = name === "exec_after" ? "use --at" : name === "target" ? "use --target" : "";
    const why = instead === "" ? "it is the operand" : instead;
    throw usageError(`--param ${name} is no parameter of a job: ${why}`);
  }
  return [name, sign === ":=" ? parseJsonText(value, `--param ${name}`) : value];
}

/** A time of the calendar, or one from now such as `+10m`. */
function instantOf(text: string, nowMs: number): string {
  if (!text.startsWith("+")) return parseInstant(text, "--at");
  const seconds = durationSeconds(text.slice(1));
  if (seconds === undefined) {
    throw usageError(`--at ${JSON.stringify(text)} is not a time such as +90s, +10m or +2h`);
  }
  return instantAfter(new Date(nowMs).toISOString(), seconds * 1000);
}
