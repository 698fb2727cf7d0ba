// Types of the part of parseArgs that this project uses; the package ships none.
export interface ParseOptions {
  /** Names of flags without a value. */
  boolean?: readonly string[];
  /** Names of flags whose value stays text. */
  string?: readonly string[];
  /** Names that may be given several times; their value is a list. */
  collect?: readonly string[];
  /** Names that accept a `--no-` form. */
  negatable?: readonly string[];
  alias?: Readonly<Record<string, string | readonly string[]>>;
  default?: Readonly<Record<string, unknown>>;
  /** With true, what follows `--` is kept under that key. */
  "--"?: boolean;
  stopEarly?: boolean;
  /** Called for a flag that is not declared; a false answer leaves it out. */
  unknown?: (arg: string, key?: string, value?: unknown) => unknown;
}
/** The flags found, the positional words under `_`. */
export interface ParsedArgs {
  _: (string | number)[];
  "--"?: string[];
  [name: string]: unknown;
}
export declare function parseArgs(args: readonly string[], options?: ParseOptions): ParsedArgs;
