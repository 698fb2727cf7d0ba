// Describes how a program of the host ended, for errors and logs: bounded, and without secrets.

import { isJsonObject, type JsonValue } from "../domain/json.ts";
import { isSecretName, MASK, SECRET_ENDINGS } from "../domain/masking.ts";
import type { CommandResult } from "./program.ts";

/** Characters of each stream that an error shows. */
const SHOWN_CHARS_MAX = 2000;

/** The text for people, without log lines, which are JSON objects. */
export function messageOfOutput(stderr: string): string {
  return stderr.split("\n").filter((line) => !isLogLine(line)).join("\n").trim();
}

/** A bunyan record, which vmadm mixes into standard error when its debug level is set. */
function isLogLine(line: string): boolean {
  return line.startsWith('{"') && line.includes('"level":') && line.includes('"msg":');
}

/**
 * How a command ended, for an error message.
 * @param secrets texts to mask
 * @param problem what is wrong with standard output, instead of its text
 */
export function describeResult(
  result: CommandResult,
  secrets: readonly string[] = [],
  problem?: string,
): string {
  const end = result.signal === null
    ? `ended with exit code ${result.code}`
    : `was ended by ${result.signal}`;
  const output = problem === undefined
    ? shown(result.stdout.trim(), secrets)
    : masked(problem, secrets);
  const texts = [shown(messageOfOutput(result.stderr), secrets), output]
    .filter((text) => text !== "");
  return texts.length === 0 ? `${end} and wrote nothing` : `${end}: ${texts.join(" | ")}`;
}

/** Output as errors quote it: bounded and without secrets. */
export function shown(text: string, secrets: readonly string[] = []): string {
  const clean = masked(text, secrets);
  if (clean.length <= SHOWN_CHARS_MAX) return clean;
  return `${clean.slice(0, SHOWN_CHARS_MAX)}... (${clean.length} characters)`;
}

/** `"vnc_password": "x"`, `vnc_password: 'x'`, `vnc_password=x`, and the same cut off anywhere. */
const SECRET_PAIR = new RegExp(
  `((?:${SECRET_ENDINGS})["']?\\s*[:=]\\s*)` +
    `("(?:[^"\\\\]|\\\\.)*"?|'(?:[^'\\\\]|\\\\.)*'?|[^\\s,}]+)`,
  "gi",
);

/** Shorter secrets are only masked after their key, since the value may occur anywhere. */
const SECRET_CHARS_MIN = 4;

/** The secret texts of a payload, at any depth. */
export function secretsOf(payload: JsonValue | undefined): string[] {
  if (Array.isArray(payload)) return payload.flatMap(secretsOf);
  if (!isJsonObject(payload)) return [];
  return Object.entries(payload).flatMap(([key, value]) =>
    isSecretName(key) && typeof value === "string" ? [value] : secretsOf(value)
  );
}

/** Masks the given secrets, and the values of keys that name one. */
export function masked(text: string, secrets: readonly string[] = []): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret.length >= SECRET_CHARS_MIN) clean = clean.replaceAll(secret, MASK);
  }
  return clean.replace(SECRET_PAIR, `$1"${MASK}"`);
}
