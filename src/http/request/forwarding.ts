// Which requests are forwarded to another agent: those that only the host of the machine can answer, and those about
// media of a host that the query names.

import type { Context, MiddlewareHandler, Next } from "hono";
import { about, anyText } from "../../domain/description/value.ts";
import { AgentError, invalidArgument, isAway } from "../../domain/error.ts";
import { SERVER_PARAM } from "../../domain/job/job.ts";
import { isUuid, type MachineUuid } from "../../domain/id.ts";
import { CALL_BYTES_MAX, type SignedHead } from "../../domain/peer.ts";
import { hostOf, type ListedHost } from "../../store/host_store.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import type { Caller } from "../caller.ts";
import { readBytes } from "./body.ts";
import { headOf } from "../peers/check.ts";

/**
 * Requests that only the host of the machine can answer. Consoles and their tickets are served by the agent that the
 * caller reached.
 */
const OF_MACHINE = /^\/agent\/v1\/machines\/([^/]+)(?:\/(?:vnc|boot|stop|reboot|eject))?$/;
/** Media of another host, if the query names it. A file must be uploaded to its own host's agent. */
const OF_MEDIA = /^\/agent\/v1\/media(?:\/|$)/;
const HOST_KEY = "host";

/** The query of a request about media, besides what its route reads. */
export const MEDIA_HOST_FIELDS = {
  [HOST_KEY]: about(
    "The host that answers, by its uuid or its name; the one of this agent unless given.",
    anyText(),
  ),
};

/** What forwarding needs of the agent. */
type ForwardingContext = Pick<ServedAgent, "peers" | "store" | "limits" | "machines" | "hostUuid">;

/** Forwards requests about machines and media of other hosts. */
export function forwarding(context: ForwardingContext): MiddlewareHandler<HttpEnv> {
  return (c, next) => {
    const { path } = c.req;
    // Most requests are about neither, and need no promise here.
    return OF_MEDIA.test(path) || OF_MACHINE.test(path) ? forwarded(c, next, context) : next();
  };
}

async function forwarded(
  c: Context<HttpEnv>,
  next: Next,
  context: ForwardingContext,
): Promise<Response | void> {
  const { path, method } = c.req;
  const host = OF_MEDIA.test(path) && method !== "PUT" && c.req.url.includes("?")
    ? await hostOfMedia(c, context)
    : await hostOfMachine(c, context);
  if (host === undefined) return await next();
  return await forwardTo(c, host, context);
}

async function hostOfMachine(
  c: Context<HttpEnv>,
  { peers, machines }: ForwardingContext,
): Promise<ListedHost | undefined> {
  const text: string | undefined = OF_MACHINE.exec(c.req.path)?.[1]?.toLowerCase();
  return isUuid(text)
    ? await ownerOf(text as MachineUuid, c.get("caller"), { peers, machines })
    : undefined;
}

/**
 * The other host that has a machine; undefined if this one answers.
 * @throws {AgentError} `overloaded` when the database is away, and the machine is not one of this host
 */
export async function ownerOf(
  uuid: MachineUuid,
  caller: Caller | undefined,
  { peers, machines }: Pick<ServedAgent, "peers" | "machines">,
): Promise<ListedHost | undefined> {
  // The agent that forwarded the request has already chosen the host.
  if (peers === undefined || caller?.kind === "host") return undefined;
  try {
    return await peers.ownerOf(uuid);
  } catch (error) {
    // Machines of this host need no database.
    if (isAway(error) && await machines.vmadm.get(uuid) !== null) return undefined;
    throw error;
  }
}

/** The host that the query names; also removes the name from the query. */
async function hostOfMedia(
  c: Context<HttpEnv>,
  context: ForwardingContext,
): Promise<ListedHost | undefined> {
  const url = new URL(c.req.url);
  const [name, ...others] = url.searchParams.getAll(HOST_KEY);
  // A repeated key is refused later, as in every query. So is a key in a call that was forwarded.
  const isForwarded = c.get("caller")?.kind === "host";
  if (name === undefined || others.length > 0 || isForwarded) return undefined;
  url.searchParams.delete(HOST_KEY);
  c.req.raw = new Request(url, c.req.raw);
  const { store, hostUuid } = context;
  const host = await hostOf(name, store, "Cannot choose the media", HOST_KEY);
  return host.uuid === hostUuid ? undefined : host;
}

/**
 * Forwards a request whose body was already parsed: the parsed document is sent.
 * @throws {AgentError} as forwardTo(); `invalid_argument` for a request that was forwarded already
 */
export async function forwardRead(
  c: Context<HttpEnv>,
  body: unknown,
  host: ListedHost,
  context: Pick<ServedAgent, "peers" | "limits">,
): Promise<Response> {
  if (c.get("caller")?.kind === "host") {
    throw invalidArgument(
      SERVER_PARAM,
      "Cannot forward the request: another host has forwarded it already",
    );
  }
  const { url, method, headers, signal } = c.req.raw;
  c.req.raw = new Request(url, { method, headers, signal, body: JSON.stringify(body) });
  return await forwardTo(c, host, context);
}

/**
 * Forwards a request, or asks the same host for another path.
 * @throws {AgentError} the other agent's error, with the name of its host; `host_away`, `host_refused`, `too_large`;
 *   `internal` without a caller, which access.ts rules out
 */
export async function forwardTo(
  c: Context<HttpEnv>,
  host: ListedHost,
  { peers, limits }: Pick<ServedAgent, "peers" | "limits">,
  other?: SignedHead,
): Promise<Response> {
  const caller = c.get("caller");
  if (peers === undefined || caller === undefined) {
    throw new AgentError("internal", "Cannot forward the request: it has no caller or no host");
  }
  const { raw } = c.req;
  const reading = { bytesMax: CALL_BYTES_MAX, secondsMax: limits.bodySeconds, keeps: true };
  const body = other === undefined ? await readBytes(raw.body, reading) : new Uint8Array();
  return await peers.forward(host, {
    ...(other ?? headOf(raw)),
    caller,
    body,
    headers: other === undefined ? raw.headers : new Headers(),
    request_id: c.get("request_id"),
    signal: raw.signal,
  });
}
