// Searches the image index: all artifacts as one list, in the order of the tree. Results always agree with
// the stored documents, since both are written in one transaction; see IndexStore.swap().

import type { JsonObject } from "../domain/json.ts";

/** Words of one search; further words are ignored. */
export const SEARCH_WORDS_MAX = 8;

/** Selects artifacts; an artifact must match every given key. */
export interface ImageFilter {
  readonly distro?: string;
  /** An alias or the id of a release; an alias takes precedence, as in clients of the index. */
  readonly release?: string;
  readonly build?: string;
  /** In the words of the OS information database: `x86_64`, `aarch64`. */
  readonly arch?: string;
  readonly format?: string;
  readonly variant?: string;
  readonly compression?: string;
  readonly datasource?: string;
  readonly firmware?: string;
  /** Each must occur somewhere in what names the artifact; case does not count. */
  readonly words?: readonly string[];
  /** Whether it belongs to the newest current build of its release, the one that clients take. */
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
  readonly aliases: readonly string[];
  readonly build: string;
  readonly point_release: string | null;
  readonly published_at: string | null;
  readonly archived: boolean;
  /** Where a client downloads it: the primary location, or else the first one. */
  readonly url: string | null;
  /** As the publisher wrote it, unknown fields included. @see document 1, Artifact */
  readonly artifact: JsonObject;
  readonly place: ImagePlace;
}

/** The artifacts of the image index. */
export interface ImageStore {
  /** In the order of the tree: newest first within a release. */
  search(filter: ImageFilter, page: ImagePage): Promise<ListedImage[]>;
  count(filter: ImageFilter): Promise<number>;
}
