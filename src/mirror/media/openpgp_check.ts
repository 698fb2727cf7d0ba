// Checks OpenPGP signatures in a decoder, so that a vendor's bytes never meet the library in the agent's own process.
// See decoder/work/signature.ts for what is checked.
//
// The keys that the operator trusts are files in a folder, armored or binary, with one or more public keys each. A
// subfolder named after a distro holds the keys of that distro and replaces the others for it. Nothing is ever added
// from the network.

import { joinBodies } from "../../decoder/work/byte_source.ts";
import type { DecoderOptions } from "../../decoder/work_order.ts";
import type { Decoders } from "../../decoder/pool.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { join } from "@std/path";
import { isIndexName, quote } from "../../domain/index/index_document.ts";
import { PART_BYTES } from "./hash.ts";

/** The signed text, or the ids of the unknown keys that signed it. */
export type Signed =
  | { readonly kind: "good"; readonly text: Uint8Array }
  /** None of the trusted keys made it. */
  | { readonly kind: "unknown_key"; readonly key_ids: readonly string[] };

/** What to check a signature with. */
export interface SignatureCheck {
  readonly decoders: Decoders;
  readonly keys: readonly KeyFile[];
  readonly now: Date;
  readonly options: DecoderOptions;
}

/**
 * Checks a clear-signed text.
 * @returns the signed text, which is not all of the input
 * @throws {AgentError} `digest_mismatch` when the text is not the signed one; `invalid_argument`
 *   naming a file that is not a key; `too_large` when a decoder could not read it within its limits
 */
export async function checkClearsigned(
  document: Uint8Array,
  check: SignatureCheck,
): Promise<Signed> {
  return await checkText("clearsigned", [document], check);
}

/**
 * Checks a text and its detached signature.
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
 * Checks a file of any size and its detached signature.
 * @throws {AgentError} as checkClearsigned()
 */
export async function checkDetachedFile(
  path: string,
  signature: Uint8Array,
  { decoders, keys, now, options }: SignatureCheck,
): Promise<Signed> {
  const request = { ...requestOf({ keys, now }), lengths: [signature.byteLength] };
  const { input } = joinBodies([...keys.map(({ bytes }) => bytes), signature]);
  // Streamed, since a large file takes minutes and other work must not wait for it.
  const work = decoders.stream("file_signature", request, partsOf(input, path), options);
  // There is no output to expect: anything received is a defect.
  for await (const _ of work.output) throw strange("sent output, expected none");
  return signedIn(await work.answer);
}

function requestOf({ keys, now }: Pick<SignatureCheck, "keys" | "now">): JsonObject {
  return {
    keys: keys.map(({ path, bytes }) => ({ path, bytes: bytes.byteLength })),
    now: now.toISOString(),
  };
}

/** The head, then the file in parts; each is valid until the next one. */
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
  throw strange("answered with neither, expected the signed text or the ids of unknown keys");
}

function strange(did: string): AgentError {
  const message = `Cannot check a signature: the decoder ${did}`;
  return new AgentError("internal", message);
}

const KEY_FILE = /^[^.].*\.(asc|gpg|pgp|key)$/i;
const FILES_MAX = 256;
/** Bytes of all keys used for one file; a vendor's keyring has about 100 kB. */
const KEYS_BYTES_MAX = 8 * 1024 * 1024;

/** A key file, not parsed here: a decoder does that. */
interface KeyFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

interface KeyFolder {
  /** Names of the key files at the top, sorted. */
  readonly files: readonly string[];
  /** Names of distros with their own folder, sorted. */
  readonly distros: readonly string[];
}

/**
 * The key files for a distro: those of its own folder, else those at the top. They are read each
 * time, so that a removed key is no longer trusted.
 * @param distro null for a file of no distro, such as one of an address
 * @throws {AgentError} `invalid_argument` naming what is not a key file or distro folder, what leads
 *   out of the folder, or too many files
 */
export async function readKeyFolder(folder: string, distro: string | null): Promise<KeyFile[]> {
  const { files, distros } = await lookAtKeys(folder);
  const own = distro !== null && distros.includes(distro);
  const names = own ? (await listed(join(folder, distro), folder)).files : files;
  const place = own ? join(folder, distro) : folder;
  if (names.length > FILES_MAX) {
    throw refused(place, `it has ${names.length} files, expected at most ${FILES_MAX}`);
  }
  const keys: KeyFile[] = [];
  let size = 0;
  for (const name of names) {
    const path = join(place, name);
    const bytes = await readKeyFile(path, KEYS_BYTES_MAX - size);
    size += bytes.byteLength;
    keys.push({ path, bytes });
  }
  return keys;
}

/**
 * Lists the folder of keys.
 * @throws {AgentError} `invalid_argument` when it cannot be read or holds anything unexpected
 */
export async function lookAtKeys(folder: string): Promise<KeyFolder> {
  const { files, folders } = await listed(folder, folder);
  const strange = folders.find((name) => !isIndexName(name));
  if (strange !== undefined) {
    throw refused(folder, `${quote(strange)} in it cannot be the name of a distro`);
  }
  return { files, distros: folders };
}

interface Listed {
  readonly files: string[];
  readonly folders: string[];
}

/** @param root folder that no link may leave */
async function listed(folder: string, root: string): Promise<Listed> {
  const [files, folders]: [string[], string[]] = [[], []];
  try {
    const inside = `${await Deno.realPath(root)}/`;
    for await (const { name, isSymlink } of Deno.readDir(folder)) {
      const path = join(folder, name);
      if (name.startsWith(".")) continue;
      if (isSymlink && !(await Deno.realPath(path)).startsWith(inside)) {
        throw new Error(`${quote(name)} is a link out of it`);
      }
      const { isFile, isDirectory } = await Deno.stat(path);
      if (isDirectory) folders.push(name);
      else if (KEY_FILE.test(name)) {
        if (!isFile) throw new Error(`${quote(name)} is not a regular file`);
        files.push(name);
      }
    }
  } catch (error) {
    throw refused(folder, messageOf(error), error);
  }
  return { files: files.sort(), folders: folders.sort() };
}

async function readKeyFile(path: string, bytesMax: number): Promise<Uint8Array> {
  try {
    const { size } = await Deno.stat(path);
    if (size > bytesMax) {
      throw new Error(`the keys have more than ${KEYS_BYTES_MAX} bytes together`);
    }
    return await Deno.readFile(path);
  } catch (error) {
    const message = `Cannot read the key ${path}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}

function refused(folder: string, reason: string, cause?: unknown): AgentError {
  const message = `Cannot read the folder of keys ${folder}: ${reason}`;
  return new AgentError("invalid_argument", message, { cause });
}
