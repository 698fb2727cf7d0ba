// Tags and customer metadata: flat objects of scalars, which vmadm keeps beside a machine.

import { type Check, type Findings, text } from "../field_check.ts";
import { isJsonObject, type JsonObject } from "../json.ts";

/** The tag by which a machine tells the job that made it; only the agent sets it. */
export const JOB_TAG = "zonewright_job";

const ENTRIES_MAX = 64;
const KEY_CHARS_MAX = 255;
/** A key as it can be set and removed. */
const KEY = /^[^\p{Cc}]{1,255}$/u;
const KEY_WORDS = `a name of 1 to ${KEY_CHARS_MAX} characters, none of them a control character`;
/** Characters of one value; user-data of a guest's first boot travels in customer_metadata. */
const VALUE_CHARS_MAX = 65_536;

/** The name of an entry. */
export const metadataKey: Check = text(KEY, KEY_WORDS);

/** A flat object of texts, numbers and booleans. */
export const metadata: Check = (value, field, findings) => flat(value, field, findings);

/** As metadata, without the agent's own tag. */
export const tags: Check = (value, field, findings) => {
  if (isJsonObject(value) && Object.hasOwn(value, JOB_TAG)) {
    findings.add(`${field}.${JOB_TAG}`, "Invalid", "is set by the agent itself");
    return undefined;
  }
  return flat(value, field, findings);
};

function flat(value: unknown, field: string, findings: Findings): JsonObject | undefined {
  if (!isJsonObject(value)) {
    findings.add(field, "Invalid", "must be an object of texts, numbers and booleans");
    return undefined;
  }
  const entries = Object.entries(value);
  if (entries.length > ENTRIES_MAX) {
    findings.add(field, "TooLarge", `must have at most ${ENTRIES_MAX} entries`);
    return undefined;
  }
  for (const [key, inner] of entries) checkEntry(key, inner, field, findings);
  return Object.fromEntries(entries);
}

function checkEntry(key: string, value: unknown, field: string, findings: Findings): void {
  const path = `${field}.${key.slice(0, KEY_CHARS_MAX)}`;
  if (!KEY.test(key) || key.length > KEY_CHARS_MAX || key === "__proto__") {
    findings.add(path, "Invalid", `must have ${KEY_WORDS}`);
  } else if (!["string", "number", "boolean"].includes(typeof value)) {
    findings.add(path, "Invalid", "must be a text, a number, true or false");
  } else if (typeof value === "string" && value.length > VALUE_CHARS_MAX) {
    findings.add(path, "TooLarge", `must have at most ${VALUE_CHARS_MAX} characters`);
  }
}
