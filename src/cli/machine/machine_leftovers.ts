// `zonewright machine leftovers`: what failed jobs have left on the host.

import { numberIn, readObjects, textIn } from "../kit/answer.ts";
import type { Command } from "../kit/command.ts";
import { EXIT } from "../kit/exit_code.ts";

export const LEFTOVERS: Command = {
  summary: "list what failed jobs have left, which the agent goes on to remove",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["machine leftovers", "usually nothing"],
    ["machine leftovers --json", "with what the latest attempt failed with"],
  ],
  flags: [],
  shared: "agent",
  async run({ client, printer }) {
    const sent = await client.send({ method: "GET", path: "/agent/v1/leftovers" });
    if (sent.kind === "printed") return EXIT.ok;
    const left = readObjects(sent.body, "what is left");
    if (printer.json) {
      printer.document(left);
      return EXIT.ok;
    }
    printer.table(
      [
        { head: "MACHINE" },
        { head: "JOB" },
        { head: "TRIES", right: true },
        { head: "NEXT TRY" },
        { head: "ERROR", flexible: true },
      ],
      left.map((leftover) => [
        textIn(leftover, "uuid") ?? "",
        textIn(leftover, "job_uuid") ?? "",
        String(numberIn(leftover, "tries") ?? 0),
        textIn(leftover, "next_try_at") ?? "-",
        textIn(leftover, "error") ?? "-",
      ]),
    );
    return EXIT.ok;
  },
};
