// How a medium may be packed where it is downloaded from.

/** Compressions that can be undone. @see document 1, Compression */
export const COMPRESSIONS = ["gzip", "xz", "zstd", "bzip2"] as const;
/** One of them. */
export type PackedAs = typeof COMPRESSIONS[number];
/** Compressions that a request may name for an address; an artifact's own is known. */
export const MEDIA_COMPRESSIONS = ["none", ...COMPRESSIONS] as const;
/** One of them. */
export type MediaCompression = typeof MEDIA_COMPRESSIONS[number];

/** The name of a file without the ending that tells its compression, such as `.xz`. */
export function unpackedName(name: string, compression: unknown): string {
  return compression === undefined || compression === "none"
    ? name
    : name.replace(/\.(gz|xz|zst|zstd|bz2)$/i, "");
}
