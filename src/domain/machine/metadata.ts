// Tags and customer metadata: flat objects of texts, numbers and booleans, which vmadm keeps beside a
// machine.

import { entriesOf } from "../description/object.ts";
import { about, anyText, type Description, scalar, text } from "../description/value.ts";
import type { JsonObject } from "../json.ts";

/** The tag that names the job that made a machine; only the agent sets it. */
export const JOB_TAG = "zonewright_job";

const ENTRIES_MAX = 64;
/** A key as it can be set and removed; vmadm counts no characters, and the agent UTF-16 units. */
const KEY = /^(?!__proto__$)[^\p{Cc}]{1,255}$/u;
const KEY_WORDS = "a name of 1 to 255 characters, none of them a control character";
/** Characters of one value; user-data of a guest's first boot travels in customer_metadata. */
const VALUE_CHARS_MAX = 65_536;

/** The name of an entry. */
export const metadataKey: Description<string> = text(KEY, KEY_WORDS);

const value = scalar(anyText(VALUE_CHARS_MAX), "a text, a number, true or false");
const bounds = {
  countMax: ENTRIES_MAX,
  countWords: "entries",
  nameWords: `must have ${KEY_WORDS}`,
  words: "an object of texts, numbers and booleans",
};

/** A flat object of texts, numbers and booleans. */
export const metadata: Description<JsonObject> = about(
  "Texts, numbers and booleans by their names.",
  entriesOf(KEY, value, bounds),
);

/** As metadata, without the agent's tag. */
export const tags: Description<JsonObject> = about(
  "As `customer_metadata`.",
  entriesOf(KEY, value, { ...bounds, refused: { [JOB_TAG]: "is set by the agent itself" } }),
);
