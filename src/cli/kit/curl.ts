// The curl command that does what a call does, quoted for a POSIX shell.

import { type AgentAddress, type ApiCall, bodyText, type Credentials, urlOf } from "./api_call.ts";

/** Characters of a word: Linux takes 128 KiB, and a character may have three bytes. */
const WORD_CHARS_MAX = 32 * 1024;
const END = "END_OF_BODY";
/**
 * What JSON leaves as it is and a terminal obeys. In JSON these stand in texts alone, where their codes
 * mean the same; see printable() of terminal.ts, which would write codes that JSON does not know.
 */
const SHOWN_AS_CODE = /[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/**
 * One shell command line, with the lines of its input where the body is too large for a word. A token
 * is read from its file when the line runs, and is not in it.
 */
export function curlLine(
  address: AgentAddress,
  call: ApiCall,
  { tokenFile, caFile }: Credentials = {},
): string {
  const words = ["curl", "-sS", "--fail-with-body"];
  if (address.kind === "socket") words.push("--unix-socket", address.path);
  if (caFile !== undefined && address.kind === "url") words.push("--cacert", caFile);
  if (call.method === "HEAD") words.push("--head");
  else if (call.method !== "GET") words.push("-X", call.method);
  for (const [name, value] of Object.entries(call.headers ?? {})) {
    words.push("-H", `${name}: ${value}`);
  }
  const body = bodyText(call)?.replace(SHOWN_AS_CODE, jsonCode);
  const large = body !== undefined && body.length > WORD_CHARS_MAX;
  if (body !== undefined) {
    // --data-raw: a text that begins with @ is a text, not a file.
    words.push("-H", "content-type: application/json");
    words.push(...(large ? ["--data-binary", "@-"] : ["--data-raw", body]));
  }
  const url = urlOf(address, call.path);
  // curl would read brackets and braces as patterns.
  if (/[[\]{}]/.test(url)) words.push("--globoff");
  words.push(url);
  const line = words.map(shellQuoted);
  if (tokenFile !== undefined) {
    const header = `"authorization: Bearer $(cat ${shellQuoted(tokenFile)})"`;
    line.splice(-1, 0, "-H", header);
  }
  // JSON has no line break, so that no line of it ends the text.
  return large ? `${line.join(" ")} <<'${END}'\n${body}\n${END}` : line.join(" ");
}

function jsonCode(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A word as a POSIX shell reads it back unchanged. */
export function shellQuoted(word: string): string {
  if (/^[A-Za-z0-9_./:@%+=,-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
