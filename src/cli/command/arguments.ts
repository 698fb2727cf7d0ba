// Parses the words after a command. Every mistake has its own message: an unknown flag with the nearest known
// one, a missing value, a repeated flag. vendors/README.md says why parseArgs of @std/cli is not used.

import { invalidArgument } from "../../domain/error.ts";
import { nearest, wordList } from "../../domain/near_word.ts";
import { IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_TEXT } from "../../domain/job/job.ts";
import { durationSeconds, EPOCH_MS_MAX, type Instant, instantOf } from "../../domain/instant.ts";

/** A flag of a command. */
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
        throw usageError(`--${flag.name} takes no value: expected the flag alone`);
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
      throw usageError(`--${flag.name} has no value: expected ${flag.placeholder}, ${found}`);
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
    throw usageError("--json shows data, and this command prints none: expected the command alone");
  }
  const near = nearest(
    name,
    flags.flatMap(({ name, also }) => [name, also ?? name]).map((one) => `--${one}`),
  );
  const hint = near || `: expected ${wordList(flags.map((one) => `--${one.name}`)) || "no flag"}`;
  throw usageError(`unknown flag ${JSON.stringify(name.slice(0, 80))}${hint}`);
}

function add(given: Map<string, string[]>, flag: Flag, value: string): void {
  const before = given.get(flag.name);
  if (before === undefined) given.set(flag.name, [value]);
  else if (flag.many === true) before.push(value);
  else throw usageError(`--${flag.name} is given twice: expected it once`);
}

/** An error about the words, flags and operands of a command. */
export function usageError(what: string): Error {
  return cannot(`read the command: ${what}`);
}

/** An error about the command line. @param what was attempted, found and expected, without the `Cannot` */
export function cannot(what: string): Error {
  return invalidArgument("arguments", `Cannot ${what}`);
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
    throw cannot("use this --idempotency-key: expected 1 to 255 visible ASCII characters");
  }
  return { [IDEMPOTENCY_KEY]: key };
}

/** Whether the answer repeats that to an earlier call with the same key. */
export function isReplayed(headers: Headers): boolean {
  return headers.get("idempotency-replayed") === "true";
}

// Parses times for `--since`, `--until` and `--at`. A date without a time means midnight in the caller's time
// zone; a time of day must name its zone, since a log or a colleague may use another.

/** The values of `--since` and `--until`, for their help. */
export const PAST_FORMS = "today, 2h, 2026-11-22 or 2026-11-22T18:30Z";

/**
 * The instant that `--since` or `--until` names.
 * @param flag with its dashes
 * @throws {AgentError} `invalid_argument`
 */
export function typedPast(text: string, flag: string, nowMs: number): Instant {
  const day = calendarInstant(text, nowMs);
  if (day !== undefined) return day;
  const seconds = /\d$/.test(text) ? undefined : durationSeconds(text);
  const before = seconds === undefined ? undefined : instantAt(nowMs - seconds * 1000);
  if (before !== undefined) return before;
  throw cannot(
    `use ${flag} ${JSON.stringify(text)}${withoutZone(text)}: expected today (from midnight in ` +
      "your time zone), a time ago such as 2h or 7d, a date such as 2026-11-22, or a time with its " +
      "zone such as 2026-11-22T18:30Z",
  );
}

/**
 * The instant that `--at` names: relative to now, or a calendar date.
 * @throws {AgentError} `invalid_argument`
 */
export function typedFuture(text: string, flag: string, nowMs: number): Instant {
  const day = text === "today" ? undefined : calendarInstant(text, nowMs);
  if (day !== undefined) return day;
  const later = text.startsWith("+") ? text.slice(1) : text;
  const seconds = /\d$/.test(later) ? undefined : durationSeconds(later);
  const after = seconds === undefined ? undefined : instantAt(nowMs + seconds * 1000);
  if (after !== undefined) return after;
  const what = `use ${flag} ${JSON.stringify(text)}`;
  if (/[*@]/.test(text) || text.trim().split(/\s+/).length > 3) {
    throw cannot(
      `${what}: there is no cron here, a job runs once: expected one time such as +2h or ` +
        "2026-12-01T03:00Z; let cron or a systemd timer call zonewright job run",
    );
  }
  throw cannot(
    `${what}${
      withoutZone(text)
    }: expected a time from now such as +90s, +10m or +2h, a date such as ` +
      "2026-12-01 (midnight in your time zone), or a time with its zone such as 2026-12-01T03:00Z",
  );
}

/** `today`, a date, or a date and time with its offset; undefined for another text. */
function calendarInstant(text: string, nowMs: number): Instant | undefined {
  if (text === "today") return midnight(new Date(nowMs));
  const instant = instantOf(text);
  if (instant === undefined || text.includes("T")) return instant;
  const [year = 0, month = 1, day = 1] = text.trim().split("-").map(Number);
  const date = new Date(nowMs);
  date.setFullYear(year, month - 1, day);
  return midnight(date);
}

/** The beginning of a day in the caller's time zone, from TZ or the system. */
function midnight(date: Date): Instant | undefined {
  return instantAt(new Date(date).setHours(0, 0, 0, 0));
}

function instantAt(ms: number): Instant | undefined {
  return ms >= 0 && ms <= EPOCH_MS_MAX ? new Date(ms).toISOString() : undefined;
}

/** Says so if a date and time lacks nothing but its zone. */
function withoutZone(text: string): string {
  return instantOf(`${text}Z`) === undefined ? "" : `: it names no time zone (${text}Z is UTC)`;
}
