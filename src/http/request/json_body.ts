// Reading request bodies: the type before the bytes, the bytes up to a limit and a time, and JSON
// that another program can read the same way.

import type { Context, MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import { AgentError, messageOf } from "../../domain/error.ts";
import { isFiniteJson, jsonWeight, measureJson } from "../../domain/json.ts";
import type { Reservation } from "../../domain/memory_budget.ts";
import type { HttpEnv, HttpLimits } from "../context.ts";
import type { MemoryEnv } from "./request_memory.ts";
import { joined } from "../answer/text_answer.ts";

const REASON_CHARS_MAX = 200;

const JSON_TYPE = /^application\/(?:json|[\w.!#$&^+-]+\+json)$/;

/** How large the body of one route may be, and how long it may take. */
interface BodyLimit {
  readonly bytesMax: number;
  readonly depthMax: number;
  readonly secondsMax: number;
}

/** The body of a route that takes a document: a workflow, a job, a machine, a medium. */
export function wholeBody({ bodyBytesMax, bodySeconds, jsonDepthMax }: HttpLimits): BodyLimit {
  return { bytesMax: bodyBytesMax, depthMax: jsonDepthMax, secondsMax: bodySeconds };
}

/** The body of a route that needs a few words, such as a cancel. */
export function smallBody(limits: HttpLimits): BodyLimit {
  const bytesMax = Math.min(limits.smallBodyBytesMax, limits.bodyBytesMax);
  return { ...wholeBody(limits), bytesMax };
}

const INFO_WRITTEN_LARGER = 4;

/** The body that is an info entry; written with escapes and spaces it may be larger than it is. */
export function infoBody(limits: HttpLimits): BodyLimit {
  const bytesMax = Math.min(INFO_WRITTEN_LARGER * limits.infoEntryBytesMax, limits.bodyBytesMax);
  return { ...wholeBody(limits), bytesMax };
}

/** The route whose body is a file of any type; it reads and bounds it itself. */
export const UPLOAD_PATH = "/agent/v1/media/library/:name";

/**
 * Refuses POST and PUT without a JSON content type, whether or not they have a body: a browser sends such a
 * type to a foreign host only after asking, and it is never given leave (document 2, sentence 6). Paths and
 * methods that do not exist are left to the answer for those.
 */
export const jsonOnly: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const { method } = c.req;
  const carriesBody = method === "POST" || method === "PUT" || method === "PATCH";
  if (carriesBody && matchedRoutes(c).some(takesJson)) {
    refuseOtherType(c.req.raw.headers);
  }
  await next();
};

function takesJson({ method, path }: { readonly method: string; readonly path: string }): boolean {
  return method !== "ALL" && path !== UPLOAD_PATH;
}

/** @throws {AgentError} `not_acceptable_type` */
function refuseOtherType(headers: Headers): void {
  const sent = headers.get("content-type") ?? "";
  const [essence = "", ...parameters] = sent.toLowerCase().split(";").map((part) => part.trim());
  if (!JSON_TYPE.test(essence)) {
    const found = sent === "" ? "none" : JSON.stringify(sent.slice(0, REASON_CHARS_MAX));
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

/** Bytes of a body that never waits behind larger ones. */
const SMALL_BYTES = 64 * 1024;
/** Bytes of a body that waits for nobody, such as a cancel's: 40 KiB with its value, and not counted. */
const TINY_BYTES = 1024;
/**
 * Values in one body, each member of an object and each element of a list counted: what 2 MiB of a
 * document hold, and few enough that the value takes some 50 MiB at most.
 */
export const BODY_VALUES_MAX = 500_000;

/**
 * The body of a request as a JSON value; an empty body is an empty object, so that requests whose
 * parameters are all optional need none. Of equal keys the last one counts. What it takes in memory
 * is reserved before it is read, and before it is parsed, until the request is answered.
 * @throws {AgentError} `malformed`, `too_large`, `overloaded`
 */
export async function readJson<E extends MemoryEnv>(
  c: Context<E>,
  { bytesMax, depthMax, secondsMax }: BodyLimit,
): Promise<unknown> {
  const request = c.req.raw;
  const length = contentLengthOf(request.headers);
  const declared = length ?? bytesMax;
  if (declared > bytesMax) throw tooLarge(bytesMax);
  if (request.body === null) return {};
  const reserve = reservationsOf(c, declared);
  // Beside a transfer encoding a length says nothing: what comes is held to it all the same.
  const reading = { bytesMax: declared, secondsMax };
  const held = await reserve("body", declared).catch(async (error: unknown) => {
    // A caller who is still sending would not see the answer.
    await readBytes(request.body, { ...reading, keeps: false });
    throw error;
  });
  // The runtime holds a body to the length that it declares, and gives it whole for less than as a stream. But
  // it reads on when a body was given up for being late: what it holds then is little only of a small one.
  const isHeld = length !== null && !request.headers.has("transfer-encoding");
  const bytes = isHeld && declared <= SMALL_BYTES
    ? await readDeclared(request, secondsMax)
    : await readBytes(request.body, { ...reading, keeps: true });
  if (bytes.length > declared) throw tooLarge(bytesMax);
  held?.resize(bytes.length);
  const measure = measureJson(bytes);
  if (measure.depth > depthMax) throw malformed(`it is nested deeper than ${depthMax} levels`);
  if (measure.values > BODY_VALUES_MAX) {
    const message = `Cannot read the body: it holds over ${BODY_VALUES_MAX} values`;
    throw new AgentError("too_large", message);
  }
  await reserve("value", jsonWeight(bytes, measure));
  const text = decode(bytes);
  held?.release();
  if (text.trim() === "") return {};
  const value = parse(text);
  if (measure.wideNumbers && !isFiniteJson(value)) {
    throw malformed("it holds a number beyond the range of a double");
  }
  return value;
}

/**
 * Bytes of the body as the request says, null where it does not.
 * @throws {AgentError} `malformed` for a length that was sent twice, which the runtime accepts when both agree
 */
export function contentLengthOf(headers: Headers): number | null {
  const header = headers.get("content-length");
  if (header === null || /^\d+$/.test(header)) return header === null ? null : Number(header);
  const shown = JSON.stringify(header.slice(0, REASON_CHARS_MAX));
  throw malformed(`Content-Length is ${shown}, expected one number`);
}

/** Reserves memory for a body of this size and for its value, in the account of its size. */
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

/** Whether the body of a request is so large that its answer is better not made in memory. */
export function isLarge({ req }: Context): boolean {
  return !(Number(req.header("content-length")) <= SMALL_BYTES);
}

/** Reads a body whose length is known and within its limit. */
async function readDeclared(request: Request, secondsMax: number): Promise<Uint8Array> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(lateBody(secondsMax)), secondsMax * 1000);
  try {
    return await Promise.race([request.bytes().catch(brokeOff), late]);
  } finally {
    clearTimeout(timer);
  }
}

interface Reading {
  readonly bytesMax: number;
  readonly secondsMax: number;
  /** Whether anybody wants the bytes. */
  readonly keeps: boolean;
}

async function readBytes(
  body: ReadableStream<Uint8Array> | null,
  { bytesMax, secondsMax, keeps }: Reading,
): Promise<Uint8Array> {
  if (body === null) return new Uint8Array();
  const reader = body.getReader();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    // A body that broke off already cannot be canceled any more; reading has failed then.
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
): Promise<Uint8Array> {
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
    return brokeOff(error);
  }
}

/** @throws {AgentError} `malformed` always */
function brokeOff(error: unknown): never {
  throw new AgentError("malformed", "Cannot read the body: it broke off", { cause: error });
}

function lateBody(secondsMax: number): AgentError {
  return malformed(`it did not arrive within ${secondsMax} seconds`);
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });

function decode(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    throw new AgentError("malformed", "Cannot read the body: it is not UTF-8", { cause: error });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const reason = messageOf(error).slice(0, REASON_CHARS_MAX);
    throw new AgentError("malformed", `Cannot read the body as JSON: ${reason}`, { cause: error });
  }
}

function malformed(reason: string): AgentError {
  return new AgentError("malformed", `Cannot read the body: ${reason}`);
}

function tooLarge(bytesMax: number): AgentError {
  return new AgentError("too_large", `Cannot read the body: it is over ${bytesMax} bytes`);
}
