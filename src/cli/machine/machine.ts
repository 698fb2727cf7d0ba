// `zonewright machine`: the machines of the host.

import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { BRANDS } from "../../domain/policy.ts";
import { numberIn, readObject, readObjects, textIn } from "../kit/answer.ts";
import type { Flag } from "../kit/arguments.ts";
import type { Command, Noun } from "../kit/command.ts";
import { EXIT } from "../kit/exit_code.ts";
import { BOOT, DELETE, EJECT, REBOOT, STOP } from "./machine_action.ts";
import { CONSOLE } from "./console.ts";
import { CREATE } from "./create.ts";
import { LEFTOVERS } from "./machine_leftovers.ts";
import { machinePath, VNC, vncOf, vncText } from "./machine_vnc.ts";
import { printable } from "../kit/terminal.ts";

/** Flags of `machine list` that are keys of the query, under the same names. */
const FILTERS: readonly Flag[] = [
  {
    name: "state",
    placeholder: "STATE",
    help: "running, stopped and such; absent is not made yet",
  },
  { name: "brand", placeholder: "BRAND", words: BRANDS, help: "kvm or bhyve" },
  { name: "alias", placeholder: "NAME", help: "with this name" },
  { name: "limit", placeholder: "N", help: "at most so many" },
  { name: "offset", placeholder: "N", help: "without the first so many" },
];

const LIST: Command = {
  summary: "list the machines of the host",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["machine list", "with their brand and state"],
    ["machine list --state running --json", "those that run, for another program"],
  ],
  flags: FILTERS,
  shared: "agent",
  async run({ args, client, printer }) {
    const query = new URLSearchParams(
      FILTERS.flatMap(({ name }) => {
        const value = args.text(name);
        return value === undefined ? [] : [[name, value]];
      }),
    );
    const path = `/agent/v1/machines${query.size === 0 ? "" : `?${query}`}`;
    const sent = await client.send({ method: "GET", path });
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
      ["console", textIn(machine, "console") ?? "-"],
      ["media", mediaText(machine)],
      ["medium", printable(textIn(machine, "medium") ?? "-")],
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
  summary: "create machines that boot from installation media, and run them",
  verbs: {
    create: CREATE,
    list: LIST,
    get: GET,
    vnc: VNC,
    console: CONSOLE,
    boot: BOOT,
    stop: STOP,
    reboot: REBOOT,
    eject: EJECT,
    delete: DELETE,
    leftovers: LEFTOVERS,
  },
};
