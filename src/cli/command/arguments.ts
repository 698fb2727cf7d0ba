// Parses the words after a command. Every mistake has its own message: an unknown flag with the nearest known
// one, a missing value, a repeated flag. vendors/README.md says why parseArgs of @std/cli is not used.

import { AgentError } from "../../domain/error.ts";
import { nearest, wordList } from "../../domain/near_word.ts";
import { IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_TEXT } from "../../domain/job/idempotency.ts";

/** Accepted as `--name VALUE`, `--name=VALUE` or by its letter; without a placeholder it takes no value. */
export interface Flag {
  /** The name without its dashes. */
  readonly name: string;
  /** One letter, written after a single dash. */
  readonly short?: string;
  /** Another name for the same flag. */
  readonly also?: string;
  /** Stands for the value in help; a flag without it is a switch. */
  readonly placeholder?: string;
  /** All possible values, for shell completion. */
  readonly words?: readonly string[];
  /** May be given several times. */
  readonly many?: true;
  readonly help: string;
}

/** The words of one command line. */
export interface Arguments {
  readonly operands: readonly string[];
  /** The first operand; empty when there is none. */
  readonly operand: string;
  /** Value of a flag, or undefined. */
  text(flag: string): string | undefined;
  /** Values of a flag that may be given several times. */
  texts(flag: string): readonly string[];
  has(flag: string): boolean;
  /** Everything given, by the name of the flag. */
  readonly given: ReadonlyMap<string, readonly string[]>;
}

/**
 * Parses flags and operands; everything after `--` is an operand.
 * @throws {AgentError} `invalid_argument`
 */
export function parseArguments(words: readonly string[], flags: readonly Flag[]): Arguments {
  const given = new Map<string, string[]>();
  const operands: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string;
    if (word === "--") {
      operands.push(...words.slice(at + 1));
      break;
    }
    if (word === "-" || !word.startsWith("-")) {
      operands.push(word);
      continue;
    }
    const { flag, inline } = findFlag(word, flags);
    if (flag.placeholder === undefined) {
      if (inline !== undefined) {
        throw usageError(`--${flag.name} takes no value, expected the flag alone`);
      }
      add(given, flag, "");
      continue;
    }
    const next = words[at + 1];
    if (inline !== undefined) add(given, flag, inline);
    else if (next !== undefined && (!next.startsWith("-") || /^-(?:$|\d)/.test(next))) {
      add(given, flag, next);
      at += 1;
    } else {
      const found = next === undefined
        ? "found none"
        : `found the flag ${next}; write --${flag.name}=${next} to give that text`;
      throw usageError(`--${flag.name} has no value, expected ${flag.placeholder}, ${found}`);
    }
  }
  return {
    operands,
    operand: operands[0] ?? "",
    given,
    text: (flag) => given.get(flag)?.[0],
    texts: (flag) => given.get(flag) ?? [],
    has: (flag) => given.has(flag),
  };
}

function findFlag(
  word: string,
  flags: readonly Flag[],
): { flag: Flag; inline: string | undefined } {
  const cut = word.indexOf("=");
  const name = cut < 0 ? word : word.slice(0, cut);
  const inline = cut < 0 ? undefined : word.slice(cut + 1);
  const flag = flags.find((one) =>
    name === `--${one.name}` ||
    (one.short !== undefined && name === `-${one.short}`) ||
    (one.also !== undefined && name === `--${one.also}`)
  );
  if (flag !== undefined) return { flag, inline };
  // Not a typo: the flag exists, but has no meaning for this command.
  if (name === "--json") {
    throw usageError("--json shows data, and this command prints none, expected the command alone");
  }
  const near = nearest(
    name,
    flags.flatMap(({ name, also }) => [name, also ?? name]).map((one) => `--${one}`),
  );
  const hint = near || `, expected ${wordList(flags.map((one) => `--${one.name}`)) || "no flag"}`;
  throw usageError(`unknown flag ${JSON.stringify(name.slice(0, 80))}${hint}`);
}

function add(given: Map<string, string[]>, flag: Flag, value: string): void {
  const before = given.get(flag.name);
  if (before === undefined) given.set(flag.name, [value]);
  else if (flag.many === true) before.push(value);
  else throw usageError(`--${flag.name} is given twice, expected it once`);
}

/** An error about the words, flags and operands of a command. */
export function usageError(what: string): Error {
  return cannot(`read the command: ${what}`);
}

/** An error about the command line. @param what was attempted, found and expected, without the `Cannot` */
export function cannot(what: string): Error {
  return new AgentError("invalid_argument", `Cannot ${what}`);
}

/** The flag that names the host of a new job. */
export const ON_FLAG: Flag = {
  name: "on",
  placeholder: "HOST",
  help: "run on this host, by name or uuid; by default the agent's own",
};

/** The flag that makes a call safe to repeat. */
export const IDEMPOTENCY_FLAG: Flag = {
  name: "idempotency-key",
  placeholder: "KEY",
  help: "with the same key within a day, return the same job",
};

/** The header for that flag. @throws {AgentError} `invalid_argument`; the agent checks the rest */
export function idempotencyHeaders(args: Arguments): Record<string, string> {
  const key = args.text(IDEMPOTENCY_FLAG.name);
  if (key === undefined) return {};
  if (!IDEMPOTENCY_KEY_TEXT.test(key)) {
    throw cannot("use this --idempotency-key, expected 1 to 255 visible ASCII characters");
  }
  return { [IDEMPOTENCY_KEY]: key };
}

/** Whether the answer repeats that to an earlier call with the same key. */
export function isReplayed(headers: Headers): boolean {
  return headers.get("idempotency-replayed") === "true";
}
