// Data that stays on each host: the search rows of its image index, and the records of its media files.

import type { CheckLevel, Digest } from "../domain/digest.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
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

/** The record of a file whose digest was checked. */
export interface MediaFile {
  /** Lower-case hex digest of the usable file, by which the file is identified. */
  readonly sha256: string;
  /** A name without a path, which is safe as a file name. */
  readonly name: string;
  /** Absolute path of a file in the operator's folders; null for a file of the cache. */
  readonly path: string | null;
  readonly size: number;
  readonly source: "artifact" | "url" | "path";
  /** The address without its query, or the path. */
  readonly origin: string;
  /** The name that is shown to people. */
  readonly label: string;
  readonly level: CheckLevel;
  readonly created_at: Instant;
  readonly last_used_at: Instant;
  /** When the bytes of the file were last hashed. */
  readonly verified_at: Instant;
}

/** The download that a file was made from. */
export interface MediaDownload {
  /** Its compression; `none` when it is the file itself. */
  readonly packed: string;
  readonly sha256: string;
  /** Null when it was not computed. */
  readonly sha512: string | null;
}

/** A file of the cache with its download. */
export interface DownloadedMedia extends MediaFile {
  readonly download: MediaDownload;
}

/** One path of a file in a media folder. */
export interface StoredCopy {
  /** The absolute path, with every link followed. */
  readonly path: string;
  readonly sha256: string;
  /** When its bytes were hashed. */
  readonly verified_at: Instant;
}

/**
 * The records of this host's verified files: files in the cache, and hashed files in the operator's folders. The bytes are
 * in the file system; see src/mirror/media/cache.ts.
 */
export interface MediaStore {
  /** Records a file, or refreshes its record; its level never drops. */
  keep(file: MediaFile, download?: MediaDownload): Promise<void>;
  /** Records that a known file also exists at this path, replacing any record of the path. */
  copied(copy: StoredCopy): Promise<void>;
  /** All recorded copies, by path. */
  copies(): Promise<StoredCopy[]>;
  /** Forgets a copy, and its file if that has no other copy. */
  gone(path: string): Promise<void>;
  /** The file made from a download with this digest. */
  find(digest: Digest, packed: string): Promise<DownloadedMedia | undefined>;
  get(sha256: string): Promise<MediaFile | undefined>;
  /** All records, the most recently used first. */
  list(): Promise<MediaFile[]>;
  /**
   * Notes that a file is used, until the end of the job if one is given.
   * @returns whether the file is still known
   */
  use(sha256: string, now: Instant, job?: JobUuid): Promise<boolean>;
  /** Raises the level of a file; a lower level is ignored. */
  raise(sha256: string, level: CheckLevel): Promise<void>;
  /** Records that the bytes of a file were hashed again and still match. */
  verified(sha256: string, now: Instant): Promise<void>;
  /** Unfinished jobs that use it. */
  users(sha256: string): Promise<JobUuid[]>;
  /** Jobs that have used files; some may have ended. */
  usingJobs(): Promise<JobUuid[]>;
  /** Forgets that these jobs use files. */
  ended(jobs: readonly JobUuid[]): Promise<void>;
  /** Bytes of the files of the cache. */
  bytes(): Promise<number>;
  /** Cached files that no unfinished job uses, least recently used first. */
  unused(): Promise<MediaFile[]>;
  /**
   * Forgets a file.
   * @param damaged forgets it even if it is in use
   */
  remove(sha256: string, damaged?: boolean): Promise<"removed" | "in_use" | "not_found">;
}
