// The tokens at rest: one file in the state folder that only its owner may read. It is changed by the
// command line, whether the agent runs or not, and read again by the agent within a second, so that a
// token that was revoked is refused without a restart.

import { dirname, join } from "@std/path";
import { AgentError, messageOf, systemCode } from "../domain/error.ts";
import { parseTokens, type Token, tokensText } from "../domain/token.ts";
import { absent } from "../runtime/regular_file.ts";
import {
  examineOwnFolder,
  readOwnFile,
  refuseOpen,
  stateFolderError,
  writeWhole,
} from "./own_file.ts";

/** The file's name in the state folder. */
export const TOKENS_NAME = "tokens.json";

const FILE_MODE = 0o600;
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
 * Changes the tokens. The new file is made under another name first, which also keeps two commands
 * from changing it at the same time.
 * @throws {AgentError} `not_found` without the folder; `conflict` while another command changes it; as
 *   examineOwnFolder()
 */
export async function changeTokenFile(
  path: string,
  change: (tokens: readonly Token[]) => readonly Token[],
): Promise<void> {
  examineOwnFolder(dirname(path));
  const next = `${path}.new`;
  const held = await Deno.open(next, { write: true, createNew: true, mode: FILE_MODE })
    .catch((error: unknown) => {
      if (!(error instanceof Deno.errors.AlreadyExists)) {
        throw stateFolderError(dirname(path), error);
      }
      const message = `Cannot change the tokens: another command is at work, or ${next} was left ` +
        "by one that was killed: then remove it";
      throw new AgentError("conflict", message);
    });
  try {
    using file = held;
    await writeWhole(file, tokensText(change(await readTokenFile(path))));
    await Deno.rename(next, path);
  } catch (error) {
    await Deno.remove(next).catch(absent);
    throw systemCode(error) === undefined ? error : stateFolderError(dirname(path), error);
  }
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
