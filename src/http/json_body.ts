// Reading request bodies: the type before the bytes, the bytes up to a limit and a time, and JSON
// that another program can read the same way.

import type { MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import { AgentError, messageOf } from "../domain/error.ts";
import { isFiniteJson, jsonDepth } from "../domain/json.ts";
import type { HttpEnv, HttpLimits } from "./app_deps.ts";

const REASON_CHARS_MAX = 200;

const JSON_TYPE = /^application\/(?:json|[\w.!#$&^+-]+\+json)$/;

/** How large a body may be, and how long it may take. */
export type BodyLimits = Pick<
  HttpLimits,
  "bodyBytesMax" | "smallBodyBytesMax" | "infoEntryBytesMax" | "bodySeconds" | "jsonDepthMax"
>;

/**
 * Refuses POST and PUT without a JSON content type, whether or not they have a body: a browser sends
 * such a type to a foreign host only after asking, and it is never given leave (document 2, sentence
 * 6; design, part 10). Paths and methods that do not exist are left to the answer for those.
 */
export const jsonOnly: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const { method } = c.req;
  const carriesBody = method === "POST" || method === "PUT" || method === "PATCH";
  if (carriesBody && matchedRoutes(c).some((route) => route.method !== "ALL")) {
    refuseOtherType(c.req.raw.headers);
  }
  await next();
};

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

/**
 * The body of a request as a JSON value; an empty body is an empty object, so that requests whose
 * parameters are all optional need none. Of equal keys the last one counts.
 * @throws {AgentError} `malformed`, `too_large`
 */
export async function readJson(
  request: Request,
  limits: BodyLimits,
): Promise<unknown> {
  const text = decode(await readBytes(request, bytesMaxOf(request, limits), limits.bodySeconds));
  if (text.trim() === "") return {};
  const value = parse(text);
  if (jsonDepth(value, limits.jsonDepthMax) > limits.jsonDepthMax) {
    throw malformed(`it is nested deeper than ${limits.jsonDepthMax} levels`);
  }
  if (!isFiniteJson(value)) throw malformed("it holds a number beyond the range of a double");
  return value;
}

/** Requests of which a few words are wanted, by the end of their path. */
const SMALL_BODY = /\/(?:cancel|retry|prune|sync|console-tickets)$/;
/** An info entry; written with escapes and spaces it may be larger than it is. */
const INFO_BODY = /\/jobs\/[^/]+\/info$/;
const INFO_WRITTEN_LARGER = 4;

function bytesMaxOf(
  { url }: Request,
  { bodyBytesMax, smallBodyBytesMax, infoEntryBytesMax }: BodyLimits,
): number {
  const [path = ""] = url.split("?", 1);
  if (SMALL_BODY.test(path)) return Math.min(smallBodyBytesMax, bodyBytesMax);
  if (INFO_BODY.test(path)) return Math.min(INFO_WRITTEN_LARGER * infoEntryBytesMax, bodyBytesMax);
  return bodyBytesMax;
}

async function readBytes(
  request: Request,
  bytesMax: number,
  secondsMax: number,
): Promise<Uint8Array> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > bytesMax) throw tooLarge(bytesMax);
  if (request.body === null) return new Uint8Array();
  const reader = request.body.getReader();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    // A body that broke off already cannot be canceled any more; reading has failed then.
    reader.cancel().catch(() => {});
  }, secondsMax * 1000);
  try {
    const bytes = await readAll(reader, bytesMax);
    if (late) throw malformed(`it did not arrive within ${secondsMax} seconds`);
    return bytes;
  } finally {
    clearTimeout(timer);
  }
}

async function readAll(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  bytesMax: number,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (let part = await readPart(reader); !part.done; part = await readPart(reader)) {
    size += part.value.byteLength;
    if (size > bytesMax) {
      await reader.cancel().catch(() => {});
      throw tooLarge(bytesMax);
    }
    chunks.push(part.value);
  }
  const bytes = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return bytes;
}

async function readPart(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): Promise<ReadableStreamReadResult<Uint8Array>> {
  try {
    return await reader.read();
  } catch (error) {
    throw new AgentError("malformed", "Cannot read the body: it broke off", { cause: error });
  }
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
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
