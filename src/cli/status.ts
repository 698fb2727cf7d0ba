// `zonewright status`: whether the agent runs, what it is doing and what needs attention, on one screen.

import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { addressText } from "./client/api_call.ts";
import { numberIn, objectsAt, readObject, textIn } from "./client/answer.ts";
import type { Invocation, Noun } from "./command/command.ts";
import { ageText, sizeOrDash } from "./output/table.ts";

const PATH = "/agent/v1/host";

/** Exits with 3 when there is no agent, so that scripts can check for it. */
export const STATUS: Noun = {
  kind: "command",
  command: {
    summary: "show whether the agent runs, what it does and what needs attention",
    examples: [
      ["status", "for people; warnings come first"],
      ['status --json || echo "exit $?"', "3 when there is no agent"],
    ],
    flags: [],
    shared: "agent",
    async run(call) {
      const sent = await call.client.send({ method: "GET", path: PATH });
      const host = readObject(sent.body, PATH);
      if (call.printer.json) call.printer.document(host);
      else show(call, host);
    },
  },
};

function show({ client, printer, terminal }: Invocation, host: JsonObject): void {
  for (const warning of objectsAt(host, "warnings")) {
    const hint = textIn(warning, "hint") ?? "";
    const mark = { text: "warning:", style: "yellow" } as const;
    printer.marked(mark, ` ${textIn(warning, "message") ?? "-"}`);
    printer.data(`         ${hint}`);
  }
  const slots = within(host, "slots");
  // Not known while a database is away that the agent has not read before.
  const jobs = isJsonObject(host.jobs) ? host.jobs : undefined;
  const index = within(host, "index");
  const cache = within(host, "cache");
  const disk = readIn(host, "disk");
  const unfinished = ["queued", "running", "waiting"]
    .map((name) => `${numberIn(jobs ?? {}, name) ?? 0} ${name}`).join(", ");
  const machines = readIn(host, "machines");
  const age = ageText(textIn(index, "compared_at"), terminal.nowMs());
  const max = numberIn(cache, "max_bytes");
  printer.pairs([
    [
      "agent",
      `${addressText(client.address)}, version ${textIn(host, "version") ?? "-"}, ` +
      `pid ${numberIn(host, "pid") ?? "-"}`,
    ],
    ["host", `${textIn(host, "name") ?? "-"} (${textIn(host, "mode") ?? "-"})`],
    ["slots", `${numberIn(slots, "busy") ?? 0} of ${numberIn(slots, "total") ?? 0} in use`],
    ["jobs", jobs === undefined ? "unknown" : unfinished],
    ["failed in 24 h", jobs === undefined ? "unknown" : String(numberIn(jobs, "failed_24h") ?? 0)],
    ["machines", machines === undefined ? "unknown" : String(numberIn(machines, "total") ?? 0)],
    ["index", textIn(index, "upstream") ?? "no upstream"],
    ["index age", age],
    [
      "cache",
      sizeOrDash(numberIn(cache, "bytes")) + (max === undefined ? "" : ` of ${sizeOrDash(max)}`),
    ],
    [
      "disk",
      disk === undefined
        ? "unknown"
        : `${sizeOrDash(numberIn(disk, "free_bytes"))} free below ${textIn(disk, "folder") ?? "-"}`,
    ],
    ["leftovers", String(numberIn(host, "leftovers") ?? "unknown")],
  ]);
}

/** A member that is an object; an empty object if there is none. */
function within(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}

/** A reading of the host; undefined if it failed. */
function readIn(host: JsonObject, name: string): JsonObject | undefined {
  const { value } = within(host, name);
  return isJsonObject(value) ? value : undefined;
}
