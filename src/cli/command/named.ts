// Resolves the names on a command line: a whole uuid, the beginning of one, or a name. The agent looks up the
// beginning of a uuid through an index, so no list has to be read.

import { UUID_BEGINNING_CHARS_MIN } from "../../domain/description/formats.ts";
import { AgentError } from "../../domain/error.ts";
import { isUuid } from "../../domain/id.ts";
import type { JsonObject } from "../../domain/json.ts";
import { cannot } from "./arguments.ts";
import { confirmed, type Invocation, YES_FLAG } from "./command.ts";
import { ageText, type ItemColumn } from "../output/table.ts";
import { numberIn, objectsAt, readObject, readObjects, textIn } from "../client/answer.ts";
import type { Client } from "../client/client.ts";

/** Characters of a uuid shown in a list, if they are unique there. */
const SHOWN_CHARS = 8;
/** Characters of a uuid that are enough to delete or cancel without confirmation. */
const SURE_CHARS_MIN = 8;
const UUID_CHARS = 36;
/** Candidates listed for an ambiguous word. */
export const CANDIDATES_MAX = 10;

/** Unique beginnings of these uuids: all of one length, 8 or more. */
export function shortUuids(uuids: readonly string[]): string[] {
  const different = new Set(uuids).size;
  for (let chars = SHOWN_CHARS;; chars++) {
    const short = uuids.map((uuid) => uuid.slice(0, chars));
    if (new Set(short).size === different) return short;
  }
}

/** A column with unique beginnings of uuids. */
export function uuidColumn(
  head: string,
  items: readonly JsonObject[],
  key = "uuid",
): ItemColumn<JsonObject> {
  const uuids = shortUuids(items.map((item) => textIn(item, key) ?? ""));
  return { head, cell: (_, at) => uuids[at] ?? "" };
}

/** What a word on the command line refers to. */
export interface NamedThing {
  readonly uuid: string;
  readonly word: string;
  /** Name, state and age; undefined for a whole uuid, which is not looked up. */
  readonly about: string | undefined;
  /** Whether the word was only the beginning of the uuid. */
  readonly shortened: boolean;
}

type NounOfThings = "host" | "job" | "leftover" | "machine" | "workflow";

/** A whole uuid, whether it exists or not; undefined for another word. */
function wholeUuid(word: string): NamedThing | undefined {
  const uuid = word.toLowerCase();
  return isUuid(uuid) ? { uuid, word, about: undefined, shortened: false } : undefined;
}

/** The job that a word names. @throws {AgentError} `not_found`; `invalid_argument` for several */
export async function jobNamed(call: Invocation, word: string): Promise<NamedThing> {
  const whole = wholeUuid(word);
  if (whole !== undefined) return whole;
  const folded = word.toLowerCase();
  if (!isBeginning(folded)) throw unknown("job", word);
  const query = new URLSearchParams({ uuid: folded, limit: String(CANDIDATES_MAX) });
  const page = readObject(await call.client.get(`/agent/v1/jobs?${query}`), "the jobs");
  return onlyOne(call, "job", word, objectsAt(page, "jobs"));
}

/** `/jobs/` and the job that the first operand names. @throws {AgentError} as jobNamed() */
export async function jobPath(call: Invocation): Promise<string> {
  const { uuid } = await jobNamed(call, call.args.operand);
  return `/jobs/${uuid}`;
}

/** `/agent/v1/machines/` and the machine that the first operand names. @throws as machineNamed() */
export async function machinePath(call: Invocation): Promise<string> {
  const { uuid } = await machineNamed(call, call.args.operand);
  return `/agent/v1/machines/${uuid}`;
}

/**
 * The machine that a word names: its uuid, its alias or the beginning of its uuid.
 * @throws {AgentError} as jobNamed()
 */
export async function machineNamed(call: Invocation, word: string): Promise<NamedThing> {
  const whole = wholeUuid(word);
  if (whole !== undefined) return whole;
  const machines = readObjects(await call.client.get("/agent/v1/machines"), "the machines");
  const named = machines.filter((machine) => textIn(machine, "alias") === word);
  if (named.length > 0) return onlyOne(call, "machine", word, named, "alias");
  return onlyOne(call, "machine", word, begunBy(word, machines));
}

/**
 * The host that a word names: its uuid, its name or the beginning of its uuid. A forgotten one has its name
 * only as long as no other host has it.
 * @throws {AgentError} as jobNamed()
 */
export async function namedHost(call: Invocation, word: string): Promise<NamedThing> {
  const whole = wholeUuid(word);
  if (whole !== undefined) return whole;
  const hosts = readObjects(await call.client.get("/agent/v1/hosts"), "the hosts");
  const called = hosts.filter((host) => textIn(host, "name") === word);
  const kept = called.filter((host) => host.forgotten !== true);
  const named = kept.length > 0 ? kept : called;
  if (named.length > 0) return onlyOne(call, "host", word, named, "name");
  return onlyOne(call, "host", word, begunBy(word, hosts));
}

/**
 * The leftover that a word names: the uuid of its machine.
 * @param path of those that may be meant
 * @throws {AgentError} as jobNamed()
 */
export async function leftoverNamed(
  call: Invocation,
  word: string,
  path: string,
): Promise<NamedThing> {
  const whole = wholeUuid(word);
  if (whole !== undefined) return whole;
  if (!isBeginning(word.toLowerCase())) throw unknown("leftover", word);
  const left = readObjects(await call.client.get(path), "what is left");
  return onlyOne(call, "leftover", word, begunBy(word, left));
}

/**
 * The workflow that a word names: its uuid, its name or the beginning of its uuid.
 * @returns undefined when there is none
 * @throws {AgentError} `invalid_argument` for several
 */
export async function workflowKnown(
  call: Invocation,
  word: string,
): Promise<NamedThing | undefined> {
  const whole = wholeUuid(word);
  if (whole !== undefined) return whole;
  const named = await workflowsNamed(call.client, word);
  if (named.length > 0) return onlyOne(call, "workflow", word, named, "name");
  return await begunWorkflow(call, word);
}

/**
 * The workflow whose uuid begins with a word that names no workflow.
 * @returns undefined when there is none, or the word does not begin a uuid
 * @throws {AgentError} `invalid_argument` for several
 */
export async function workflowBegun(
  call: Invocation,
  word: string,
): Promise<NamedThing | undefined> {
  if (!isBeginning(word.toLowerCase())) return undefined;
  if ((await workflowsNamed(call.client, word)).length > 0) return undefined;
  return await begunWorkflow(call, word);
}

/**
 * The workflows with a name in order of creation, built-in ones included.
 * @throws {AgentError} when the agent does not list them
 */
export async function workflowsNamed(client: Client, name: string): Promise<JsonObject[]> {
  const query = new URLSearchParams({ name });
  return readObjects(await client.get(`/workflows?${query}`), "the workflows");
}

async function begunWorkflow(
  call: Invocation,
  word: string,
): Promise<NamedThing | undefined> {
  const folded = word.toLowerCase();
  if (!isBeginning(folded)) return undefined;
  const query = new URLSearchParams({ uuid: folded, limit: String(CANDIDATES_MAX) });
  const found = readObjects(await call.client.get(`/workflows?${query}`), "the workflows");
  return found.length === 0 ? undefined : onlyOne(call, "workflow", word, found);
}

/** The things whose uuid begins with a word; none if it begins none. */
function begunBy(word: string, things: readonly JsonObject[]): JsonObject[] {
  const folded = word.toLowerCase();
  if (!isBeginning(folded)) return [];
  return things.filter((thing) => textIn(thing, "uuid")?.startsWith(folded));
}

function isBeginning(word: string): boolean {
  const { length } = word;
  return length >= UUID_BEGINNING_CHARS_MIN && length < UUID_CHARS && /^[0-9a-f-]+$/.test(word);
}

function unknown(kind: NounOfThings, word: string): AgentError {
  const by = kind === "machine" ? "alias" : kind === "host" ? "name" : undefined;
  if (isBeginning(word.toLowerCase())) {
    const has = by === undefined ? "" : `has that ${by}, and none `;
    const message = `Cannot find ${kind} ${
      JSON.stringify(word)
    }: none ${has}has a uuid that begins with it`;
    return new AgentError("not_found", message, { about: { kind } });
  }
  const known = by === undefined ? "expected" : `none has that ${by}, expected a known ${by},`;
  const message = `Cannot find ${kind} ${JSON.stringify(word)}: ${known} a uuid or its first ` +
    `${UUID_BEGINNING_CHARS_MIN} characters or more`;
  return new AgentError("not_found", message, { about: { kind } });
}

/** @throws {AgentError} `not_found`; `invalid_argument` naming the candidates */
function onlyOne(
  { terminal }: Invocation,
  kind: NounOfThings,
  word: string,
  found: readonly JsonObject[],
  by: "alias" | "name" | "uuid" = "uuid",
): NamedThing {
  const [one] = found;
  if (one === undefined) throw unknown(kind, word);
  const nowMs = terminal.nowMs();
  if (found.length === 1) {
    const uuid = textIn(one, "uuid") ?? "";
    return { uuid, word, about: aboutThing(one, nowMs), shortened: by === "uuid" };
  }
  const shown = found.slice(0, CANDIDATES_MAX);
  const uuids = shortUuids(shown.map((thing) => textIn(thing, "uuid") ?? ""));
  const errors = shown.map((thing, at) => ({
    field: kind,
    code: "Invalid" as const,
    message: `${uuids[at]}  ${aboutThing(thing, nowMs)}`,
  }));
  const many = found.length < CANDIDATES_MAX ? `${found.length}` : `${CANDIDATES_MAX} or more`;
  const have = by === "uuid" ? `${many} uuids begin so` : `${many} have that ${by}`;
  const message = `Cannot choose ${kind} ${JSON.stringify(word)}: ${have}, expected ` +
    (by === "uuid" ? "more characters of one of them" : "one of their uuids");
  throw new AgentError("invalid_argument", message, { errors, about: { kind } });
}

/** `hello, failed, 2 h old`. */
function aboutThing(thing: JsonObject, nowMs: number): string {
  const created = textIn(thing, "created_at") ?? textIn(thing, "claimed_at");
  const tries = numberIn(thing, "tries");
  const tasks = Array.isArray(thing.chain) ? thing.chain.length : undefined;
  return [
    textIn(thing, "name") ?? textIn(thing, "alias"),
    textIn(thing, "state"),
    tries === undefined ? undefined : counted(tries, "try", "tries"),
    tasks === undefined ? undefined : counted(tasks, "task", "tasks"),
    textIn(thing, "host"),
    created === undefined ? undefined : `${ageText(created, nowMs)} old`,
  ].filter((word) => word !== undefined).join(", ");
}

function counted(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

/**
 * Before something irreversible, prints what a name or a part of a uuid refers to.
 * @param action such as `cancel`
 * @returns whether it was named by so few characters that confirmation is needed
 * @throws {AgentError} `invalid_argument` for so few characters with --yes
 */
export function announceNamed(
  { args, printer }: Invocation,
  kind: NounOfThings,
  action: string,
  { uuid, word, about, shortened }: NamedThing,
): boolean {
  if (about === undefined) return false;
  const what = `${kind} ${uuid} (${about})`;
  if (!shortened || word.length >= SURE_CHARS_MIN) {
    if (!printer.json) printer.note(what);
    return false;
  }
  if (!args.has(YES_FLAG.name)) return true;
  throw cannot(
    `${action} ${what} by ${JSON.stringify(word)} with --yes, expected ${SURE_CHARS_MIN} ` +
      "characters of its uuid or more",
  );
}

/**
 * Whether to do something irreversible to what was named, which it asks unless --yes is given.
 * @param actionOn the question about it, such as `machine 0f5c… (web-1)`
 * @throws {AgentError} as announceNamed(), and as confirmed()
 */
export async function isSure(
  call: Invocation,
  kind: NounOfThings,
  verb: string,
  actionOn: (thing: string) => string,
  named: NamedThing,
): Promise<boolean> {
  if (call.args.has("curl")) return true;
  announceNamed(call, kind, verb, named);
  const about = named.about === undefined ? "" : ` (${named.about})`;
  return await confirmed(call, actionOn(`${kind} ${named.uuid}${about}`));
}

/** Whether to cancel or delete what was named. @throws {AgentError} as announceNamed() */
export async function isMeant(
  call: Invocation,
  kind: NounOfThings,
  action: string,
  thing: NamedThing,
): Promise<boolean> {
  if (call.args.has("curl") || !announceNamed(call, kind, action, thing)) return true;
  return await confirmed(call, `${action} ${kind} ${thing.uuid} (${thing.about})`);
}
