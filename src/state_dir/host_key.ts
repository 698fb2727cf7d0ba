// The key of a host, with which its agent signs calls to other agents. The private part is created at the first start
// and stays in the state folder; the public part is in the host's row.

import { join } from "@std/path";
import { AgentError } from "../domain/error.ts";
import { KEY_ALGORITHM } from "../domain/peer.ts";
import { readOwnFile, replaceOwnFile } from "./own_file.ts";
import { refuseOpen } from "./secret_file.ts";

/** The name of the file in the state folder. */
const HOST_KEY_NAME = "host.key";

/** The two parts of the key. */
export interface HostKey {
  readonly privateKey: CryptoKey;
  /** Its 32 bytes as base64url. */
  readonly publicKey: string;
}

/**
 * The key of the host of a state folder; a new one in a folder that has none.
 * @throws {AgentError} `forbidden` for a file that others may read; `invalid_argument` for one that holds something
 *   else; as replaceOwnFile()
 */
export async function openHostKey(stateDir: string): Promise<HostKey> {
  const path = join(stateDir, HOST_KEY_NAME);
  const found = await readOwnFile(path);
  if (found === undefined) {
    const text = await newKeyText();
    await replaceOwnFile(path, `${text}\n`);
    return await keyOf(text);
  }
  refuseOpen(path, found.mode);
  try {
    return await keyOf(found.text);
  } catch (cause) {
    const message =
      `Cannot use ${path}: it holds no key; once it is removed, the next start makes ` +
      "another, which other agents learn from the database";
    throw new AgentError("invalid_argument", message, { cause });
  }
}

/** A new key as the text of its file: the private and the public part, as JSON Web Keys write them. */
async function newKeyText(): Promise<string> {
  // Of a signing algorithm it is a pair.
  const { privateKey } = await crypto.subtle.generateKey(KEY_ALGORITHM, true, [
    "sign",
    "verify",
  ]) as CryptoKeyPair;
  const { d = "", x = "" } = await crypto.subtle.exportKey("jwk", privateKey);
  return `${d}.${x}`;
}

async function keyOf(text: string): Promise<HostKey> {
  const [d = "", x = ""] = text.trim().split(".");
  const key = { kty: "OKP", crv: KEY_ALGORITHM, d, x };
  const imported = (extractable: boolean) =>
    crypto.subtle.importKey("jwk", key, KEY_ALGORITHM, extractable, ["sign"]);
  // The import does not compare the public part with the private one; other agents would refuse every call.
  const { x: derived } = await crypto.subtle.exportKey("jwk", await imported(true));
  if (derived !== x) throw new TypeError("the public and the private key do not match");
  return { privateKey: await imported(false), publicKey: x };
}
