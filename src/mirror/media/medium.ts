// What the mirror hands out: a file that was verified and may be placed.

import type { CheckLevel } from "../../domain/index/check_level.ts";

/** A verified local file. */
export interface Medium {
  readonly source: "path" | "artifact" | "url";
  readonly path: string;
  /** Safe file name, the one to place it under; the path may end otherwise. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** Lower-case hex, of the file as it is used. */
  readonly sha256: string;
  readonly label: string;
  /** How much was done to make sure that it is the vendor's. */
  readonly level: CheckLevel;
}
