// `zonewright machine vnc`: where the console of a machine is.

import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { numberIn, readObject, textIn } from "../kit/answer.ts";
import type { Command } from "../kit/command.ts";
import { EXIT } from "../kit/exit_code.ts";
import { printable } from "../kit/terminal.ts";

/** A VNC address as the agent tells it. */
export interface Vnc {
  readonly host: string;
  readonly port: number;
  readonly display: number | undefined;
}

/** The VNC address of a machine, or undefined while it has none. */
export function vncOf(machine: JsonObject): Vnc | undefined {
  const { vnc } = machine;
  if (!isJsonObject(vnc)) return undefined;
  const host = textIn(vnc, "host");
  const port = numberIn(vnc, "port");
  if (host === undefined || port === undefined) return undefined;
  return { host, port, display: numberIn(vnc, "display") };
}

/** `10.99.99.7:45465`, as VNC viewers take it. */
function vncAddress({ host, port }: Vnc): string {
  return printable(host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`);
}

/** The address, and the display when it is known. */
export function vncText(vnc: Vnc): string {
  const display = vnc.display === undefined ? "" : ` (display ${vnc.display})`;
  return vncAddress(vnc) + display;
}

/** `/agent/v1/machines/` and a uuid that somebody typed. */
export function machinePath(uuid: string): string {
  return `/agent/v1/machines/${encodeURIComponent(uuid)}`;
}

/** `zonewright machine vnc`. */
export const VNC: Command = {
  summary: "print the VNC address of a running machine, or its password",
  operands: "MACHINE",
  operandsMin: 1,
  operandsMax: 1,
  examples: [
    ['machine vnc "$UUID"', "HOST:PORT and nothing else, for vncviewer"],
    ['machine vnc "$UUID" --password', "what the viewer asks for, and nothing else"],
  ],
  flags: [{ name: "password", help: "the password of the console instead of its address" }],
  shared: "agent",
  async run({ args, client, printer }) {
    const [uuid = ""] = args.operands;
    const sent = await client.send({ method: "GET", path: `${machinePath(uuid)}/vnc` });
    if (sent.kind === "printed") return EXIT.ok;
    const info = readObject(sent.body, "the console");
    const vnc = vncOf(info);
    if (vnc === undefined) {
      throw new AgentError(
        "conflict",
        `Cannot tell the VNC address of machine ${uuid}: its console does not listen yet`,
      );
    }
    if (args.has("password")) {
      const password = textIn(readObject(info.vnc, "the console"), "password");
      if (password === undefined) {
        throw new AgentError(
          "conflict",
          `Cannot tell the password of machine ${uuid}: its console has none`,
        );
      }
      if (printer.json) printer.document({ password });
      else printer.data(password);
    } else if (printer.json) printer.document(info.vnc);
    else printer.data(vncAddress(vnc));
    return EXIT.ok;
  },
};
