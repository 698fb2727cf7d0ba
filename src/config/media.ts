// The settings of media: how much of them is kept, how fast they come and from where, and how they are
// checked. Rows of the table in config.ts.

import { define, type Definition } from "./definition.ts";
import { readBytes, readChoice, readHosts, readPath } from "./values.ts";
import { CHECK_LEVELS, type CheckLevel } from "../domain/index/check_level.ts";

/** The settings. */
export const MEDIA_SETTINGS = {
  /** Bytes; 0 for no bound. */
  cache_max: define(
    "cache-max",
    64 * 1024 ** 3,
    readBytes,
    "SIZE",
    "bytes that downloaded media may take, a size such as 64GiB, or off for no bound",
  ),
  /** Bytes a second; 0 for no bound. */
  download_rate: define(
    "download-rate",
    0,
    readBytes,
    "SIZE",
    "bytes a second of all downloads together, a size such as 20MiB, or off",
  ),
  download_hosts: {
    ...define<readonly string[]>(
      "download-host",
      [],
      readHosts,
      "HOST[:PORT]",
      "host besides those of the index from which media may be downloaded (repeatable)",
    ),
    many: true,
  },
  check_min: define<CheckLevel>(
    "check-min",
    "index",
    readChoice(CHECK_LEVELS),
    "LEVEL",
    `what a download must reach unless its request allows less: ${CHECK_LEVELS.join(", ")}`,
  ),
  key_dir: define<string | null>(
    "key-dir",
    null,
    readPath,
    "DIR",
    "folder of the OpenPGP keys by which vendors' signatures are believed; a folder in it named " +
      "after a distro holds the only keys of that distro",
  ),
} satisfies Record<string, Definition<unknown>>;
