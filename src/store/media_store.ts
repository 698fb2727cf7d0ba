// The records of this host's verified files. They stay on the host, as the files do.

import type { CheckLevel, Digest } from "../domain/digest.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";

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
