// The Range header of a request: one range of bytes, which is what resumed downloads ask for.

/** What part of a resource a request asks for. */
export type ByteRange =
  | { readonly kind: "whole" }
  /** From byte `first` to byte `last`, both included. */
  | { readonly kind: "part"; readonly first: number; readonly last: number }
  | { readonly kind: "unsatisfiable" };

const WHOLE: ByteRange = { kind: "whole" };

/**
 * The range that a header names in a resource of `size` bytes. Several ranges, other units and what
 * cannot be read are answered with the whole, which the standard allows.
 * @see RFC 9110, section 14.1.2 and 14.2
 */
export function parseByteRange(header: string | null, size: number): ByteRange {
  const match = /^bytes=(\d*)-(\d*)$/i.exec(header?.replaceAll(" ", "") ?? "");
  const [from, to] = [match?.[1] ?? "", match?.[2] ?? ""];
  if (from === "" && to === "") return WHOLE;
  if (from === "") {
    const last = size - 1;
    const first = Math.max(0, size - Number(to));
    return first > last ? { kind: "unsatisfiable" } : { kind: "part", first, last };
  }
  const first = Number(from);
  if (to !== "" && Number(to) < first) return WHOLE;
  if (first >= size) return { kind: "unsatisfiable" };
  return { kind: "part", first, last: to === "" ? size - 1 : Math.min(Number(to), size - 1) };
}
