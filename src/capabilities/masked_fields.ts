// Log lines without secrets: a body that logs the params of its job logs the passwords in them too.
// Which names are those of secrets is told by domain/secret_names.ts alone.

import { isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import { isSecretName, MASK } from "../domain/secret_names.ts";
import { masked } from "../host/vmadm/secret_text.ts";

/** The fields with a mask in the place of every value whose name is that of a secret. */
export function maskedFields(fields: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      isSecretName(name) ? MASK : maskedValue(value),
    ]),
  );
}

/** Nested as deeply as a guest may send, which bounds the recursion. */
function maskedValue(value: JsonValue): JsonValue {
  if (typeof value === "string") return masked(value);
  if (Array.isArray(value)) return value.map(maskedValue);
  return isJsonObject(value) ? maskedFields(value) : value;
}
