// Where a medium is, as a request says it: a file of a media folder, or an address.

import type { Check } from "../field_check.ts";
import { unpackedName } from "./media_compression.ts";

const PATH_CHARS_MAX = 1024;
const URL_CHARS_MAX = 2048;

/**
 * A path without steps up, or the name of a file in a media folder.
 * @param fits whether a name may be that of the medium
 */
export function mediaPath(fits: (name: string) => boolean): Check {
  return (value, field, findings) => {
    const parts = typeof value === "string" ? value.split("/") : [];
    const plain = typeof value === "string" && /^(\/\P{Cc}+|[^/\p{Cc}]+)$/u.test(value) &&
      value.length <= PATH_CHARS_MAX && !parts.includes("..") && !parts.includes(".");
    if (!plain) {
      const words = 'must be an absolute path without "." and "..", or the name of a file in a ' +
        `media folder, of at most ${PATH_CHARS_MAX} characters`;
      findings.add(field, "Invalid", words);
      return undefined;
    }
    if (!fits(value)) {
      findings.add(field, "Invalid", "must end in .iso, .img or .raw");
      return undefined;
    }
    return value;
  };
}

/**
 * An address of http or https.
 * @param fits whether a name may be that of the medium, once unpacked
 * @param compression what the request says of the file
 */
export function mediaUrl(fits: (name: string) => boolean, compression: unknown): Check {
  return (value, field, findings) => {
    const parsed = typeof value === "string" && value.length <= URL_CHARS_MAX && URL.canParse(value)
      ? new URL(value)
      : undefined;
    const words = parsed === undefined || !["https:", "http:"].includes(parsed.protocol)
      ? `must be an http or https address of at most ${URL_CHARS_MAX} characters`
      : parsed.username !== "" || parsed.password !== ""
      ? "must not hold a user name or password"
      : !fits(unpackedName(parsed.pathname, compression))
      ? "must have a path that ends in .iso, .img or .raw"
      : undefined;
    if (parsed !== undefined && words === undefined) return parsed.href;
    findings.add(field, "Invalid", words ?? "must be an address");
    return undefined;
  };
}
