// The curl command that does what a call does, quoted for a POSIX shell.

import { type AgentAddress, type ApiCall, bodyText, type Credentials, urlOf } from "./api_call.ts";

/** Characters of a word: Linux takes 128 KiB, and a character may have three bytes. */
const WORD_CHARS_MAX = 32 * 1024;
const END = "END_OF_BODY";

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
  const body = bodyText(call);
  if (body !== undefined) {
    // --data-raw: a text that begins with @ is a text, not a file.
    const large = body.length > WORD_CHARS_MAX;
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
  const input = body !== undefined && body.length > WORD_CHARS_MAX;
  // JSON has no line break, so that no line of it ends the text.
  return input ? `${line.join(" ")} <<'${END}'\n${body}\n${END}` : line.join(" ");
}

/** A word as a POSIX shell reads it back unchanged. */
export function shellQuoted(word: string): string {
  if (/^[A-Za-z0-9_./:@%+=,-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
