// One row of the table of settings: its names, its default, how it is read, its line in the help.

import type { Read } from "./values.ts";

/** What a default may depend on. */
export interface DefaultsFor {
  readonly dev: boolean;
  readonly cwd: string;
  /** `Deno.build.os`; illumos has other folders than Linux. */
  readonly os: string;
}

/** One row of the table. */
export interface Definition<T> {
  /** Without dashes in front. The variable is `ZONEWRIGHT_` and this in capitals. */
  readonly flag: string;
  /** The key in the TOML file. */
  readonly key: string;
  /** What stands for the value in help; none for a switch. */
  readonly placeholder?: string;
  /** May be given several times. */
  readonly many?: true;
  readonly help: string;
  readonly read: Read<T>;
  readonly fallback: (place: DefaultsFor) => T;
}

/** Makes a row; the key in the file is the flag with underscores. */
export function define<T>(
  flag: string,
  fallback: T | ((place: DefaultsFor) => T),
  read: Read<T>,
  placeholder: string | undefined,
  help: string,
): Definition<T> {
  return {
    flag,
    key: flag.replaceAll("-", "_"),
    read,
    help,
    fallback: fallback instanceof Function ? fallback : () => fallback,
    ...(placeholder === undefined ? {} : { placeholder }),
  };
}
