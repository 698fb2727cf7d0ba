// A secret has its own file: neither the arguments nor the environment of a process are a place for
// one, since others may read them.

import { AgentError, messageOf } from "../domain/error.ts";

/** Rights of group and others. */
const OTHERS = 0o077;
const SECRET_CHARS_MAX = 4096;
/** What may stand in a header: no control character can end it, no space can part it. */
const SECRET = /^[\x21-\x7e]+$/;

/** A larger file is refused before it is read. */
const PRIVATE_BYTES_MAX = 64 * 1024;

/**
 * Reads the one word that a file holds; an end of line behind it is not part of it.
 * @throws {AgentError} as readPrivateFile(), and `invalid_argument` for one that holds something else; the
 *   message never tells what
 */
export async function readSecretFile(path: string): Promise<string> {
  const secret = (await readPrivateFile(path)).replace(/\r?\n$/, "");
  if (secret.length <= SECRET_CHARS_MAX && SECRET.test(secret)) return secret;
  const message = `Cannot use ${path}: expected one word of at most ${SECRET_CHARS_MAX} characters`;
  throw new AgentError("invalid_argument", message);
}

/**
 * Reads a file that holds a secret.
 * @throws {AgentError} `forbidden` for a file that others may read, `invalid_argument` for one that cannot
 *   be read or is too long
 */
export async function readPrivateFile(path: string): Promise<string> {
  let text: string;
  let mode: number;
  try {
    const found = await Deno.stat(path);
    // Opening a pipe would wait for who writes to it.
    if (!found.isFile) throw new Error("it is not a regular file");
    if (found.size > PRIVATE_BYTES_MAX) {
      throw new Error(`it is over ${PRIVATE_BYTES_MAX} bytes long`);
    }
    mode = found.mode ?? 0;
    text = await Deno.readTextFile(path);
  } catch (error) {
    const message = `Cannot read ${path}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
  refuseOpen(path, mode);
  return text;
}

/** @throws {AgentError} `forbidden` for the mode of a file that others may read */
export function refuseOpen(path: string, mode: number): void {
  if ((mode & OTHERS) === 0) return;
  const shown = (mode & 0o777).toString(8).padStart(4, "0");
  throw new AgentError("forbidden", `Cannot use ${path}: its mode is ${shown}, expected 0600`);
}
