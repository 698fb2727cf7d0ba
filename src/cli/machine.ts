// `zonewright machine`: the machines of the host.

import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { numberIn, readObject, readObjects, textIn } from "./answer.ts";
import type { Command, Noun } from "./command.ts";
import { EXIT } from "./exit_code.ts";
import { CREATE } from "./machine_create.ts";
import { machinePath, VNC, vncOf, vncText } from "./machine_vnc.ts";
import { printable } from "./terminal.ts";

const LIST: Command = {
  summary: "list the machines of the host",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [["machine list", "with their brand and state"]],
  flags: [],
  shared: "agent",
  async run({ client, printer }) {
    const sent = await client.send({ method: "GET", path: "/agent/v1/machines" });
    if (sent.kind === "printed") return EXIT.ok;
    const machines = readObjects(sent.body, "the machines");
    if (printer.json) printer.document(machines);
    else {
      printer.table(
        [
          { head: "UUID" },
          { head: "ALIAS", flexible: true },
          { head: "BRAND" },
          { head: "STATE" },
          { head: "RAM MIB", right: true },
          { head: "JOB" },
        ],
        machines.map((machine) => [
          textIn(machine, "uuid") ?? "",
          textIn(machine, "alias") ?? "-",
          textIn(machine, "brand") ?? "-",
          textIn(machine, "state") ?? "-",
          String(numberIn(machine, "ram") ?? "-"),
          textIn(machine, "job_execution") ?? "-",
        ]),
      );
    }
    return EXIT.ok;
  },
};

const GET: Command = {
  summary: "show one machine with its console and its job",
  operands: "MACHINE",
  operandsMin: 1,
  operandsMax: 1,
  examples: [['machine get "$UUID"', "state, VNC address, medium, job"]],
  flags: [],
  shared: "agent",
  async run({ args, client, printer }) {
    const sent = await client.send({ method: "GET", path: machinePath(args.operands[0] ?? "") });
    if (sent.kind === "printed") return EXIT.ok;
    const machine = readObject(sent.body, "the machine");
    if (printer.json) {
      printer.document(machine);
      return EXIT.ok;
    }
    const vnc = vncOf(machine);
    const word = (key: string): [string, string] => [key, printable(textIn(machine, key) ?? "-")];
    printer.pairs([
      ["machine", textIn(machine, "uuid") ?? "-"],
      word("alias"),
      word("brand"),
      word("state"),
      ["vnc", vnc === undefined ? "-" : vncText(vnc)],
      ["media", mediaText(machine)],
      ["job", [textIn(machine, "job_uuid") ?? "-", textIn(machine, "job_execution")].join(" ")],
    ]);
    return EXIT.ok;
  },
};

function mediaText({ media }: JsonObject): string {
  if (!isJsonObject(media)) return "-";
  return printable(textIn(media, "path") ?? textIn(media, "url") ?? JSON.stringify(media));
}

/** @see document 3 */
export const MACHINE: Noun = {
  kind: "verbs",
  summary: "create machines that boot from installation media",
  verbs: { create: CREATE, list: LIST, get: GET, vnc: VNC },
};
