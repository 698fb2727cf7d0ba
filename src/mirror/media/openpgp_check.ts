// Signatures of OpenPGP, checked by a decoder: what a vendor's server sends never meets the library in
// the agent's own process. See decoder/signature_work.ts for what is checked.

import { joinBodies } from "../../decoder/unpack/byte_source.ts";
import type { DecoderOptions, Decoders } from "../../decoder/pool.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { join } from "@std/path";
import { quote } from "../../domain/index/index_document.ts";
import { isIndexName } from "../../domain/index/index_path.ts";

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

// The keys that the operator trusts for signatures of vendors: files of a folder, each with one public
// key or several, as text or binary. A folder in it that is named after a distro holds the keys of that
// distro: then they alone count for it. Nothing is ever added to them from the network.

/** Files that hold keys, by their endings. */
const KEY_FILE = /^[^.].*\.(asc|gpg|pgp|key)$/i;
const FILES_MAX = 256;
/** Bytes of all keys that count for one file: a vendor's keyring has some 100 kB. */
const KEYS_BYTES_MAX = 8 * 1024 * 1024;

/** A file of keys as it is, read by a decoder. */
interface KeyFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** What lies in a folder of keys. */
interface KeyFolder {
  /** Names of key files at the top, sorted. */
  readonly files: readonly string[];
  /** Names of distros that have a folder of their own, sorted. */
  readonly distros: readonly string[];
}

/**
 * The files of keys that count for a distro, read again each time, so that a key that was taken away is no
 * longer trusted: those of the folder that is named after it, else those at the top.
 * @param distro null for a file of no distro, such as one of an address
 * @throws {AgentError} `invalid_argument` naming what is no key file or no folder of a distro, what leads
 *   out of the folder, or too many
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
 * What lies in the folder of keys.
 * @throws {AgentError} `invalid_argument` when it cannot be read, or something in it is not as it must be
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

/** @param root what no link may lead out of */
async function listed(folder: string, root: string): Promise<Listed> {
  const [files, folders]: [string[], string[]] = [[], []];
  try {
    const inside = `${await Deno.realPath(root)}/`;
    for await (const { name, isSymlink } of Deno.readDir(folder)) {
      const path = join(folder, name);
      if (name.startsWith(".")) continue;
      if (isSymlink && !(await Deno.realPath(path)).startsWith(inside)) {
        throw new Error(`${quote(name)} is a link that leads out of it`);
      }
      const { isFile, isDirectory } = await Deno.stat(path);
      if (isDirectory) folders.push(name);
      else if (KEY_FILE.test(name)) {
        if (!isFile) throw new Error(`${quote(name)} is no regular file`);
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
    if (size > bytesMax) throw new Error(`the keys have over ${KEYS_BYTES_MAX} bytes together`);
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
