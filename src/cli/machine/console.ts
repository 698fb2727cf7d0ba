// `zonewright machine console`: where the console of a machine is as a WebSocket, with a ticket for a
// browser where that is asked for, or, with --listen, a local port that any VNC viewer may connect to.
// Each connection there is a WebSocket to the agent.

import { AgentError } from "../../domain/error.ts";
import { isLoopback } from "../../domain/ip_address.ts";
import { readObject, textIn } from "../kit/answer.ts";
import { usageError } from "../kit/arguments.ts";
import type { Call, Command } from "../kit/command.ts";
import { openRelay } from "./console_relay.ts";
import { EXIT } from "../kit/exit_code.ts";
import { machinePath } from "./machine_vnc.ts";
import { printable } from "../kit/terminal.ts";

const PORT_MAX = 65_535;

/** `zonewright machine console`. */
export const CONSOLE: Command = {
  summary: "print the WebSocket of a console, or let VNC viewers reach it",
  operands: "MACHINE",
  operandsMin: 1,
  operandsMax: 1,
  examples: [
    ['machine console "$UUID" --listen 127.0.0.1:5901', "then: vncviewer 127.0.0.1:5901"],
    ['machine console "$UUID"', "ws://..., for clients that speak WebSocket"],
    ['machine console "$UUID" --ticket', "the same for a browser: opens it once, within seconds"],
  ],
  flags: [{
    name: "listen",
    placeholder: "HOST:PORT",
    help: "take connections there until Ctrl-C; loopback only, port 0 for any",
  }, {
    name: "ticket",
    help: "print an address that opens the console once without a token",
  }],
  notes: ["The password that a viewer asks for: zonewright machine vnc MACHINE --password"],
  shared: "agent",
  async run(call) {
    const listen = listenOf(call);
    const path = `${machinePath(call.args.operands[0] ?? "")}/console`;
    if (call.args.has("ticket")) return await printTicket(call, path);
    const sent = await call.client.send({ method: "GET", path });
    if (sent.kind === "printed") return EXIT.ok;
    const console = readObject(sent.body, "the console");
    if (listen !== undefined) return await relay(call, path, listen);
    if (call.printer.json) call.printer.document(console);
    else call.printer.data(webSocketUrl(call, path) ?? textIn(console, "url") ?? "");
    return EXIT.ok;
  },
};

/** Asks for a ticket, and prints the address with it: all that a browser's viewer needs. */
async function printTicket(call: Call, path: string): Promise<typeof EXIT.ok> {
  const { args, client, printer } = call;
  if (args.has("listen")) throw usageError("--ticket and --listen exclude each other");
  if (client.address.kind === "socket") {
    throw usageError(
      "--ticket is for browsers, which reach no unix socket: name the agent by --url",
    );
  }
  const sent = await client.send({ method: "POST", path: `${path}-tickets` });
  if (sent.kind === "printed") return EXIT.ok;
  const made = readObject(sent.body, "the ticket");
  const ticket = encodeURIComponent(textIn(made, "ticket") ?? "");
  const url = `${webSocketUrl(call, path)}?ticket=${ticket}`;
  if (printer.json) printer.document({ ...made, url });
  else {
    printer.data(url);
    printer.note(`It opens the console once, until ${printable(textIn(made, "expires_at") ?? "")}`);
  }
  return EXIT.ok;
}

interface Listen {
  readonly hostname: string;
  readonly port: number;
}

/** @throws {AgentError} `invalid_argument` */
function listenOf({ args }: Call): Listen | undefined {
  const text = args.text("listen");
  if (text === undefined) return undefined;
  const [, six, four, digits] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const hostname = six ?? four ?? "";
  const port = Number(digits ?? Number.NaN);
  if (!(port <= PORT_MAX) || !isLoopback(hostname)) {
    throw usageError(
      `--listen ${JSON.stringify(text)} is not a loopback address with a port, ` +
        "such as 127.0.0.1:5901",
    );
  }
  return { hostname, port };
}

/** The agent's own address is what the caller reached it by; undefined on a unix socket. */
function webSocketUrl({ client: { address } }: Call, path: string): string | undefined {
  return address.kind === "url" ? address.base.replace(/^http/, "ws") + path : undefined;
}

async function relay(
  call: Call,
  path: string,
  listen: Listen,
): Promise<typeof EXIT.ok> {
  const { client, printer, terminal } = call;
  const connected = await client.connected();
  const stop = new AbortController();
  const takeBack = terminal.onInterrupt(() => stop.abort());
  try {
    const opened = openRelay(listenAt(listen), {
      url: webSocketUrl(call, path) ?? `ws://localhost${path}`,
      ...connected,
      signal: stop.signal,
      note: (line) => printer.note(printable(line)),
    });
    const host = listen.hostname.includes(":") ? `[${listen.hostname}]` : listen.hostname;
    const place = `${host}:${opened.port}`;
    if (printer.json) printer.document({ host: listen.hostname, port: opened.port });
    else printer.data(place);
    printer.note(`VNC viewers may connect to ${place}; Ctrl-C ends it`);
    await opened.done;
    return EXIT.ok;
  } finally {
    takeBack();
  }
}

function listenAt({ hostname, port }: Listen): Deno.TcpListener {
  try {
    return Deno.listen({ hostname, port });
  } catch (cause) {
    if (!(cause instanceof Deno.errors.AddrInUse)) throw cause;
    const message = `Cannot listen on ${hostname}:${port}: the port is taken`;
    throw new AgentError("conflict", message, { cause });
  }
}
