// The documents in which vendors publish the hashes of their files. A vendor's text is read line by
// line; what is no line of its format says nothing.

import { DIGEST_DIGITS, type DigestAlgorithm } from "./digest.ts";

/** Formats that can be read; others are known to their vendors. @see document 1, ChecksumFormat */
export const CHECKSUM_FORMATS = ["gnu", "bsd", "bare"] as const;
/** One of them. */
export type ChecksumFormatName = typeof CHECKSUM_FORMATS[number];

/** Which hash of a document is wanted. */
export interface ListedFile {
  readonly format: ChecksumFormatName;
  readonly algorithm: DigestAlgorithm;
  /** As the document lists it; of no meaning to `bare`. */
  readonly filename: string;
}

/**
 * Every hash that a document gives for a file, in lower-case hex: a document that says two things of
 * one file is for the caller to refuse.
 */
export function listedHashes(text: string, file: ListedFile): string[] {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "" && !line.startsWith("#"));
  const found = lines.map((line) => hashOf(line, file)).filter((hash) => hash !== undefined);
  // A bare document is its first word, whatever follows.
  return file.format === "bare" ? found.slice(0, 1) : [...new Set(found)];
}

function hashOf(line: string, { format, algorithm, filename }: ListedFile): string | undefined {
  const digits = DIGEST_DIGITS[algorithm];
  const named = (hash: string | undefined, name: string | undefined) =>
    hash !== undefined && hash.length === digits && name === filename
      ? hash.toLowerCase()
      : undefined;
  switch (format) {
    case "gnu": {
      const [, hash, name] = /^([0-9A-Fa-f]+)\s+\*?(\S.*?)\s*$/.exec(line) ?? [];
      // Some vendors list a file below the folder in which they made the list.
      return named(hash, name?.replace(/^\.\//, ""));
    }
    case "bsd": {
      const [, word, name, hash] = /^(\w+) ?\((.+)\) ?= ?([0-9A-Fa-f]+)\s*$/.exec(line) ?? [];
      return word?.toLowerCase() === algorithm ? named(hash, name) : undefined;
    }
    case "bare": {
      const [word = ""] = line.trim().split(/\s+/);
      return /^[0-9A-Fa-f]+$/.test(word) && word.length === digits ? word.toLowerCase() : undefined;
    }
  }
}
