// Signatures of OpenPGP: of a text that holds its own signature, and of bytes that are signed beside.
// The library is loaded with the first signature. A signature by a key that is not trusted says
// nothing; one that does not fit what it signs is refused by whoever asks.

import type { KeyID, PublicKey } from "openpgp";
import { AgentError, messageOf } from "../domain/error.ts";

/** What became of a signature. */
export type Signed =
  | { readonly kind: "good"; readonly text: string }
  /** No key of the operator made it. */
  | { readonly kind: "unknown_key"; readonly key_ids: readonly string[] };

/** What a signature is held against. */
export interface TrustedKeys {
  readonly keys: readonly PublicKey[];
  readonly now: Date;
}

/**
 * A clear-signed text.
 * @returns the text that was signed, which is not all of what was given
 * @throws {AgentError} `digest_mismatch` when the text is not the one that was signed
 */
export async function checkClearsigned(document: string, trusted: TrustedKeys): Promise<Signed> {
  const { readCleartextMessage, verify } = await import("openpgp");
  const message = await readable(() => readCleartextMessage({ cleartextMessage: document }));
  const { data, signatures } = await verify({
    message,
    verificationKeys: [...trusted.keys],
    date: trusted.now,
  });
  return await judge(signatures, String(data));
}

/**
 * A text and the signature beside it.
 * @param signature armored or binary
 * @throws {AgentError} `digest_mismatch` when the text is not the one that was signed
 */
export async function checkDetached(
  signed: Uint8Array,
  signature: Uint8Array,
  trusted: TrustedKeys,
): Promise<Signed> {
  const { createMessage, verify } = await import("openpgp");
  const { signatures } = await verify({
    message: await createMessage({ binary: signed }),
    signature: await readSignatureBytes(signature),
    verificationKeys: [...trusted.keys],
    date: trusted.now,
  });
  return await judge(signatures, new TextDecoder().decode(signed));
}

/**
 * A file of any size and the signature beside it.
 * @throws {AgentError} `digest_mismatch` when the file is not the one that was signed
 */
export async function checkDetachedFile(
  path: string,
  signature: Uint8Array,
  trusted: TrustedKeys,
): Promise<Signed> {
  const { createMessage, verify } = await import("openpgp");
  const file = await Deno.open(path, { read: true });
  const { data, signatures } = await verify({
    message: await createMessage({ binary: file.readable }),
    signature: await readSignatureBytes(signature),
    verificationKeys: [...trusted.keys],
    date: trusted.now,
    format: "binary",
  });
  // The signature is compared once the file has been read to its end. Its bytes come by a reader:
  // the library's stream cannot be walked in another way.
  const reader = (data as ReadableStream<Uint8Array>).getReader();
  for (let ended = false; !ended;) ended = (await reader.read()).done;
  return await judge(signatures, "");
}

async function readSignatureBytes(bytes: Uint8Array) {
  const { readSignature } = await import("openpgp");
  const text = new TextDecoder().decode(bytes);
  return await readable(() =>
    text.includes("-----BEGIN PGP SIGNATURE-----")
      ? readSignature({ armoredSignature: text })
      : readSignature({ binarySignature: bytes })
  );
}

async function readable<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const message = `Cannot read the signature: ${messageOf(error)}`;
    throw new AgentError("digest_mismatch", message, { cause: error });
  }
}

/** What the library says of one signature; `verified` rejects for one that is not good. */
interface SignatureResult {
  readonly keyID: KeyID;
  readonly verified: Promise<boolean | null>;
}

/** One good signature by a trusted key is enough; one that is bad is never made up for. */
async function judge(results: readonly SignatureResult[], text: string): Promise<Signed> {
  const unknown: string[] = [];
  let good = false;
  for (const { keyID, verified } of results) {
    try {
      await verified;
      good = true;
    } catch (error) {
      const words = messageOf(error);
      if (!words.startsWith("Could not find signing key")) {
        const message = `Cannot accept the signature of key ${keyID.toHex()}: ${words}`;
        throw new AgentError("digest_mismatch", message, { cause: error });
      }
      unknown.push(keyID.toHex());
    }
  }
  return good ? { kind: "good", text } : { kind: "unknown_key", key_ids: unknown };
}
