// Searching the image index: every artifact of the tree as one list, in the tree's own order. What
// is found is always what the documents of the index say at that moment; see IndexStore.swap().

import type { JsonObject } from "../domain/json.ts";

/** Words of one search; further words are ignored. */
export const SEARCH_WORDS_MAX = 8;

/** Selects artifacts; an artifact must match every given key. */
export interface ImageFilter {
  readonly distro?: string;
  /** An alias or a release's id; what is both is an alias, as clients of the index have it. */
  readonly release?: string;
  readonly build?: string;
  /** In the words of the OS information database: `x86_64`, `aarch64`. */
  readonly arch?: string;
  readonly format?: string;
  readonly variant?: string;
  readonly compression?: string;
  /** One of the artifact's datasources. */
  readonly datasource?: string;
  /** One of the artifact's firmwares. */
  readonly firmware?: string;
  /** Each must occur somewhere in what names the artifact; case does not count. */
  readonly words?: readonly string[];
  /** Whether it is of the first build of its release's current ones, the one that clients take. */
  readonly newest?: boolean;
  /**
   * Whether clients take it where no variant is named: the vendor's default one, or where the
   * vendor marks none of the build and architecture, one without a variant.
   */
  readonly default_variant?: boolean;
  /** Whether it survives only in the vendor's archive. */
  readonly archived?: boolean;
}

/**
 * Where an artifact stands in the tree: the numbers of its distro and its release in their lists, 1
 * when it is archived, and the numbers of its build and of itself in theirs.
 */
export type ImagePlace = readonly [
  distro: number,
  release: number,
  archived: number,
  build: number,
  artifact: number,
];

/** A page of the matching artifacts. */
export interface ImagePage {
  readonly limit: number;
  /** Starts after this place: that of the last artifact on the previous page. */
  readonly after?: ImagePlace;
}

/** An artifact with its place in the index. */
export interface ListedImage {
  readonly distro: string;
  readonly release: string;
  /** Aliases of the release. */
  readonly aliases: readonly string[];
  readonly build: string;
  readonly point_release: string | null;
  readonly published_at: string | null;
  readonly archived: boolean;
  /** Where a client downloads it: the primary location, or else the first one. */
  readonly url: string | null;
  /** As the publisher wrote it, fields that nobody knows included. @see document 1, Artifact */
  readonly artifact: JsonObject;
  readonly place: ImagePlace;
}

/** The artifacts of the image index. */
export interface ImageStore {
  /** In the order of the tree: newest first within a release. */
  search(filter: ImageFilter, page: ImagePage): Promise<ListedImage[]>;
  /** How many artifacts match. */
  count(filter: ImageFilter): Promise<number>;
}
