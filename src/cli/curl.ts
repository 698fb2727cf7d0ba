// The curl command that does what a call does, quoted for a POSIX shell.

import { type AgentAddress, type ApiCall, bodyText, urlOf } from "./api_call.ts";

/** One shell command line. */
export function curlLine(address: AgentAddress, call: ApiCall): string {
  const words = ["curl", "-sS", "--fail-with-body"];
  if (address.kind === "socket") words.push("--unix-socket", address.path);
  if (call.method === "HEAD") words.push("--head");
  else if (call.method !== "GET") words.push("-X", call.method);
  for (const [name, value] of Object.entries(call.headers ?? {})) {
    words.push("-H", `${name}: ${value}`);
  }
  const body = bodyText(call);
  if (body !== undefined) {
    // --data-raw: a text that begins with @ is a text, not a file.
    words.push("-H", "content-type: application/json", "--data-raw", body);
  }
  const url = urlOf(address, call.path);
  // curl would read brackets and braces as patterns.
  if (/[[\]{}]/.test(url)) words.push("--globoff");
  words.push(url);
  return words.map(shellQuoted).join(" ");
}

/** A word as a POSIX shell reads it back unchanged. */
export function shellQuoted(word: string): string {
  if (/^[A-Za-z0-9_./:@%+=,-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
