// A call as a command that does the same from a terminal.

import { type Call, session } from "./client.ts";

/** Quotes a word for a POSIX shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * The curl command of a call. Where the console has a session, the command takes a token from the
 * environment: the console does not know it.
 */
export function curlOf(
  { method, path, body, headers = {}, file }: Call & {
    /** The name of a local file that is the body. */
    readonly file?: string;
  },
  origin = location.origin,
): string {
  const words = ["curl", "-sS", "--fail-with-body"];
  if (file !== undefined) words.push("-T", quoted(file));
  else if (method !== "GET") words.push("-X", method);
  if (usesToken()) words.push("-H", '"authorization: Bearer $ZONEWRIGHT_TOKEN"');
  for (const [name, value] of Object.entries(headers)) {
    words.push("-H", quoted(`${name}: ${value}`));
  }
  if (file === undefined && (method === "POST" || method === "PUT")) {
    words.push("-H", quoted("content-type: application/json"));
    words.push("--data-raw", quoted(JSON.stringify(body ?? {})));
  }
  words.push(quoted(origin + path));
  return words.join(" ");
}

/**
 * The command of zonewright with these words, for this agent.
 * @param named whether it names the agent's address even where that is the default
 */
export function cliOf(
  words: readonly string[],
  origin = location.origin,
  named = false,
): string {
  const token = usesToken() ? ["--token-file", '"$ZONEWRIGHT_TOKEN_FILE"'] : [];
  const usual = origin === "http://localhost:8780" || origin === "http://127.0.0.1:8780";
  const url = usual && !named ? [] : ["--url", quoted(origin)];
  return ["zonewright", ...words.map(quoted), ...url, ...token].join(" ");
}

/** The words of a command that runs a workflow. */
export const RUN_WORDS = "job run WORKFLOW --follow".split(" ");

/** The words of a command that makes a machine of a file. */
export const CREATE_WORDS = "machine create -f vm.json --iso installer.iso --follow".split(" ");

function usesToken(): boolean {
  return session.value?.csrf !== null && session.value?.csrf !== undefined;
}
