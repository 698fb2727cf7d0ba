// `zonewright machine console`: the address of a machine's console as a WebSocket, on request with a ticket for a
// browser; or, with --listen, a local port for any VNC viewer. Each connection to that port becomes a WebSocket to
// the agent. `zonewright machine vnc` prints the VNC address itself.

import { writeAll } from "../../domain/bytes.ts";
import { AgentError } from "../../domain/error.ts";
import { isLoopback, PORT_MAX } from "../../domain/ip_address.ts";
import { numberIn, readObject, textIn } from "../client/answer.ts";
import { shellQuoted } from "../client/api_call.ts";
import { machineNamed, machinePath } from "../command/named.ts";
import { type Arguments, cannot, usageError } from "../command/arguments.ts";
import type { Command, Invocation } from "../command/command.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";

/** VNC viewers that accept `HOST::PORT`. */
const VIEWERS = ["vncviewer", "xtigervncviewer", "xvncviewer"];
const ANY_LOOPBACK_PORT: Listen = { hostname: "127.0.0.1", port: 0 };

/** The path of an installed viewer, if there is a display to open it on. */
async function viewerOf(env: Readonly<Record<string, string>>): Promise<string | undefined> {
  if (!env.DISPLAY && !env.WAYLAND_DISPLAY) return undefined;
  for (const folder of (env.PATH ?? "").split(":")) {
    if (!folder.startsWith("/")) continue;
    for (const name of VIEWERS) {
      const path = `${folder}/${name}`;
      try {
        if ((await Deno.stat(path)).isFile) return path;
      } catch {
        // Missing or not readable: try the next one.
      }
    }
  }
  return undefined;
}

/** Only a machine that runs has a console. */
function bootHint({ code }: AgentError, { operands }: Arguments): string | undefined {
  if (code !== "conflict") return undefined;
  return `zonewright machine boot ${shellQuoted(operands[0] ?? "")}  starts one that is stopped`;
}

/** `zonewright machine console MACHINE`: carries RFB between a local port and the WebSocket of the agent. */
export const CONSOLE: Command = {
  summary: "open the console in a VNC viewer, or print how to reach it",
  operands: "MACHINE",
  examples: [
    ['machine console "$UUID" --listen 127.0.0.1:5901', "then: vncviewer 127.0.0.1:5901"],
    ['machine console "$UUID"', "opens a viewer; without one or in a pipe, prints ws://..."],
    ['machine console "$UUID" --ticket', "for a browser: works once, within seconds"],
  ],
  flags: [{
    name: "listen",
    placeholder: "HOST:PORT",
    help: "accept viewers there until Ctrl-C; loopback only, port 0 for any",
  }, {
    name: "ticket",
    help: "print an address that works once, without a token",
  }],
  notes: [
    `On a terminal with a display it opens the first that is installed of ${VIEWERS.join(", ")}.`,
    "The password that a viewer asks for: zonewright machine vnc MACHINE --password",
  ],
  shared: "agent",
  hint: bootHint,
  async run(call) {
    const listen = listenOf(call);
    const path = `${await machinePath(call)}/console`;
    if (call.args.has("ticket")) return await printTicket(call, path);
    const sent = await call.client.send({ method: "GET", path });
    const console = readObject(sent.body, "the console");
    if (listen !== undefined) return await relay(call, path, listen);
    const { printer, terminal } = call;
    if (printer.json) return printer.document(console);
    const viewer = terminal.outIsTerminal ? await viewerOf(terminal.env) : undefined;
    if (viewer !== undefined) return await relay(call, path, ANY_LOOPBACK_PORT, viewer);
    printer.data(webSocketUrl(call, path) ?? textIn(console, "url") ?? "");
    const [machine = ""] = call.args.operands;
    printer.next(`machine console ${machine} --listen 127.0.0.1:5901`, "vncviewer 127.0.0.1::5901");
  },
};

/** Requests a ticket and prints the address with it, which is all that a viewer in a browser needs. */
async function printTicket(call: Invocation, path: string): Promise<void> {
  const { args, client, printer } = call;
  if (args.has("listen")) {
    throw usageError("--ticket and --listen are both given, expected one of them");
  }
  if (client.address.kind === "socket") {
    throw cannot(
      "use --ticket over a unix socket: it is for browsers, expected the agent's --url",
    );
  }
  const sent = await client.send({ method: "POST", path: `${path}-tickets` });
  const made = readObject(sent.body, "the ticket");
  const ticket = encodeURIComponent(textIn(made, "ticket") ?? "");
  const url = `${webSocketUrl(call, path)}?ticket=${ticket}`;
  if (printer.json) return printer.document({ ...made, url });
  printer.data(url);
  printer.note(`It works once, until ${textIn(made, "expires_at") ?? ""}`);
}

interface Listen {
  readonly hostname: string;
  readonly port: number;
}

function listenOf({ args }: Invocation): Listen | undefined {
  const text = args.text("listen");
  if (text === undefined) return undefined;
  const [, six, four, digits] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const hostname = six ?? four ?? "";
  const port = Number(digits ?? Number.NaN);
  if (!(port <= PORT_MAX) || !isLoopback(hostname)) {
    throw cannot(
      `use --listen ${JSON.stringify(text)}, expected a loopback address with a port, such as ` +
        "127.0.0.1:5901",
    );
  }
  return { hostname, port };
}

/** The WebSocket at the address by which the caller reaches the agent; undefined on a unix socket. */
function webSocketUrl({ client: { address } }: Invocation, path: string): string | undefined {
  return address.kind === "url" ? address.base.replace(/^http/, "ws") + path : undefined;
}

async function relay(
  call: Invocation,
  path: string,
  listen: Listen,
  viewer?: string,
): Promise<void> {
  const { client, printer, terminal } = call;
  const connected = await client.connected();
  const stop = new AbortController();
  const takeBack = terminal.onInterrupt(() => stop.abort());
  try {
    const opened = openRelay(listenAt(listen), {
      url: webSocketUrl(call, path) ?? `ws://localhost${path}`,
      ...connected,
      signal: stop.signal,
      note: printer.note,
    });
    const host = listen.hostname.includes(":") ? `[${listen.hostname}]` : listen.hostname;
    const place = `${host}:${opened.port}`;
    printer.result({ host: listen.hostname, port: opened.port }, place);
    printer.note(`VNC viewers can connect to ${place}; stop with Ctrl-C`);
    if (viewer !== undefined) {
      const address = `${listen.hostname}::${opened.port}`;
      await view(viewer, address, stop.signal).finally(() => stop.abort());
    }
    await opened.done;
  } finally {
    takeBack();
  }
}

/**
 * Runs a viewer until its user closes it or the signal ends it.
 * @throws {AgentError} `internal` when it fails
 */
async function view(program: string, address: string, signal: AbortSignal): Promise<void> {
  const command = new Deno.Command(program, { args: [address], stdin: "null", signal });
  const { code, success } = await command.spawn().status;
  if (success || signal.aborted) return;
  const message = `Cannot show ${address} with ${program}: it ended with code ${code}`;
  throw new AgentError("internal", message);
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

/** Bytes of one read from a viewer. */
const VIEWER_BYTES = 64 * 1024;
/** Bytes that may wait in a WebSocket before the viewer is read again. */
const OUTGOING_BYTES_MAX = 256 * 1024;
/**
 * Bytes that may wait for a viewer. In RFB a viewer requests each update and gets no more than
 * that; the limit only ends viewers that have stopped reading.
 */
const INCOMING_BYTES_MAX = 64 * 1024 * 1024;
const DRAIN_MS = 10;
const NORMAL = 1000;

interface RelayOptions {
  readonly url: string;
  /** Sent with each WebSocket: the token, if there is one. */
  readonly headers: Readonly<Record<string, string>>;
  /** For an agent on a unix socket, or with a certificate that only its caller trusts. */
  readonly http: Deno.HttpClient | undefined;
  /** Ends the relay and all connections. */
  readonly signal: AbortSignal;
  /** Called with a line about each connection that failed. */
  readonly note: (line: string) => void;
}

interface Relay {
  readonly port: number;
  /** Settles once the listener and every connection are closed. */
  readonly done: Promise<void>;
}

function openRelay(listener: Deno.TcpListener, options: RelayOptions): Relay {
  const carrying = new Set<Promise<void>>();
  const stop = () => listener.close();
  if (options.signal.aborted) stop();
  else options.signal.addEventListener("abort", stop, { once: true });
  const accept = async () => {
    for await (const viewer of listener) {
      const carried: Promise<void> = carry(viewer, options).finally(() => carrying.delete(carried));
      carrying.add(carried);
    }
    await Promise.all(carrying);
  };
  return { port: listener.addr.port, done: accept() };
}

async function carry(viewer: Deno.TcpConn, options: RelayOptions): Promise<void> {
  const { url, headers, http, signal, note } = options;
  const socket = new WebSocket(url, {
    protocols: ["binary"],
    headers,
    ...(http === undefined ? {} : { client: http }),
  });
  socket.binaryType = "arraybuffer";
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  let open = true;
  const end = () => {
    if (open) viewer.close();
    open = false;
    if (socket.readyState < WebSocket.CLOSING) socket.close(NORMAL);
  };
  const write = openViewerWriter(viewer, end);
  let answered = false;
  socket.onopen = () => {
    answered = true;
    carryFromViewer(viewer, socket).then(end, end);
  };
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) write(new Uint8Array(data));
  };
  // The close event follows, with the reason if there is one.
  socket.onerror = () => {};
  socket.onclose = ({ reason }) => {
    end();
    if (!answered) note("The agent refused the console: see zonewright machine get");
    else if (reason !== "") note(`A console was closed: ${reason}`);
    resolve();
  };
  signal.addEventListener("abort", end, { once: true });
  await closed;
  signal.removeEventListener("abort", end);
}

async function carryFromViewer(viewer: Deno.TcpConn, socket: WebSocket): Promise<void> {
  const buffer = new Uint8Array(VIEWER_BYTES);
  while (socket.readyState === WebSocket.OPEN) {
    const count = await viewer.read(buffer);
    if (count === null || socket.readyState !== WebSocket.OPEN) return;
    socket.send(buffer.slice(0, count));
    while (socket.readyState === WebSocket.OPEN && socket.bufferedAmount > OUTGOING_BYTES_MAX) {
      await new Promise((resolve) => setTimeout(resolve, DRAIN_MS));
    }
  }
}

function openViewerWriter(
  viewer: Deno.TcpConn,
  end: () => void,
): (bytes: Uint8Array<ArrayBuffer>) => void {
  let waiting = 0;
  let writing: Promise<void> = Promise.resolve();
  return (bytes) => {
    waiting += bytes.length;
    if (waiting > INCOMING_BYTES_MAX) return end();
    writing = writing.then(async () => {
      await writeAll(viewer, bytes);
      waiting -= bytes.length;
    }).catch(end);
  };
}

interface Vnc {
  readonly host: string;
  readonly port: number;
  readonly display: number | undefined;
}

/** The VNC address of a machine; undefined while it has none. */
export function vncOf(machine: JsonObject): Vnc | undefined {
  const { vnc } = machine;
  if (!isJsonObject(vnc)) return undefined;
  const host = textIn(vnc, "host");
  const port = numberIn(vnc, "port");
  if (host === undefined || port === undefined) return undefined;
  return { host, port, display: numberIn(vnc, "display") };
}

/** `10.99.99.7:45465`, as VNC viewers accept it. */
function vncAddress({ host, port }: Vnc): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The address, and the display if it is known. */
export function vncText(vnc: Vnc): string {
  const display = vnc.display === undefined ? "" : ` (display ${vnc.display})`;
  return vncAddress(vnc) + display;
}

/** `zonewright machine vnc MACHINE`: only the address or the password on standard output, for scripts. */
export const VNC: Command = {
  summary: "print the VNC address of a running machine, or its password",
  operands: "MACHINE",
  examples: [
    ['machine vnc "$UUID"', "only HOST:PORT, for vncviewer"],
    ['machine vnc "$UUID" --password', "only the password that the viewer asks for"],
  ],
  flags: [{ name: "password", help: "the password of the console instead of its address" }],
  shared: "agent",
  hint: bootHint,
  async run(call) {
    const { args, client, printer } = call;
    const { uuid } = await machineNamed(call, args.operand);
    const sent = await client.send({ method: "GET", path: `/agent/v1/machines/${uuid}/vnc` });
    const info = readObject(sent.body, "the console");
    const vnc = vncOf(info);
    if (vnc === undefined) {
      throw new AgentError(
        "conflict",
        `Cannot print the VNC address of machine ${uuid}: its console does not listen yet`,
      );
    }
    if (args.has("password")) {
      const password = textIn(readObject(info.vnc, "the console"), "password");
      if (password === undefined) {
        throw new AgentError(
          "conflict",
          `Cannot print the password of machine ${uuid}: its console has none`,
        );
      }
      printer.result({ password }, password);
    } else printer.result(info.vnc, vncAddress(vnc));
  },
};
