// Secrets in what is written to and read from host programs: texts that go into errors and logs
// must not carry them.

import { isSecretName, MASK, SECRET_ENDINGS } from "../../domain/secret_names.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";

/** `"vnc_password": "x"`, `vnc_password: 'x'`, `vnc_password=x`, and such texts cut anywhere. */
const SECRET_PAIR = new RegExp(
  `((?:${SECRET_ENDINGS})["']?\\s*[:=]\\s*)` +
    `("(?:[^"\\\\]|\\\\.)*"?|'(?:[^'\\\\]|\\\\.)*'?|[^\\s,}]+)`,
  "gi",
);

/** Shorter secrets are masked by their key only: their value would be found everywhere. */
const SECRET_CHARS_MIN = 4;

/** The secret texts of a payload, at any depth. */
export function secretsOf(payload: JsonValue | undefined): string[] {
  if (Array.isArray(payload)) return payload.flatMap(secretsOf);
  if (!isJsonObject(payload)) return [];
  return Object.entries(payload).flatMap(([key, value]) =>
    isSecretName(key) && typeof value === "string" ? [value] : secretsOf(value)
  );
}

/** A text without the given secrets and without the values of keys that name a secret. */
export function masked(text: string, secrets: readonly string[] = []): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret.length >= SECRET_CHARS_MIN) clean = clean.replaceAll(secret, MASK);
  }
  return clean.replace(SECRET_PAIR, `$1"${MASK}"`);
}

/** A machine as vmadm describes it, without the passwords of its console. */
export function withoutSecrets(machine: JsonObject): JsonObject {
  const { vnc_password: _vnc, spice_password: _spice, ...rest } = machine;
  return rest;
}
