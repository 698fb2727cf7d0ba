// Reads request bodies: checks the content type first, bounds size and time, and accepts only JSON that every
// parser reads the same way.

import type { Context, MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import { joined } from "../../domain/bytes.ts";
import { AgentError } from "../../domain/error.ts";
import { type JsonValue, jsonWeight, measureJson, parseJson } from "../../domain/json.ts";
import type { RequestMemory, Reservation } from "../../domain/memory_budget.ts";
import { callAfter } from "../../runtime/timers.ts";
import type { HttpEnv } from "../served_agent.ts";
import type { HttpLimits } from "../limits.ts";

/** Characters of a header that an error repeats. */
const HEADER_CHARS_SHOWN = 200;

const JSON_TYPE = /^application\/(?:json|[\w.!#$&^+-]+\+json)$/;

interface BodyLimit {
  readonly bytesMax: number;
  readonly depthMax: number;
  readonly secondsMax: number;
}

/** For routes that take a document: a workflow, a job, a machine, a medium. */
export function wholeBody({ bodyBytesMax, bodySeconds, jsonDepthMax }: HttpLimits): BodyLimit {
  return { bytesMax: bodyBytesMax, depthMax: jsonDepthMax, secondsMax: bodySeconds };
}

/** For routes with a few short fields, such as a cancel. */
export function smallBody(limits: HttpLimits): BodyLimit {
  const bytesMax = Math.min(limits.smallBodyBytesMax, limits.bodyBytesMax);
  return { ...wholeBody(limits), bytesMax };
}

const INFO_WRITTEN_LARGER = 4;

/** For info entries. Their limit counts compact JSON; escapes and spaces can make the body larger. */
export function infoBody(limits: HttpLimits): BodyLimit {
  const bytesMax = Math.min(INFO_WRITTEN_LARGER * limits.infoEntryBytesMax, limits.bodyBytesMax);
  return { ...wholeBody(limits), bytesMax };
}

/** The route whose body is a file of any type. It reads the body itself, with limits of its own. */
export const UPLOAD_PATH = "/agent/v1/media/library/:name";

/**
 * Refuses POST, PUT and PATCH without a JSON content type, whether or not there is a body: a page of another
 * site can send that type only after a CORS preflight, which the agent never grants (document 2, sentence 6).
 * Unknown paths and methods pass, and get their 404 or 405.
 */
export const jsonOnly: MiddlewareHandler<HttpEnv> = (c, next) => {
  const { method } = c.req;
  const carriesBody = method === "POST" || method === "PUT" || method === "PATCH";
  if (carriesBody && matchedRoutes(c).some(takesJson)) {
    refuseOtherType(c.req.raw.headers);
  }
  return next();
};

function takesJson({ method, path }: { readonly method: string; readonly path: string }): boolean {
  return method !== "ALL" && path !== UPLOAD_PATH;
}

function refuseOtherType(headers: Headers): void {
  const sent = headers.get("content-type") ?? "";
  const [essence = "", ...parameters] = sent.toLowerCase().split(";").map((part) => part.trim());
  if (!JSON_TYPE.test(essence)) {
    const found = sent === "" ? "none" : JSON.stringify(sent.slice(0, HEADER_CHARS_SHOWN));
    throw otherType(`content type is ${found}, expected application/json`);
  }
  const charset = parameters.find((part) => part.startsWith("charset="))?.slice(8);
  if (charset !== undefined && !/^"?(?:utf-?8|us-ascii)"?$/.test(charset)) {
    throw otherType(`charset is ${JSON.stringify(charset)}, expected utf-8`);
  }
  const encoding = headers.get("content-encoding") ?? "identity";
  if (encoding.toLowerCase() !== "identity") {
    throw otherType(`content encoding is ${JSON.stringify(encoding)}, expected none`);
  }
}

function otherType(reason: string): AgentError {
  return new AgentError("not_acceptable_type", `Cannot read the body: ${reason}`);
}

/** Bodies up to this size have memory of their own, so they never wait for larger ones. */
const SMALL_BYTES = 64 * 1024;
/** Bodies up to this size, such as a cancel's, reserve no memory: each takes 40 KiB with its value. */
const TINY_BYTES = 1024;
/** Below this prefix repeated names are refused; elsewhere the specification lets the last one count. */
const OWN_ROUTES = "/agent/v1/";
/**
 * Values in one body, counting each member of an object and each element of a list. A document of 2 MiB
 * stays below it, and the parsed value takes about 50 MiB at most.
 */
export const BODY_VALUES_MAX = 500_000;

interface MemoryEnv {
  Variables: { memory: RequestMemory };
}

/**
 * The body of a request as a JSON value. An empty body is read as `{}`, so that requests with only optional
 * fields need none. On the agent's own routes, bodies up to 64 KiB may not repeat a name in one object.
 * Checking a longer body would delay other requests, so there the last of equal names counts, as on all other
 * routes. Memory is reserved before the body is read, and again before it is parsed; it is released when the
 * request is answered.
 * @throws {AgentError} `malformed`, `too_large`, `too_slow`, `overloaded`
 */
export async function readJson<E extends MemoryEnv>(
  c: Context<E>,
  { bytesMax, depthMax, secondsMax }: BodyLimit,
): Promise<JsonValue> {
  const request = c.req.raw;
  const length = contentLengthOf(request.headers);
  const declared = length ?? bytesMax;
  if (declared > bytesMax) throw tooLarge(bytesMax);
  if (request.body === null) return {};
  const reserve = reservationsOf(c, declared);
  // With a transfer encoding a declared length means nothing, but it still bounds what is read.
  const reading = { bytesMax: declared, secondsMax };
  const held = await reserve("body", declared).catch(async (error: unknown) => {
    // Read to the end: a caller that is still sending would not see the answer.
    await readBytes(request.body, { ...reading, keeps: false });
    throw error;
  });
  // Reading a body whole is cheaper than streaming it, and the runtime enforces the declared length. But it
  // keeps reading after a timeout, so only small bodies are read this way.
  const isHeld = length !== null && !request.headers.has("transfer-encoding");
  const bytes = isHeld && declared <= SMALL_BYTES
    ? await readDeclared(request, secondsMax)
    : await readBytes(request.body, { ...reading, keeps: true });
  if (bytes.length > declared) throw tooLarge(bytesMax);
  held?.resize(bytes.length);
  const measure = measureJson(bytes);
  if (measure.depth > depthMax) throw malformed(`it is nested deeper than ${depthMax} levels`);
  if (measure.values > BODY_VALUES_MAX) {
    const message = `Cannot read the body: it holds over ${BODY_VALUES_MAX} values, the maximum`;
    throw new AgentError("too_large", message);
  }
  await reserve("value", jsonWeight(bytes, measure));
  held?.release();
  const distinct = bytes.length <= SMALL_BYTES && c.req.path.startsWith(OWN_ROUTES);
  const value = parseJson(bytes, measure, { what: "the body", distinct });
  return value === undefined ? {} : value;
}

/**
 * The declared length of the body in bytes, null when there is none.
 * @throws {AgentError} `malformed` for a repeated Content-Length, which the runtime accepts when both agree
 */
export function contentLengthOf(headers: Headers): number | null {
  const header = headers.get("content-length");
  if (header === null || /^\d+$/.test(header)) return header === null ? null : Number(header);
  const shown = JSON.stringify(header.slice(0, HEADER_CHARS_SHOWN));
  throw malformed(`Content-Length is ${shown}, expected one number`);
}

/** Reserves memory for a body and its value, from the account for small or for large bodies. */
function reservationsOf<E extends MemoryEnv>(
  c: Context<E>,
  declared: number,
): (what: "body" | "value", bytes: number) => Promise<Reservation | undefined> {
  if (declared <= TINY_BYTES) return () => Promise.resolve(undefined);
  const accounts = declared <= SMALL_BYTES
    ? { body: "smallBodies", value: "smallValues" } as const
    : { body: "bodies", value: "values" } as const;
  return (what, bytes) => c.get("memory").reserve(accounts[what], bytes, "read the body");
}

/** Whether the body is so large that the answer should not be built in memory. */
export function isLarge({ req }: Context): boolean {
  return !(Number(req.header("content-length")) <= SMALL_BYTES);
}

/** Reads a body whose declared length is within the limit. */
function readDeclared(request: Request, secondsMax: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const cancelTimer = callAfter(secondsMax * 1000, () => reject(lateBody(secondsMax)));
    request.bytes().then((bytes) => {
      cancelTimer();
      resolve(bytes);
    }, (error) => {
      cancelTimer();
      reject(cutOff(error));
    });
  });
}

interface Reading {
  readonly bytesMax: number;
  readonly secondsMax: number;
  /** Whether to keep the bytes instead of discarding them. */
  readonly keeps: boolean;
}

/** Reads a body to its end. @throws {AgentError} `too_large`, `too_slow`, `malformed` */
export async function readBytes(
  body: ReadableStream<Uint8Array> | null,
  { bytesMax, secondsMax, keeps }: Reading,
): Promise<Uint8Array<ArrayBuffer>> {
  if (body === null) return new Uint8Array();
  const reader = body.getReader();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    // Fails if the body has already broken off; then the pending read has failed too.
    reader.cancel().catch(() => {});
  }, secondsMax * 1000);
  try {
    const bytes = await readAll(reader, bytesMax, keeps);
    if (late) throw lateBody(secondsMax);
    return bytes;
  } finally {
    clearTimeout(timer);
  }
}

async function readAll(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  bytesMax: number,
  keeps: boolean,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (let part = await readPart(reader); !part.done; part = await readPart(reader)) {
    size += part.value.byteLength;
    if (size > bytesMax) {
      await reader.cancel().catch(() => {});
      throw tooLarge(bytesMax);
    }
    if (keeps) chunks.push(part.value);
  }
  return joined(chunks, keeps ? size : 0);
}

async function readPart(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): Promise<ReadableStreamReadResult<Uint8Array>> {
  try {
    return await reader.read();
  } catch (error) {
    throw cutOff(error);
  }
}

function cutOff(error: unknown): AgentError {
  return new AgentError("malformed", "Cannot read the body: it was cut off", { cause: error });
}

function lateBody(secondsMax: number): AgentError {
  const message = `Cannot read the body: it did not arrive within ${secondsMax} seconds`;
  return new AgentError("too_slow", message);
}

function malformed(reason: string): AgentError {
  return new AgentError("malformed", `Cannot read the body: ${reason}`);
}

function tooLarge(bytesMax: number): AgentError {
  return new AgentError(
    "too_large",
    `Cannot read the body: it is over ${bytesMax} bytes, the maximum`,
  );
}
