// Completes the word at the cursor: commands, flags, and the agent's jobs, workflows, machines and images. A shell calls
// `zonewright __complete WORD...`, the word at the cursor last, and gets a candidate per line with its meaning after a
// tab. Errors print nothing: an error message in the middle of a command line helps nobody.

import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { nameOf, SETTING_ROWS } from "../../config/settings.ts";
import { METHODS } from "../client/api_call.ts";
import type { Flag } from "./arguments.ts";
import type { Client } from "../client/client.ts";
import { type Command, flagsOf, type Nouns } from "./command.ts";

/** One way to complete the word. */
interface Candidate {
  readonly value: string;
  /** For shells that show it. */
  readonly about: string;
}

/**
 * Markers by which the shell is asked to complete names of files or folders itself. After the tab comes the
 * part of the word before the name.
 */
const FILES: Candidate = { value: ":files", about: "" };
const FOLDERS: Candidate = { value: ":dirs", about: "" };

/** Makes a client for the flags of the command line that is completed. */
type ClientFor = (flags: ReadonlyMap<string, string>) => Client;

/** Milliseconds for the agent to answer; short, since the user has just pressed Tab. */
const LIVE_MS = 1_500;
/** More would not help to choose. */
const OFFERED_MAX = 100;

/**
 * The candidates for the last of the words.
 * @param words after the program's name
 */
export async function candidates(
  words: readonly string[],
  nouns: Nouns,
  clientFor: ClientFor,
): Promise<readonly Candidate[]> {
  const [nounName, ...rest] = words;
  if (nounName === undefined || rest.length === 0) {
    return startingWith(nounName ?? "", await summariesOf(nouns));
  }
  const noun = Object.hasOwn(nouns, nounName) ? await nouns[nounName]?.() : undefined;
  if (noun === undefined) return [];
  if (noun.kind === "command") return await ofCommand(noun.command, nounName, rest, clientFor);
  const [verb = "", ...operands] = rest;
  if (operands.length === 0) {
    const verbs = Object.entries(noun.verbs).map(([value, { summary }]) => ({
      value,
      about: summary,
    }));
    return startingWith(verb, verbs);
  }
  const command = Object.hasOwn(noun.verbs, verb) ? noun.verbs[verb] : undefined;
  return command === undefined
    ? []
    : await ofCommand(command, `${nounName} ${verb}`, operands, clientFor);
}

async function summariesOf(nouns: Nouns): Promise<Candidate[]> {
  return await Promise.all(
    Object.entries(nouns).map(async ([value, load]) => {
      const noun = await load();
      return { value, about: noun.kind === "command" ? noun.command.summary : noun.summary };
    }),
  );
}

function startingWith(typed: string, all: readonly Candidate[]): readonly Candidate[] {
  const found = new Map(all.map((one) => [one.value, one]));
  return [...found.values()].filter(({ value }) => value.startsWith(typed)).slice(0, OFFERED_MAX);
}

async function ofCommand(
  command: Command,
  name: string,
  words: readonly string[],
  clientFor: ClientFor,
): Promise<readonly Candidate[]> {
  const flags = flagsOf(command);
  const typed = words.at(-1) ?? "";
  const { given, operands, open } = readWords(words.slice(0, -1), flags);
  const live = { command: name, typed, ask: askWith(clientFor, given) };
  const equals = typed.startsWith("--") ? typed.indexOf("=") : -1;
  if (equals > 0) {
    const flag = flags.find((one) => answersTo(one, typed.slice(0, equals)));
    if (flag?.placeholder === undefined) return [];
    const values = await flagValues(flag, { ...live, typed: typed.slice(equals + 1) });
    const before = typed.slice(0, equals + 1);
    const names = values.find(isForShell);
    if (names !== undefined) return [{ ...names, about: before }];
    const whole = values.map((one) => ({ ...one, value: `${before}${one.value}` }));
    return startingWith(typed, whole);
  }
  if (open !== undefined) return orNames(typed, await flagValues(open, live));
  if (typed.startsWith("-")) {
    const free = flags.filter((flag) => flag.many === true || !given.has(flag.name));
    return startingWith(typed, free.map(({ name, help }) => ({ value: `--${name}`, about: help })));
  }
  const kind = operandKind(command.operands ?? "", operands);
  return kind === undefined ? [] : orNames(typed, await valuesOf(kind, live));
}

function orNames(typed: string, values: readonly Candidate[]): readonly Candidate[] {
  return values.some(isForShell) ? values : startingWith(typed, values);
}

function isForShell(one: Candidate): boolean {
  return one === FILES || one === FOLDERS;
}

/** Whether a word is one of a flag's names. */
function answersTo({ name, also, short }: Flag, word: string): boolean {
  return word === `--${name}` || (also !== undefined && word === `--${also}`) ||
    (short !== undefined && word === `-${short}`);
}

/** Parses the words before the cursor; `open` is a flag whose value is at the cursor. */
function readWords(
  words: readonly string[],
  flags: readonly Flag[],
): { given: Map<string, string>; operands: number; open: Flag | undefined } {
  const given = new Map<string, string>();
  let operands = 0;
  let open: Flag | undefined;
  for (const word of words) {
    if (open !== undefined) {
      given.set(open.name, word);
      open = undefined;
      continue;
    }
    const [name = "", ...value] = word.split("=");
    const flag = flags.find((one) => answersTo(one, name));
    if (flag === undefined) {
      operands += word.startsWith("-") ? 0 : 1;
    } else if (flag.placeholder === undefined || value.length > 0) {
      given.set(flag.name, value.join("="));
    } else open = flag;
  }
  return { given, operands, open };
}

/** The word for the operand at the cursor, such as `JOB` of `JOB [FILE]...`. */
function operandKind(text: string, at: number): string | undefined {
  const kinds = text.split(" ").filter((word) => word !== "");
  const last = kinds.at(-1);
  const kind = kinds[at] ?? (last?.endsWith("...") === true ? last : undefined);
  return kind?.replaceAll(/[[\].]/g, "");
}

/** Asks the agent for a list, or for an object that has one, and reads each of its objects. */
type Lookup = (
  path: string,
  read: (one: JsonObject) => Candidate | undefined,
  member?: string,
) => Promise<readonly Candidate[]>;

/** Every file that machines may boot from. */
const LIBRARY = "/agent/v1/media/library";

/** What the values of a command line are looked up with; `typed` is the word at the cursor. */
interface Live {
  readonly command: string;
  readonly typed: string;
  readonly ask: Lookup;
}

async function flagValues(
  { words, placeholder = "" }: Flag,
  live: Live,
): Promise<readonly Candidate[]> {
  return words?.map(plain) ?? await valuesOf(placeholder, live);
}

/** The possible values of a placeholder. */
async function valuesOf(
  placeholder: string,
  { command, typed, ask }: Live,
): Promise<readonly Candidate[]> {
  switch (placeholder) {
    case "PATH":
      // For `api` it is a path of the agent's, not a file.
      return command === "api" ? [] : [FILES];
    case "FILE":
      return [FILES];
    case "MEDIUM":
      return await media(ask, typed);
    case "DIGEST":
      return await ask(LIBRARY, ({ name, digest }) => {
        const hex = typeof digest === "string" ? digest.replace(/^sha256:/, "") : undefined;
        return candidate(hex, String(name));
      }, "files");
    case "DIGEST|NAME":
      // Files of the operator's own folders are not removed.
      return await ask(LIBRARY, ({ place, name }) => {
        return place === "folder" ? undefined : candidate(name, String(place));
      }, "files");
    case "DIR":
    case "URL|DIR":
      return [FOLDERS];
    case "JOB":
      return await ask(
        `/jobs?limit=${OFFERED_MAX}`,
        (job) => candidate(job.uuid, `${job.execution} ${job.name}`),
      );
    case "WORKFLOW":
      return await ask("/workflows?builtin=true", (one) => candidate(one.name, String(one.uuid)));
    case "MACHINE":
      return await ask(
        "/agent/v1/machines",
        (one) => candidate(one.uuid, `${one.state} ${one.alias ?? ""}`),
      );
    case "HOST":
      return await ask("/agent/v1/hosts", (host) => candidate(host.name, String(host.state)));
    case "DISTRO":
      return await distros(ask, "");
    case "DISTRO/RELEASE":
      return typed.includes("/") ? await releases(ask, typed) : await distros(ask, "/");
    case "SETTING":
      return SETTING_ROWS.map((row) => ({ value: nameOf(row), about: row.meaning }));
    case "METHOD":
      return METHODS.map(plain);
    default:
      // `cd|disk` lists its own values.
      return placeholder.includes("|") ? placeholder.split("|").map(plain) : [];
  }
}

function plain(value: string): Candidate {
  return { value, about: "" };
}

/** A name from the agent, unless a shell would read it as several lines or as a marker. */
function candidate(value: unknown, about: string): Candidate | undefined {
  if (typeof value !== "string" || /^:|\p{Cc}/u.test(value)) return undefined;
  return { value, about: about.trim() };
}

/** A path is one of the agent's host, which often is this one; a word without a slash is a file's name or a distro. */
async function media(ask: Lookup, typed: string): Promise<readonly Candidate[]> {
  if (/^[./~]/.test(typed)) return [FILES];
  if (typed.includes("/")) return await releases(ask, typed);
  const files = await ask(LIBRARY, ({ place, name, folder }) => {
    return place === "cache" ? undefined : candidate(name, String(folder ?? ""));
  }, "files");
  // An agent without an index still has files.
  return [...files, ...await distros(ask, "/").catch(() => [])];
}

async function distros(ask: Lookup, end: string): Promise<readonly Candidate[]> {
  const all = await ask("/v1/index.json", ({ id, name }) => candidate(id, String(name ?? "")));
  return all.map(({ value, about }) => ({ value: value + end, about }));
}

async function releases(ask: Lookup, typed: string): Promise<readonly Candidate[]> {
  const distro = typed.slice(0, typed.indexOf("/"));
  const path = `/v1/distros/${encodeURIComponent(distro)}/index.json`;
  return await ask(path, ({ id, title }) => candidate(`${distro}/${id}`, String(title ?? "")));
}

/** Asks the agent named on the command line, for as long as a user would wait. */
function askWith(clientFor: ClientFor, given: ReadonlyMap<string, string>): Lookup {
  return async (path, read, member) => {
    const client = clientFor(given);
    try {
      const answer = await client.get(path, AbortSignal.timeout(LIVE_MS));
      const members = isJsonObject(answer) ? answer : {};
      const found = member === undefined
        ? Object.values(members).find(Array.isArray)
        : members[member];
      const list = Array.isArray(answer) ? answer : Array.isArray(found) ? found : [];
      return list.flatMap((one: unknown) => isJsonObject(one) ? read(one) ?? [] : []);
    } finally {
      client.close();
    }
  };
}
