// OpenPGP signatures: of a clear-signed text, of a text with a detached signature, and of a file of
// any size. A signature by an untrusted key proves nothing; one that does not match is refused. The
// keys are the operator's, but they are parsed here too.

import type {
  CleartextMessage,
  KeyID,
  Message,
  PublicKey,
  Signature,
  SignaturePacket,
} from "openpgp";
import { AgentError, messageOf } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { type ByteStream, openByteSource, takeBodies } from "./byte_source.ts";
import type { DecoderWork } from "../decoder_message.ts";

/** Signatures per text or file. */
export const SIGNATURES_MAX = 8;
const KEY_ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const SIGNATURE_ARMOR = "-----BEGIN PGP SIGNATURE-----";

/** What to check a signature with. */
interface Trusted {
  readonly keys: PublicKey[];
  readonly date: Date;
}

/**
 * Checks a text: `{kind: "clearsigned"}` returns the signed text, which is not all of the input;
 * `{kind: "detached"}` expects the signature after the text.
 */
export const signatureWork: DecoderWork = async (request, input) => {
  const source = openByteSource(input);
  const trusted = await readTrusted(request, source);
  const [text = new Uint8Array(), signature = new Uint8Array()] = await takeBodies(
    source,
    request.lengths,
  );
  return request.kind === "clearsigned"
    ? await checkClearsigned(new TextDecoder().decode(text), trusted)
    : await checkDetached(text, signature, trusted);
};

/** Checks a file, whose bytes follow the signature. It is hashed once for all signatures. */
export const fileSignatureWork: DecoderWork = async (request, input) => {
  const source = openByteSource(input);
  const trusted = await readTrusted(request, source);
  const [signature = new Uint8Array()] = await takeBodies(source, request.lengths);
  const { createMessage, verify } = await import("openpgp");
  const read = await readSignatures(signature);
  const message = await createMessage({ binary: new Uint8Array() });
  await hashFile(read, message, trusted, source.rest());
  const { signatures } = await verify({
    message,
    signature: read,
    verificationKeys: trusted.keys,
    date: trusted.date,
    format: "binary",
  });
  return await judge(signatures);
};

async function checkClearsigned(document: string, { keys, date }: Trusted): Promise<JsonObject> {
  const { readCleartextMessage, verify } = await import("openpgp");
  const message: CleartextMessage = await readable(() =>
    readCleartextMessage({ cleartextMessage: document })
  );
  requireFew(message.getSigningKeyIDs().length);
  const { data, signatures } = await verify({ message, verificationKeys: keys, date });
  return { ...await judge(signatures), text: String(data) };
}

async function checkDetached(
  text: Uint8Array,
  signature: Uint8Array,
  { keys, date }: Trusted,
): Promise<JsonObject> {
  const { createMessage, verify } = await import("openpgp");
  const { signatures } = await verify({
    message: await createMessage({ binary: text }),
    signature: await readSignatures(signature),
    verificationKeys: keys,
    date,
  });
  return await judge(signatures);
}

/** The signatures of a file, armored or binary. */
async function readSignatures(bytes: Uint8Array): Promise<Signature> {
  const { readSignature } = await import("openpgp");
  const text = new TextDecoder().decode(bytes);
  const signature = await readable(() =>
    text.includes(SIGNATURE_ARMOR)
      ? readSignature({ armoredSignature: text })
      : readSignature({ binarySignature: bytes })
  );
  requireFew(signature.packets.length);
  return signature;
}

/** A repeated good signature costs as much as a new one. */
function requireFew(count: number): void {
  if (count > 0 && count <= SIGNATURES_MAX) return;
  const message = `Cannot read the signature: it holds ${count}, expected 1 to ${SIGNATURES_MAX}`;
  throw new AgentError("digest_mismatch", message);
}

async function readable<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const message = `Cannot read the signature: ${messageOf(error)}`;
    throw new AgentError("digest_mismatch", message, { cause: error });
  }
}

/** Parts of the library missing from its types: it accepts a precomputed digest. */
interface HashedPacket {
  hashed?: Uint8Array;
  readonly salt: Uint8Array | null;
  readonly hashAlgorithm: number;
  readonly signatureType: number;
  toHash(type: number, data: object, detached: boolean): Uint8Array;
}

/** Hash algorithms of the library, by their system names. @see RFC 9580, section 9.5 */
const HASHES: Readonly<Record<number, string>> = {
  8: "sha256",
  9: "sha384",
  10: "sha512",
  11: "sha224",
};
/** Signs bytes as they are; a text signature normalizes line endings. */
const BINARY_SIGNATURE = 0;

/**
 * Gives each signature of a trusted key the file's digest: one hash per algorithm and salt,
 * completed for each signature with its own data.
 */
async function hashFile(
  { packets }: Signature,
  message: Message<Uint8Array>,
  { keys }: Trusted,
  file: AsyncIterable<Uint8Array>,
): Promise<void> {
  const { createHash } = await import("node:crypto");
  type Hash = ReturnType<typeof createHash>;
  const hashes = new Map<string, Hash>();
  const wanted: { packet: HashedPacket; hash: Hash; end: Uint8Array }[] = [];
  const [literal] = message.packets;
  for (const packet of packets as Iterable<SignaturePacket & HashedPacket>) {
    const { issuerKeyID, hashAlgorithm, signatureType } = packet;
    if (!keys.some((key) => key.getKeys(issuerKeyID).length > 0)) continue;
    const algorithm = HASHES[hashAlgorithm];
    if (signatureType !== BINARY_SIGNATURE || algorithm === undefined) {
      throw refusedSignature(issuerKeyID, "it is not over the bytes of a file");
    }
    const salt = packet.salt ?? new Uint8Array();
    const key = `${algorithm} ${salt.join()}`;
    const hash = hashes.get(key) ?? createHash(algorithm).update(salt);
    hashes.set(key, hash);
    const end = packet.toHash(signatureType, literal as object, true).subarray(salt.length);
    wanted.push({ packet, hash, end });
  }
  for await (const part of file) {
    for (const hash of hashes.values()) hash.update(part);
  }
  for (const { packet, hash, end } of wanted) {
    packet.hashed = new Uint8Array(hash.copy().update(end).digest());
  }
}

/** The library's verdict on one signature; `verified` rejects for a bad one. */
interface SignatureResult {
  readonly keyID: KeyID;
  readonly verified: Promise<boolean | null>;
}

/** One good signature of a trusted key is enough; a bad one always fails. */
async function judge(results: readonly SignatureResult[]): Promise<JsonObject> {
  const unknown: string[] = [];
  let good = false;
  for (const { keyID, verified } of results) {
    try {
      await verified;
      good = true;
    } catch (error) {
      const words = messageOf(error);
      if (!words.startsWith("Could not find signing key")) throw refusedSignature(keyID, words);
      unknown.push(keyID.toHex());
    }
  }
  return good ? { kind: "good" } : { kind: "unknown_key", key_ids: unknown };
}

function refusedSignature(keyId: KeyID, words: string): AgentError {
  const message = `Cannot accept the signature of key ${keyId.toHex()}: ${words}`;
  return new AgentError("digest_mismatch", message);
}

/** The trusted keys, which precede the input, and the time of the check. */
async function readTrusted(request: JsonObject, source: ByteStream): Promise<Trusted> {
  const files = Array.isArray(request.keys) ? request.keys.filter(isJsonObject) : [];
  const keys: PublicKey[] = [];
  for (const { path, bytes } of files) {
    keys.push(...await readKeyFile(path, await source.take(Number(bytes))));
  }
  return { keys, date: new Date(String(request.now)) };
}

/** @throws {AgentError} `invalid_argument` naming a file that is not a key */
async function readKeyFile(path: JsonValue | undefined, bytes: Uint8Array): Promise<PublicKey[]> {
  const { readKey, readKeys } = await import("openpgp");
  try {
    // A binary key is not UTF-8; only the beginning matters.
    const text = new TextDecoder().decode(bytes);
    if (!text.includes(KEY_ARMOR)) {
      return (await readKeys({ binaryKeys: bytes })).map((key) => key.toPublic());
    }
    // A file may hold several blocks.
    const blocks = text.split(KEY_ARMOR).slice(1).map((block) => KEY_ARMOR + block);
    const keys: PublicKey[] = [];
    for (const armoredKey of blocks) keys.push((await readKey({ armoredKey })).toPublic());
    return keys;
  } catch (error) {
    const message = `Cannot read the key ${path}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}
