// Masks secrets in logs, in errors, and in answers to callers of scope `read`. A stream of JSON text is masked in one
// pass over its bytes and without parsing: that needs memory only for one name and the nesting. This agent wrote the
// text. Masked values are replaced by a short text; all other bytes stay unchanged.

import { joined } from "./bytes.ts";
import {
  BACKSLASH,
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  isJsonObject,
  type JsonValue,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
} from "./json.ts";

/** Shown instead of a secret. */
export const MASK = "***";

/** Endings of names of secrets, as part of a regular expression. */
export const SECRET_ENDINGS =
  "password|passwd|passphrase|_pw|secret|private_key|api_key|access_key|token";

const SECRET_NAME = new RegExp(`(?:${SECRET_ENDINGS})$`, "i");

/** Objects whose values are all secret. */
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

/** A text in which an address shows neither user and password nor its query, which may be a secret. */
export function withMaskedAddress(text: string): string {
  const [scheme = ""] = /:\/\//.exec(text) ?? /:/.exec(text) ?? [];
  if (scheme === "") return text;
  const from = text.indexOf(scheme) + scheme.length;
  // The last one, because a password that is not encoded may contain others.
  const at = text.lastIndexOf("@");
  const shown = at < from ? text.slice(from) : `${MASK}${text.slice(at)}`;
  return text.slice(0, from) + shown.replace(/\?[^\s"']*/, `?${MASK}`);
}

/**
 * A value with its secrets masked at any depth: fields with the name of a secret, and everything in an object
 * of secrets.
 * @param names further names of secrets
 * @param textOf converts other texts
 */
export function maskedJson(
  value: JsonValue,
  names: ReadonlySet<string> = new Set(),
  textOf: (text: string) => string = (text) => text,
): JsonValue {
  if (typeof value === "string") return textOf(value);
  if (Array.isArray(value)) return value.map((one) => maskedJson(one, names, textOf));
  if (!isJsonObject(value)) return value;
  const shown = Object.entries(value).map(([name, inner]): [string, JsonValue] => {
    if (isSecretName(name) || names.has(name)) return [name, MASK];
    if (!holdsSecrets(name)) return [name, maskedJson(inner, names, textOf)];
    if (!isJsonObject(inner)) return [name, MASK];
    return [name, Object.fromEntries(Object.keys(inner).map((key) => [key, MASK]))];
  });
  // Entries, not assignments: a key named __proto__ must stay a key.
  return Object.fromEntries(shown);
}

/** Further values to mask, besides those of secret fields. */
export interface MaskRules {
  /** Further names whose values are masked, at any depth. */
  readonly names: ReadonlySet<string>;
  /** A member of the outermost object whose values are all masked. */
  readonly member?: string;
}

/** Bytes of a name that are kept: its end. Enough for 255 characters, each written as `\u0000`. */
const NAME_BYTES_MAX = 2048;

const MASK_BYTES = new TextEncoder().encode(JSON.stringify(MASK));

/** What is open: a list, an object, or an object whose values are all masked. */
type Frame = "list" | "object" | "masked";

/** Masks one JSON text, or several with commas between them. */
export class JsonMasking {
  readonly #rules: MaskRules;
  readonly #frames: Frame[] = [];
  #string = false;
  #escaped = false;
  /** Whether the next text in an object is a name, and whether the current one is. */
  #nameNext = false;
  #isName = false;
  #name: number[] = [];
  /** Whether the next value is an object whose values are all masked, or is masked itself. */
  #secretObject = false;
  /** Whether input is being dropped, and how many lists and objects of it are open. */
  #skips = false;
  #skipped = 0;

  constructor(rules: MaskRules) {
    this.#rules = rules;
  }

  /** The next part of the text, masked. */
  write(bytes: Uint8Array): Uint8Array {
    const out: Uint8Array[] = [];
    let from = this.#skips ? bytes.length : 0;
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at] as number;
      const skipped = this.#skips;
      if (this.#string) this.#inString(byte);
      else if (!skipped || !this.#stillSkipped(byte)) {
        if (skipped) from = at;
        this.#structure(byte);
        if (this.#skips) {
          // The value of a masked member is dropped after its colon, any other value from its first byte.
          const end = byte === COLON ? at + 1 : at;
          out.push(bytes.subarray(from, end), MASK_BYTES);
          from = bytes.length;
        }
        continue;
      }
      if (skipped && !this.#skips) from = at + 1;
    }
    out.push(bytes.subarray(from));
    return joined(out, out.reduce((sum, part) => sum + part.length, 0));
  }

  #inString(byte: number): void {
    if (this.#escaped) this.#escaped = false;
    else if (byte === BACKSLASH) this.#escaped = true;
    else if (byte === QUOTE) {
      this.#string = false;
      if (this.#skips && this.#skipped === 0) this.#skips = false;
      return;
    }
    if (!this.#isName) return;
    this.#name.push(byte);
    // At most twice as long, so that each byte of a name is copied once on average.
    if (this.#name.length > 2 * NAME_BYTES_MAX) this.#name = this.#name.slice(-NAME_BYTES_MAX);
  }

  /** @returns whether the byte is part of the dropped value; a comma or closing bracket after it is not */
  #stillSkipped(byte: number): boolean {
    if (byte === QUOTE) {
      this.#string = true;
      this.#isName = false;
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) this.#skipped += 1;
    else if (this.#skipped === 0) {
      if (byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_LIST) this.#skips = false;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      this.#skipped -= 1;
      if (this.#skipped === 0) {
        this.#skips = false;
        return true;
      }
    }
    return this.#skips;
  }

  #structure(byte: number): void {
    if (this.#secretObject && byte !== OPEN_OBJECT) {
      this.#secretObject = false;
      this.#skips = true;
      this.#stillSkipped(byte);
      return;
    }
    switch (byte) {
      case QUOTE:
        this.#string = true;
        this.#isName = this.#nameNext;
        this.#name = [];
        return;
      case OPEN_OBJECT:
        this.#frames.push(this.#secretObject ? "masked" : "object");
        this.#secretObject = false;
        this.#nameNext = true;
        return;
      case OPEN_LIST:
        this.#frames.push("list");
        this.#nameNext = false;
        return;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        this.#frames.pop();
        this.#nameNext = false;
        return;
      case COMMA:
        this.#nameNext = this.#frames.at(-1) === "object" || this.#frames.at(-1) === "masked";
        return;
      case COLON:
        this.#nameNext = false;
        this.#judge(nameOf(this.#name));
    }
  }

  #judge(name: string): void {
    const { names, member } = this.#rules;
    if (this.#frames.at(-1) === "masked" || names.has(name) || isSecretName(name)) {
      this.#skips = true;
      this.#skipped = 0;
    } else {this.#secretObject = holdsSecrets(name) ||
        (this.#frames.length === 1 && name === member);}
  }
}

const decoder = new TextDecoder();

/** The name without escapes: an escaped spelling is the same name. */
function nameOf(bytes: readonly number[]): string {
  const text = decoder.decode(Uint8Array.from(bytes.slice(-NAME_BYTES_MAX)));
  if (!text.includes("\\")) return text;
  try {
    return String(JSON.parse(`"${text}"`));
  } catch {
    // Cut in the middle of an escape; the end of the name is still right.
    return text;
  }
}
