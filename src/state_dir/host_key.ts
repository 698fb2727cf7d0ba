// The key of a host, with which its agent signs calls of other agents. The private part is made at the first start and
// stays in the state folder; the public part is in the row of the host.

import { join } from "@std/path";
import { AgentError } from "../domain/error.ts";
import { KEY_ALGORITHM } from "../domain/peer.ts";
import { readOwnFile, replaceOwnFile } from "./own_file.ts";

/** The name of the file in the state folder. */
const HOST_KEY_NAME = "host.key";
/** Rights of group and others. */
const OTHERS = 0o077;

/** With what the agent of a host signs, and how others know it. */
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
  if ((found.mode & OTHERS) !== 0) {
    const shown = (found.mode & 0o777).toString(8).padStart(4, "0");
    const message = `Cannot use ${path}: its mode is ${shown}: expected 0600`;
    throw new AgentError("forbidden", message);
  }
  try {
    return await keyOf(found.text);
  } catch (cause) {
    const message =
      `Cannot use ${path}: it holds no key: once it is removed, the next start makes ` +
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
  const privateKey = await crypto.subtle.importKey("jwk", key, KEY_ALGORITHM, false, ["sign"]);
  return { privateKey, publicKey: x };
}
