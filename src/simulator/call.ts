// Parses the words of a vmadm call as vmadm's option parser does: options may come anywhere, an unknown
// option is not an error, and an unknown long option consumes the next word.

const SAME: Readonly<Record<string, string>> = {
  boot: "start",
  halt: "stop",
  destroy: "delete",
  json: "get",
};

/** Simulated subcommands, by the names that faults use. */
export const SUBCOMMANDS = [
  "create",
  "delete",
  "get",
  "info",
  "list",
  "lookup",
  "reboot",
  "start",
  "stop",
  "update",
  "validate",
] as const;

/** The main name of a subcommand: `start` for `boot`. */
export function canonicalSubcommand(word: string): string {
  return SAME[word] ?? word;
}

/** A call without its subcommand. */
export interface SimulatedCall {
  readonly flags: ReadonlySet<string>;
  readonly values: ReadonlyMap<string, string>;
  readonly words: readonly string[];
}

/** Options that take the next word. */
const WITH_VALUE = new Set(["-f", "-o", "-s", "-t"]);

/** Long spellings of the options. */
const LONG: Readonly<Record<string, string>> = {
  "--file": "-f",
  "--force": "-F",
  "--json": "-j",
  "--unique": "-1",
  "--parsable": "-p",
  "--header": "-H",
  "--order": "-o",
  "--sort": "-s",
  "--timeout": "-t",
  "--help": "-h",
};

/** Parses the words after a subcommand. */
export function parseCall(args: readonly string[]): SimulatedCall {
  const flags = new Set<string>();
  const values = new Map<string, string>();
  const words: string[] = [];
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? "";
    const next = args[at + 1];
    const option = LONG[arg] ?? arg;
    if (!arg.startsWith("-") || arg === "-") words.push(arg);
    else if (WITH_VALUE.has(option)) {
      values.set(option, next ?? "");
      at += 1;
    } else if (arg.startsWith("--") && LONG[arg] === undefined) {
      if (next !== undefined && !next.startsWith("-")) at += 1;
    } else if (arg.startsWith("--")) flags.add(option);
    else {
      for (const letter of arg.slice(1)) flags.add(`-${letter}`);
      // In `-Ho uuid` the last letter takes the word.
      const last = `-${arg.slice(-1)}`;
      if (WITH_VALUE.has(last)) {
        values.set(last, next ?? "");
        at += 1;
      }
    }
  }
  return { flags, values, words };
}

/** The fields of an option such as `-o uuid,alias`, or null without it. */
export function fieldsOf(call: SimulatedCall, option: string): string[] | null {
  const value = call.values.get(option);
  return value === undefined ? null : value.split(",").filter((field) => field !== "");
}
