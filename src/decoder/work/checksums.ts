// Finds the hashes of one file in a document in which a vendor publishes them. Its text is read line by line; a line of
// another format is ignored.

import { DIGEST_ALGORITHMS, DIGEST_DIGITS, type DigestAlgorithm } from "../../domain/digest.ts";
import { openByteSource } from "./byte_source.ts";
import type { DecoderWork } from "../decoder_message.ts";

/** Formats that can be read; others are known to their vendors. @see document 1, ChecksumFormat */
export const CHECKSUM_FORMATS = ["gnu", "bsd", "bare"] as const;
type ChecksumFormatName = typeof CHECKSUM_FORMATS[number];

/** Returns the hashes found, at most two. */
export const checksumsWork: DecoderWork = async (request, input) => {
  const format: ChecksumFormatName | undefined = CHECKSUM_FORMATS.find((known) =>
    known === request.format
  );
  const algorithm = DIGEST_ALGORITHMS.find((known) => known === request.algorithm);
  if (format === undefined || algorithm === undefined) {
    const found = JSON.stringify([request.format, request.algorithm]);
    throw new TypeError(
      `Cannot read checksums: found ${found}, expected a format and an algorithm`,
    );
  }
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of openByteSource(input).rest()) text += decoder.decode(part, STREAM);
  text += decoder.decode();
  return listedHashes(text, { format, algorithm, filename: String(request.filename) });
};

const STREAM = { stream: true } as const;

/** The hash to find in a document. */
interface ListedFile {
  readonly format: ChecksumFormatName;
  readonly algorithm: DigestAlgorithm;
  /** As the document lists it; of no meaning to `bare`. */
  readonly filename: string;
}

/** Different hashes of one file that are counted: with two, the document contradicts itself. */
const HASHES_MAX = 2;

/**
 * The hashes that a document gives for a file, in lower-case hex, two at most: the caller refuses a document
 * that contradicts itself. Takes time in proportion to the length of the text.
 */
export function listedHashes(text: string, file: ListedFile): string[] {
  // A file without a name matches no line, not even one without a name.
  if (file.filename === "" && file.format !== "bare") return [];
  const found = new Set<string>();
  // Of a bare document, only the first word counts.
  const wanted = file.format === "bare" ? 1 : HASHES_MAX;
  for (let at = 0; at < text.length && found.size < wanted;) {
    const end = text.indexOf("\n", at);
    const next = end < 0 ? text.length : end;
    const line = text.slice(at, next).trimEnd();
    at = next + 1;
    if (line === "" || line.startsWith("#")) continue;
    const hash = hashOf(line, file);
    if (hash !== undefined) found.add(hash);
  }
  return [...found];
}

/** @param line without white space at its end */
function hashOf(line: string, { format, algorithm, filename }: ListedFile): string | undefined {
  switch (format) {
    case "gnu":
      return ofGnu(line, filename, DIGEST_DIGITS[algorithm]);
    case "bsd":
      return ofBsd(line, filename, algorithm);
    case "bare":
      return leadingHash(line.trimStart(), DIGEST_DIGITS[algorithm]);
  }
}

/** `<hex>  name` or `<hex> *name`. */
function ofGnu(line: string, filename: string, digits: number): string | undefined {
  const hash = leadingHash(line, digits);
  if (hash === undefined) return undefined;
  const listed = line.slice(digits).trimStart();
  const name = listed.startsWith("*") && !isBlank(listed[1]) ? listed.slice(1) : listed;
  // Some vendors list a file below the folder in which they made the list.
  return (name.startsWith("./") ? name.slice(2) : name) === filename ? hash : undefined;
}

/** `SHA256 (name) = <hex>`, read from both ends: the name may hold anything. */
function ofBsd(line: string, filename: string, algorithm: DigestAlgorithm): string | undefined {
  const digits = DIGEST_DIGITS[algorithm];
  const word = line.slice(0, algorithm.length);
  if (word.toLowerCase() !== algorithm) return undefined;
  const start = line[word.length] === " " ? word.length + 1 : word.length;
  const hash = leadingHash(line.slice(-digits), digits);
  let end = line.length - digits;
  if (line[end - 1] === " ") end -= 1;
  if (line[end - 1] !== "=") return undefined;
  end -= 1;
  if (line[end - 1] === " ") end -= 1;
  const named = line[start] === "(" && line[end - 1] === ")" &&
    line.slice(start + 1, end - 1) === filename;
  return named ? hash : undefined;
}

/** The hash at the beginning of a text, followed by white space or nothing. */
function leadingHash(text: string, digits: number): string | undefined {
  const hash = text.slice(0, digits);
  const whole = hash.length === digits && /^[0-9A-Fa-f]+$/.test(hash) && isBlank(text[digits]);
  return whole ? hash.toLowerCase() : undefined;
}

function isBlank(character: string | undefined): boolean {
  return character === undefined || character.trim() === "";
}
