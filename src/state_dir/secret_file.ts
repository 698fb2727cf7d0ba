// Files that hold a secret. It belongs in a file of its own: others may read the arguments and the environment of a
// process.

import { AgentError, systemReason } from "../domain/error.ts";
import { OTHERS } from "../runtime/regular_file.ts";

const SECRET_CHARS_MAX = 4096;
/**
 * What a header may contain: no control character, which could end it, and no space, which could split it.
 */
const SECRET = /^[\x21-\x7e]+$/;

/** A larger file is refused before it is read. */
const PRIVATE_BYTES_MAX = 64 * 1024;

/**
 * Reads a file that holds one word; a line break at its end is ignored.
 * @throws {AgentError} as readPrivateFile(), and `invalid_argument` for any other content, which the message never
 *   shows
 */
export async function readSecretFile(path: string): Promise<string> {
  const secret = (await readPrivateFile(path)).replace(/\r?\n$/, "");
  if (secret.length <= SECRET_CHARS_MAX && SECRET.test(secret)) return secret;
  const message = `Cannot use ${path}, expected one word of at most ${SECRET_CHARS_MAX} characters`;
  throw new AgentError("invalid_argument", message);
}

/**
 * Reads a file that holds a secret.
 * @throws {AgentError} `forbidden` for a file that others may read; `invalid_argument` for one that cannot be read or
 *   is too long
 */
async function readPrivateFile(path: string): Promise<string> {
  let text: string;
  let mode: number;
  try {
    const found = await Deno.stat(path);
    // Opening a pipe would wait for a writer.
    if (!found.isFile) throw new Error("it is not a regular file");
    if (found.size > PRIVATE_BYTES_MAX) {
      throw new Error(`it is over ${PRIVATE_BYTES_MAX} bytes long`);
    }
    mode = found.mode ?? 0;
    text = await Deno.readTextFile(path);
  } catch (error) {
    const message = `Cannot read ${path}: ${systemReason(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
  refuseOpen(path, mode);
  return text;
}

/** Refuses a file by its mode. @throws {AgentError} `forbidden` when others may read it */
export function refuseOpen(path: string, mode: number): void {
  const words = openWords(mode);
  if (words !== undefined) throw new AgentError("forbidden", `Cannot use ${path}: ${words}`);
}

/** Why a file is open to others, by its mode; undefined when only its owner may use it. */
export function openWords(mode: number): string | undefined {
  if ((mode & OTHERS) === 0) return undefined;
  return `its mode is ${(mode & 0o777).toString(8).padStart(4, "0")}, expected 0600`;
}
