// GET /agent/v1/machines/:uuid/console: the console of a machine over a WebSocket. The caller names only the
// machine; vmadm is asked for the address of its console on every connection. By then, head_check.ts and
// access.ts have checked Origin, token and ticket.

import { always, type ShapeOf, URI, whole } from "../../../domain/description/answer.ts";
import type { Context } from "hono";
import { AgentError } from "../../../domain/error.ts";
import { type MachineUuid, parsePathUuid } from "../../../domain/id.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import type { ConsoleStream } from "../../machine_access.ts";
import { type Caller, isStillGood, OPEN_ACCESS } from "../../caller.ts";
import { bridgeConsole } from "../../console/bridge.ts";
import {
  type Handshake,
  openConsoleSocket,
  shakeHands,
  switchedAnswer,
} from "../../console/socket.ts";
import { TICKET_KEY, wantsSocket } from "../../console/tickets.ts";
import { forwardTo, ownerOf } from "../../request/forwarding.ts";
import { openRemoteConsole } from "../../peers/remote_console.ts";
import { hostOf } from "../../request/head_check.ts";
import { about, anyText } from "../../../domain/description/value.ts";
import { isJsonObject, type JsonObject } from "../../../domain/json.ts";
import { machineNotFound, requireConsole } from "../../../domain/machine/action.ts";
import { readQuery } from "../../request/query.ts";

/** The part of the context that consoles use. */
export type ConsoleContext = Pick<
  ServedAgent,
  "machines" | "limits" | "now" | "log" | "closing" | "access" | "peers"
>;

/** The subprotocol that VNC clients in browsers use. */
const PROTOCOL = "binary";

/** The query of the upgrade to a console. */
export const CONSOLE_QUERY_FIELDS = {
  [TICKET_KEY]: about(
    "For a client that cannot send a token: from `POST .../console-tickets`. 403 if it was " +
      "used, has expired, or is for another machine.",
    anyText(),
  ),
};

/** Makes the handler, which counts the open consoles. */
export function openConsoles(context: ConsoleContext): (c: Context<HttpEnv>) => Promise<Response> {
  const seats = openSeats(context.limits);
  return async (c) => {
    const uuid = parsePathUuid<MachineUuid>(c.req.param("uuid") ?? "", "machine");
    readQuery(c.req.url, CONSOLE_QUERY_FIELDS);
    if (!wantsSocket(c.req.raw)) return await answerUrl(c, uuid, context);
    refuseOtherProtocol(c.req.header("sec-websocket-protocol"));
    const leave = seats.take(uuid);
    let stream: ConsoleStream | undefined;
    try {
      const offered = c.req.header("sec-websocket-protocol") !== undefined;
      const handshake = await shakeHands(c.req.raw, offered ? PROTOCOL : undefined);
      stream = await connect(c, uuid, context);
      refuseGone(c.req.raw.signal, uuid);
      return upgrade(c, uuid, { stream, handshake, leave }, context);
    } catch (error) {
      stream?.close();
      leave();
      throw error;
    }
  };
}

/** The answer of `GET .../console` to a request without an upgrade. */
export const CONSOLE = whole("The console as a WebSocket.", {
  url: URI,
  protocol: { ...always(PROTOCOL), description: "The subprotocol, which is optional." },
});

/** Answers a request without a WebSocket with the URL for one. */
async function answerUrl(
  c: Context<HttpEnv>,
  uuid: MachineUuid,
  context: ConsoleContext,
): Promise<Response> {
  requireConsole(uuid, await machineOf(c, uuid, context));
  const answer: ShapeOf<typeof CONSOLE> = { url: consoleUrl(c, uuid), protocol: PROTOCOL };
  return c.json(answer);
}

/**
 * A machine, as its host describes it.
 * @throws {AgentError} `not_found`; what another host answers
 */
export async function machineOf(
  c: Context<HttpEnv>,
  uuid: MachineUuid,
  { machines, peers, limits }: ConsoleContext,
): Promise<JsonObject> {
  const owner = await ownerOf(uuid, c.get("caller"), { machines, peers });
  if (owner !== undefined) {
    const head = { method: "GET", target: machinePath(uuid) };
    const described: unknown = await (await forwardTo(c, owner, { peers, limits }, head)).json();
    return isJsonObject(described) ? described : {};
  }
  const machine = await machines.vmadm.get(uuid);
  if (machine === null) throw machineNotFound(uuid);
  return machine;
}

function machinePath(uuid: string): string {
  return `/agent/v1/machines/${uuid}`;
}

/** The path of a machine's console. */
export function consolePath(uuid: string): string {
  return `${machinePath(uuid)}/console`;
}

/** The URL of a console, at the address by which the caller reached the agent. */
export function consoleUrl({ env, req }: Context<HttpEnv>, uuid: MachineUuid): string {
  const scheme = env?.secure ? "wss" : "ws";
  return `${scheme}://${hostOf(req.raw, env?.secure) ?? "localhost"}${consolePath(uuid)}`;
}

/** Who opens a console. @throws {AgentError} `internal` without a caller, which access.ts rules out */
export function callerOf(c: Context<HttpEnv>): Caller {
  const caller = c.get("caller");
  if (caller !== undefined) return caller;
  throw new AgentError("internal", "Cannot open a console: the request has no caller");
}

/** @throws {AgentError} `invalid_argument` when the client offers only other subprotocols */
function refuseOtherProtocol(offered: string | undefined): void {
  const words = offered?.split(",").map((word) => word.trim());
  if (words === undefined || words.includes(PROTOCOL)) return;
  const field = "Sec-WebSocket-Protocol";
  const message =
    `Cannot open the console: the subprotocol ${PROTOCOL} is not among those offered, ` +
    "expected it, or none";
  throw new AgentError("invalid_argument", message, {
    errors: [{ field, code: "Invalid", message }],
  });
}

/** @throws {AgentError} `conflict` without a console; `not_found`, `host`, `timeout`; what another host answers */
async function connect(
  c: Context<HttpEnv>,
  uuid: MachineUuid,
  { machines, peers }: ConsoleContext,
): Promise<ConsoleStream> {
  const { vmadm } = machines;
  const { signal } = c.req.raw;
  const caller = callerOf(c);
  const owner = await ownerOf(uuid, caller, { machines, peers });
  if (peers !== undefined && owner !== undefined) {
    const request_id = c.get("request_id");
    const path = consolePath(uuid);
    return await openRemoteConsole(peers, owner, { uuid, path, caller, request_id, signal });
  }
  const address = await vmadm.infoVnc(uuid, { signal });
  if (address !== null) return await vmadm.connectVnc(address, { signal });
  const message =
    `Cannot open the console of machine ${uuid}: its console does not listen, expected a running machine ` +
    "with a console";
  throw new AgentError("conflict", message);
}

/**
 * Refuses a client that has left.
 * @throws {AgentError} `aborted`
 */
function refuseGone(signal: AbortSignal, uuid: MachineUuid): void {
  if (!signal.aborted) return;
  throw new AgentError(
    "aborted",
    `Cannot open the console of machine ${uuid}: the caller closed the connection`,
  );
}

interface Opened {
  readonly stream: ConsoleStream;
  readonly handshake: Handshake;
  /** Gives its place among the open consoles to another. */
  readonly leave: () => void;
}

/** @throws {AgentError} `internal` where the connection cannot be taken over */
function upgrade(
  c: Context<HttpEnv>,
  uuid: MachineUuid,
  { stream, handshake, leave }: Opened,
  { limits, closing, log, access = OPEN_ACCESS }: ConsoleContext,
): Response {
  const caller = callerOf(c);
  const allowed = () => isStillGood(caller, access);
  const raw = c.env?.takeOver?.();
  if (raw === undefined) {
    throw new AgentError("internal", "Cannot open a console: there is no connection to take over");
  }
  const fields = { request_id: c.get("request_id"), machine: uuid };
  const startMs = performance.now();
  log.info("console opened", fields);
  const idleMs = limits.consoleIdleSeconds * 1000;
  const socket = openConsoleSocket(raw, handshake);
  bridgeConsole(socket, stream, { idleMs, closing, allowed }).then((end) => {
    leave();
    log.info("console closed", { ...fields, ...end, ms: Math.round(performance.now() - startMs) });
  });
  return switchedAnswer();
}

/** The limited places of open consoles. */
interface Seats {
  /** @returns releases the place @throws {AgentError} `overloaded` when all are taken */
  take(uuid: MachineUuid): () => void;
}

function openSeats({ consolesMax }: Pick<ServedAgent["limits"], "consolesMax">): Seats {
  let taken = 0;
  return {
    take(uuid) {
      if (taken >= consolesMax) {
        const message = `Cannot open the console of machine ${uuid}: ${taken} consoles are ` +
          "open, the maximum";
        throw new AgentError("overloaded", message);
      }
      taken += 1;
      return () => taken -= 1;
    },
  };
}
