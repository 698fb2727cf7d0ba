// Reads the events of an agent. When the connection breaks, for example at a restart of the agent, it
// reconnects and continues after the last event it has read, so that none is lost or read twice.

import { EVENT_KINDS, EVENT_PAYLOADS, resetPayload } from "../../domain/event.ts";
import { type Description, parse } from "../../domain/description/description.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { pause } from "../../runtime/wait.ts";
import { urlOf } from "./api_call.ts";
import { answerError, isPassing } from "./answer.ts";
import type { Client } from "./client.ts";

/** Milliseconds between a lost stream and the next try. */
const AGAIN_MS = 500;
/** The agent sends a heartbeat every five seconds. */
const SILENT_MS_MAX = 20_000;
/** How long the agent may be unreachable, milliseconds: enough for a restart. */
export const AWAY_MS_MAX = 60_000;
/** Longest event that is accepted, characters. */
const BLOCK_CHARS_MAX = 16 * 1_048_576;

/** An event as it was sent. */
interface AgentEvent {
  readonly id: string;
  /** One of EVENT_KINDS, `reset`, or a kind of a later version. */
  readonly kind: string;
  readonly data: JsonObject;
}

/** How a command follows the events of the agent. */
export interface EventOptions {
  readonly signal: AbortSignal;
  readonly nowMs: () => number;
  /**
   * Called at every connection. `resumed`: the events since the last connection are read too.
   */
  readonly begun?: (resumed: boolean) => void;
  /** Called once each time the agent goes away. @param broken why the stream ended */
  readonly away?: (broken: unknown) => void;
  /** Milliseconds without data after which a connection counts as broken; 20 s unless given. */
  readonly silentMs?: number;
}

/**
 * Reads events from now on, until the signal fires.
 * @param query the filters of `GET /agent/v1/events`
 * @throws {AgentError} if the agent refuses; `unreachable` when it is away for a minute
 */
export async function* events(
  client: Client,
  query: Readonly<Record<string, string>>,
  { signal, nowMs, begun, away, silentMs = SILENT_MS_MAX }: EventOptions,
): AsyncGenerator<AgentEvent, void> {
  let id: string | undefined;
  let aliveMs = nowMs();
  let isAway = false;
  // Ends on the signal, on a refusal, or when the agent stays away.
  while (!signal.aborted) {
    let broken: unknown;
    const resumed = id !== undefined;
    try {
      for await (const block of connect(client, query, id, { signal, silentMs })) {
        aliveMs = nowMs();
        isAway = false;
        if (block.first) begun?.(resumed);
        id = block.id ?? id;
        if (block.data !== undefined) yield { id: id ?? "", ...eventOf(block.kind, block.data) };
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof AgentError && !isPassing(error)) throw error;
      broken = error;
    }
    if (nowMs() - aliveMs > AWAY_MS_MAX) {
      const why = broken === undefined ? "each stream ended at once" : messageOf(broken);
      const message = `Cannot follow the events of the agent: ${why}`;
      throw new AgentError("unreachable", message, { cause: broken });
    }
    if (broken !== undefined && !isAway) away?.(broken);
    isAway ||= broken !== undefined;
    await pause(AGAIN_MS, signal);
  }
}

/** @throws {AgentError} `internal` for a payload that does not fit its kind */
function eventOf(kind: string, text: string): Pick<AgentEvent, "kind" | "data"> {
  const data = parsed(text);
  if (!isJsonObject(data)) {
    throw new AgentError("internal", `Cannot read an event of kind ${kind}, expected an object`);
  }
  const known = EVENT_KINDS.find((one) => one === kind);
  const description: Description<unknown> | undefined = known !== undefined
    // The type of the payload does not matter here, only that it is valid.
    ? EVENT_PAYLOADS[known] as Description<unknown>
    : kind === "reset"
    ? resetPayload
    : undefined;
  if (description !== undefined) parse(description, data, "", `event of kind ${kind}`);
  return { kind, data };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // It is refused like any text that is not an object.
    return undefined;
  }
}

interface EventBlock {
  /** Whether it is the first of its connection. */
  readonly first: boolean;
  readonly id: string | undefined;
  readonly kind: string;
  readonly data: string | undefined;
}

async function* connect(
  client: Client,
  query: Readonly<Record<string, string>>,
  id: string | undefined,
  { signal, silentMs }: { readonly signal: AbortSignal; readonly silentMs: number },
): AsyncGenerator<EventBlock, void> {
  const silent = new AbortController();
  const why = new Error(`it has sent nothing for ${silentMs / 1000} seconds`);
  const watch = () => setTimeout(() => silent.abort(why), silentMs);
  let timer = watch();
  try {
    const aborted = AbortSignal.any([signal, silent.signal]);
    const response = await open(client, query, id, aborted);
    let rest = "";
    let first = true;
    for await (const part of (response.body ?? emptyBody()).pipeThrough(new TextDecoderStream())) {
      clearTimeout(timer);
      timer = watch();
      const blocks = (rest + part).split("\n\n");
      rest = blocks.pop() ?? "";
      if (rest.length > BLOCK_CHARS_MAX) {
        throw new AgentError(
          "too_large",
          `Cannot read an event: over ${BLOCK_CHARS_MAX} characters`,
        );
      }
      for (const block of blocks) {
        yield { first, ...fieldsOf(block) };
        first = false;
      }
    }
  } finally {
    clearTimeout(timer);
    // Drops the rest of the answer.
    silent.abort();
  }
}

/** @throws {AgentError} if the agent refuses; `internal` for an answer that is not a stream */
async function open(
  client: Client,
  query: Readonly<Record<string, string>>,
  id: string | undefined,
  signal: AbortSignal,
): Promise<Response> {
  const call = { method: "GET", path: `/agent/v1/events?${new URLSearchParams(query)}` };
  const { headers, http } = await client.connected();
  const response = await fetch(urlOf(client.address, call.path), {
    redirect: "manual",
    signal,
    headers: {
      accept: "text/event-stream, application/json",
      ...headers,
      ...(id === undefined ? {} : { "last-event-id": id }),
    },
    ...(http === undefined ? {} : { client: http }),
  });
  const { status } = response;
  if (status !== 200) {
    const text = await response.text();
    throw answerError(call, { status, headers: response.headers, text, body: parsed(text) });
  }
  const type = response.headers.get("content-type");
  if (type === "text/event-stream") return response;
  await response.body?.cancel();
  const message = `Cannot read the events of the agent: it sends ${JSON.stringify(type)}, ` +
    "expected text/event-stream";
  throw new AgentError("internal", message);
}

function emptyBody(): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new Blob().stream();
}

function fieldsOf(block: string): Omit<EventBlock, "first"> {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const [, name, value = ""] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
    if (name !== undefined) fields.set(name, value);
  }
  return { id: fields.get("id"), kind: fields.get("event") ?? "", data: fields.get("data") };
}
