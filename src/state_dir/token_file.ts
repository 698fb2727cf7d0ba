// The tokens at rest: one file in the state folder that only its owner may read. It is changed by the
// command line, whether the agent runs or not, and read again by the agent within a second, so that a
// token that was revoked is refused without a restart.

import { dirname, join } from "@std/path";
import { AgentError, messageOf } from "../domain/error.ts";
import { parseTokens, type Token, tokensText } from "../domain/token.ts";
import { aloneIn } from "../runtime/folder_lock.ts";
import { absent } from "../runtime/regular_file.ts";
import { examineOwnFolder, readOwnFile, replaceOwnFile } from "./own_file.ts";
import { refuseOpen } from "./secret_file.ts";

/** The file's name in the state folder. */
export const TOKENS_NAME = "tokens.json";

/** Milliseconds between two checks whether the file has changed. */
const FRESH_MS = 1000;

/** Where the tokens of an agent are. */
export function tokenFilePath(stateDir: string): string {
  return join(stateDir, TOKENS_NAME);
}

/**
 * Reads the tokens; none when there is no file.
 * @throws {AgentError} `invalid_argument` for a damaged file; `forbidden` for one that others may read,
 *   and as readOwnFile()
 */
export async function readTokenFile(path: string): Promise<readonly Token[]> {
  const found = await readOwnFile(path).catch(absent);
  if (found === undefined) return [];
  refuseOpen(path, found.mode);
  return parseTokens(parsed(path, found.text));
}

function parsed(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const message = `Cannot read ${path}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}

/**
 * Changes the tokens, one command at a time.
 * @param note takes a line about waiting for another command
 * @throws {AgentError} `not_found` without the folder; as examineOwnFolder()
 */
export async function changeTokenFile(
  path: string,
  change: (tokens: readonly Token[]) => readonly Token[],
  note?: (line: string) => void,
): Promise<void> {
  const folder = dirname(path);
  examineOwnFolder(folder);
  await aloneIn(folder, async () => {
    await replaceOwnFile(path, tokensText(change(await readTokenFile(path))));
  }, { note });
}

/**
 * The tokens as the agent asks for them: read again when the file has changed. Asking more than once
 * a second reads nothing.
 * @param nowMs a clock that never goes back
 */
export function openTokenBook(
  path: string,
  nowMs: () => number,
): { readonly tokens: () => Promise<readonly Token[]> } {
  let known: Promise<readonly Token[]> | undefined;
  let readAtMs = 0;
  return {
    tokens() {
      if (known === undefined || nowMs() - readAtMs >= FRESH_MS) {
        readAtMs = nowMs();
        known = readTokenFile(path);
      }
      return known;
    },
  };
}
