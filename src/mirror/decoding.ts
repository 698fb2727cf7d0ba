// What it is to undo a compression: parts of the packed file go in, parts of the file come out, as fast
// as they are taken. A decoder bounds nothing; decompress.ts does.

/** Compressions that can be undone. @see document 1, Compression */
export const COMPRESSIONS = ["gzip", "xz", "zstd", "bzip2"] as const;
/** One of them. */
export type PackedAs = typeof COMPRESSIONS[number];

/** Undoes one compression; throws for what is damaged or cut. */
export type Decoder = (parts: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
