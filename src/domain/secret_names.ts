// Names of fields whose values are secrets. Logs, errors and answers to callers who may only look mask
// what stands under them.

/** What stands in the place of a secret. */
export const MASK = "***";

/** How the names of secrets end, as a part of a regular expression. */
export const SECRET_ENDINGS =
  "password|passwd|passphrase|_pw|secret|private_key|api_key|access_key|token";

const SECRET_NAME = new RegExp(`(?:${SECRET_ENDINGS})$`, "i");

/** Objects of which each value is a secret, whatever its name. */
const SECRET_OBJECTS: ReadonlySet<string> = new Set(
  ["customer_metadata", "internal_metadata", "set_customer_metadata", "set_internal_metadata"],
);

/** Whether a field of this name holds a secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** Whether every member of a field of this name is a secret. */
export function holdsSecrets(name: string): boolean {
  return SECRET_OBJECTS.has(name);
}
