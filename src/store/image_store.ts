// The search in the image index of this host. Its rows stay on the host, as the index does.

import type { JsonObject } from "../domain/json.ts";

/** Words of one search; further words are ignored. */
export const SEARCH_WORDS_MAX = 8;

/** Selects artifacts; an artifact must match every given key. */
export interface ImageFilter {
  readonly distro?: string;
  /** An alias or the id of a release; an alias takes precedence, as in clients of the index. */
  readonly release?: string;
  readonly build?: string;
  /** As the OS information database spells it: `x86_64`, `aarch64`. */
  readonly arch?: string;
  readonly format?: string;
  readonly variant?: string;
  readonly compression?: string;
  readonly datasource?: string;
  readonly firmware?: string;
  /** Each word must occur in one of the names of the artifact; case is ignored. */
  readonly words?: readonly string[];
  /** Whether the artifact belongs to the newest current build of its release, the one that clients choose. */
  readonly newest?: boolean;
  /**
   * Whether clients take it where no variant is named: the vendor's default one, or where the
   * vendor marks none of the build and architecture, one without a variant.
   */
  readonly default_variant?: boolean;
  /** Whether only the vendor's archive still has it. */
  readonly archived?: boolean;
}

/**
 * The position of an artifact in the tree: the numbers of its distro and its release in their lists, 1 if it is
 * archived, and the numbers of its build and of the artifact in theirs.
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
  /** Starts after this place, which is that of the last artifact on the previous page. */
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

/**
 * The search in the image index: all artifacts as one list, in the order of the tree. Results always agree with the stored
 * documents, because one transaction writes both; see IndexStore.swap().
 */
export interface ImageStore {
  /** In the order of the tree: newest first within a release. */
  search(filter: ImageFilter, page: ImagePage): Promise<ListedImage[]>;
  count(filter: ImageFilter): Promise<number>;
}
