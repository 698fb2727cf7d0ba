// `zonewright status`: whether the agent is there and what it has to do, on one screen.

import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { addressText, numberIn, readObject, textIn } from "./client/api_call.ts";
import { EXIT, type Invocation, type Noun } from "./command/command.ts";
import { indexPairs } from "./image_sync.ts";
import { printable } from "./output/terminal.ts";

const PATHS = { ping: "/ping", stats: "/stats", index: "/agent/v1/index" } as const;

/** Answers 3 when there is no agent, so that scripts can ask. */
export const STATUS: Noun = {
  kind: "command",
  command: {
    summary: "show whether the agent runs and what it does",
    operands: "",
    operandsMin: 0,
    operandsMax: 0,
    examples: [
      ["status", "for people"],
      ['status --json || echo "exit $?"', "3 when there is no agent"],
    ],
    flags: [],
    shared: "agent",
    async run(call) {
      const answers: Record<string, JsonObject> = {};
      for (const [name, path] of Object.entries(PATHS)) {
        const sent = await call.client.send({ method: "GET", path });
        if (sent.kind === "answered") answers[name] = readObject(sent.body, path);
      }
      if (call.args.has("curl")) return EXIT.ok;
      if (call.printer.json) call.printer.document(answers);
      else show(call, answers);
      return EXIT.ok;
    },
  },
};

function show(
  { client, printer, terminal }: Invocation,
  answers: Record<string, JsonObject>,
): void {
  const ping = answers.ping ?? {};
  const jobs = total(answers.stats ?? {});
  const words = ["queued", "running", "waiting", "failed"].map((name) =>
    `${jobs[name] ?? 0} ${name}`
  );
  printer.pairs([
    ["agent", `${addressText(client.address)}, pid ${numberIn(ping, "pid") ?? "-"}`],
    ["store", printable(textIn(ping, "backend") ?? "-")],
    ["jobs", words.join(", ")],
    ...indexPairs(answers.index ?? {}, terminal.nowMs()),
  ]);
}

/** The windows of the stats are disjoint, so their sum counts each job once. */
function total(stats: JsonObject): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const counters of Object.values(stats)) {
    if (!isJsonObject(counters)) continue;
    for (const name of Object.keys(counters)) {
      sums[name] = (sums[name] ?? 0) + (numberIn(counters, name) ?? 0);
    }
  }
  return sums;
}
