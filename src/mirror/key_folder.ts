// The keys that the operator trusts for signatures of vendors: files of a folder, each with one public
// key or several, as text or binary. Nothing is ever added to them from the network.

import { join } from "@std/path";
import type { PublicKey } from "openpgp";
import { AgentError, messageOf } from "../domain/error.ts";

/** Files that hold keys, by their endings. */
const KEY_FILE = /^[^.].*\.(asc|gpg|pgp|key)$/i;
const FILES_MAX = 256;
const FILE_BYTES_MAX = 4 * 1024 * 1024;
const ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

/**
 * Every key of the folder, read anew, so that a key that was taken away is no longer trusted.
 * @throws {AgentError} `invalid_argument` naming a file that is no key, or too many
 */
export async function readKeyFolder(folder: string): Promise<PublicKey[]> {
  const { readKey, readKeys } = await import("openpgp");
  const keys: PublicKey[] = [];
  for (const name of await keyFiles(folder)) {
    const path = join(folder, name);
    try {
      const bytes = await Deno.readFile(path);
      if (bytes.byteLength > FILE_BYTES_MAX) throw new Error(`it has over ${FILE_BYTES_MAX} bytes`);
      // Bytes of a binary key are no UTF-8; only the beginning is looked at.
      const text = new TextDecoder().decode(bytes);
      const found = text.includes(ARMOR)
        ? await armoredKeys(text, async (armoredKey) => await readKey({ armoredKey }))
        : await readKeys({ binaryKeys: bytes });
      keys.push(...found.map((key) => key.toPublic()));
    } catch (error) {
      const message = `Cannot read the key ${path}: ${messageOf(error)}`;
      throw new AgentError("invalid_argument", message, { cause: error });
    }
  }
  return keys;
}

async function keyFiles(folder: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const { name } of Deno.readDir(folder)) {
      if (KEY_FILE.test(name)) names.push(name);
    }
  } catch (error) {
    const message = `Cannot read the folder of keys ${folder}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
  if (names.length > FILES_MAX) {
    const message = `Cannot read the folder of keys ${folder}: it has ${names.length} files, ` +
      `expected at most ${FILES_MAX}`;
    throw new AgentError("invalid_argument", message);
  }
  return names.sort();
}

/** A file may hold several blocks, one after another. */
async function armoredKeys<T>(text: string, read: (block: string) => Promise<T>): Promise<T[]> {
  const blocks = text.split(ARMOR).slice(1).map((block) => ARMOR + block);
  return await Promise.all(blocks.map(read));
}
