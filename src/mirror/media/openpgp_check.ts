// Signatures of OpenPGP, checked by a decoder: what a vendor's server sends never meets the library in
// the agent's own process. See decoder/signature_work.ts for what is checked.

import { joinBodies } from "../../decoder/works/bodies.ts";
import type { DecoderOptions, Decoders } from "../../decoder/pool.ts";
import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import type { KeyFile } from "./key_folder.ts";

/** Bytes read from a file at a time. */
const PART_BYTES = 256 * 1024;

/** What became of a signature. */
export type Signed =
  | { readonly kind: "good"; readonly text: Uint8Array }
  /** No key of the operator made it. */
  | { readonly kind: "unknown_key"; readonly key_ids: readonly string[] };

/** What a signature is held against, and by whom. */
export interface SignatureCheck {
  readonly decoders: Decoders;
  readonly keys: readonly KeyFile[];
  readonly now: Date;
  readonly options: DecoderOptions;
}

/**
 * A clear-signed text.
 * @returns the text that was signed, which is not all of what was given
 * @throws {AgentError} `digest_mismatch` when the text is not the one that was signed; `invalid_argument`
 *   naming a file that is no key; `too_large` when it could not be read within the limits of a decoder
 */
export async function checkClearsigned(
  document: Uint8Array,
  check: SignatureCheck,
): Promise<Signed> {
  return await checkText("clearsigned", [document], check);
}

/**
 * A text and the signature beside it.
 * @param signature armored or binary
 * @throws {AgentError} as checkClearsigned()
 */
export async function checkDetached(
  signed: Uint8Array,
  signature: Uint8Array,
  check: SignatureCheck,
): Promise<Signed> {
  const checked = await checkText("detached", [signed, signature], check);
  return checked.kind === "good" ? { kind: "good", text: signed } : checked;
}

async function checkText(
  kind: "clearsigned" | "detached",
  bodies: readonly Uint8Array[],
  { decoders, keys, now, options }: SignatureCheck,
): Promise<Signed> {
  const { input } = joinBodies([...keys.map(({ bytes }) => bytes), ...bodies]);
  const request = { kind, ...requestOf({ keys, now }), lengths: joinBodies(bodies).lengths };
  return signedIn(await decoders.ask("signature", request, input, options));
}

/**
 * A file of any size and the signature beside it.
 * @throws {AgentError} as checkClearsigned()
 */
export async function checkDetachedFile(
  path: string,
  signature: Uint8Array,
  { decoders, keys, now, options }: SignatureCheck,
): Promise<Signed> {
  const request = { ...requestOf({ keys, now }), lengths: [signature.byteLength] };
  const { input } = joinBodies([...keys.map(({ bytes }) => bytes), signature]);
  // A stream: a large file takes minutes, which other work must not wait for.
  const work = decoders.stream("file_signature", request, partsOf(input, path), options);
  // It has none: whatever comes is not of the work.
  for await (const _ of work.output) throw strange();
  return signedIn(await work.answer);
}

function requestOf({ keys, now }: Pick<SignatureCheck, "keys" | "now">): JsonObject {
  return {
    keys: keys.map(({ path, bytes }) => ({ path, bytes: bytes.byteLength })),
    now: now.toISOString(),
  };
}

/** Each part is good until the next. */
async function* partsOf(head: Uint8Array, path: string): AsyncGenerator<Uint8Array> {
  yield head;
  const file = await Deno.open(path, { read: true });
  const buffer = new Uint8Array(PART_BYTES);
  try {
    for (let count = await file.read(buffer); count !== null; count = await file.read(buffer)) {
      yield buffer.subarray(0, count);
    }
  } finally {
    file.close();
  }
}

function signedIn(answer: JsonValue): Signed {
  const { kind, text = "", key_ids } = isJsonObject(answer) ? answer : {};
  if (kind === "good" && typeof text === "string") {
    return { kind, text: new TextEncoder().encode(text) };
  }
  if (kind === "unknown_key" && Array.isArray(key_ids)) {
    return { kind, key_ids: key_ids.map(String) };
  }
  throw strange();
}

function strange(): AgentError {
  const message = "Cannot check a signature: the decoder answered something else";
  return new AgentError("internal", message);
}
