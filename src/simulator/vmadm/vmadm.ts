// The simulated vmadm: turns the words of a call into its outcome, and applies the faults that affect a whole
// call. Each subcommand has a file of its name.

import { AgentError, messageOf } from "../../domain/error.ts";
import { parseBootWords, start } from "./boot.ts";
import { canonicalSubcommand, fieldsOf, parseCall, type SimulatedCall } from "../call.ts";
import { create, validate } from "./create.ts";
import { die, faultMs, strikes, strikesOn } from "../fault.ts";
import { get, info, list, lookup } from "./query.ts";
import { crash, failed, misuse, printed, refusal, type ToolOutcome } from "../outcome.ts";
import { parsePayload } from "./payload.ts";
import { sleep, type State } from "../host_folder.ts";
import { reboot, remove, stop } from "./stop.ts";
import { changesIn, update } from "./update.ts";

/** Longest payload on stdin, bytes. */
const PAYLOAD_BYTES_MAX = 16 << 20;
/** Longest wait of one timer, milliseconds; a hanging call restarts it. */
const HANG_MS = 60_000;
/** The exit code that a shell sees after SIGABRT. */
const ABORTED_CODE = 134;
const SHAPE = /^[0-9a-zA-Z]{8}-[0-9a-zA-Z]{4}-[0-9a-zA-Z]{4}-[0-9a-zA-Z]{4}-[0-9a-zA-Z]{12}$/;

const USAGE = `Usage: vmadm <subcommand> [options]

  create [-f FILE]                          validate create [-f FILE]
  start|boot UUID [order=..] [cdrom=PATH,MODEL] [disk=PATH,MODEL]
  stop|halt UUID [-F] [-t SECONDS]          reboot UUID [-F]
  get|json UUID                             info UUID [TYPE,TYPE]
  list [-p] [-H] [-o FIELDS] [-s FIELDS]    lookup [-j|-1] [-o FIELDS] [KEY=VALUE]
  update UUID [-f FILE | KEY=VALUE]         delete|destroy UUID

This is a simulation of the documented behaviour, not the tool of SmartOS.
`;

/** Runs one call and returns its output and exit code. */
export async function vmadm(state: State, args: readonly string[]): Promise<ToolOutcome> {
  const [given = "", ...rest] = args;
  const subcommand = canonicalSubcommand(given);
  const misplaced = await placeFault(state);
  if (misplaced !== null) {
    return { code: 2, stdout: "", stderr: `FATAL: cannot run because: ${misplaced}\n` };
  }
  if (await strikesOn(state, "killed", subcommand)) return await die("SIGKILL");
  if (await strikesOn(state, "aborted", subcommand)) return await die("SIGABRT");
  await hang(state, "hang", subcommand);
  await sleep(await faultMs(state, "slow"));
  const outcome = await answer(state, subcommand, rest);
  await hang(state, "hang_after", subcommand);
  return outcome;
}

async function placeFault(state: State): Promise<string | null> {
  if (await strikes(state, "no_root")) return "not running as root";
  return await strikes(state, "no_global_zone") ? "not running in the global zone" : null;
}

async function hang(state: State, fault: "hang" | "hang_after", subcommand: string) {
  if (!await strikesOn(state, fault, subcommand)) return;
  // Intended to run until the caller kills this program.
  for (;;) await sleep(HANG_MS);
}

async function answer(
  state: State,
  subcommand: string,
  args: readonly string[],
): Promise<ToolOutcome> {
  const call = parseCall(args);
  if (subcommand === "help" || call.flags.has("-h")) return printed(USAGE);
  try {
    return await perform(state, subcommand, call);
  } catch (error) {
    if (error instanceof AgentError && error.code === "aborted") {
      const stack = `Error: ${error.message}\n    at simulated vmadm\n`;
      return { code: ABORTED_CODE, stdout: "", stderr: `Uncaught ${stack}`, aborts: true };
    }
    if (error instanceof AgentError && error.code === "host") return failed(error.message);
    if (error instanceof AgentError && error.code === "invalid_argument") {
      return { code: 2, stdout: "", stderr: `${error.message}\n\n${USAGE}` };
    }
    return failed(`Simulator: ${messageOf(error)}`);
  }
}

async function perform(
  state: State,
  subcommand: string,
  call: SimulatedCall,
): Promise<ToolOutcome> {
  if (["create", "get", "list", "lookup", "start"].includes(subcommand)) {
    if (await strikes(state, "vminfod_down")) throw refusal("connect ECONNREFUSED");
  }
  // These listen to vmadmd's events, and nothing catches the connection error.
  if (["delete", "stop", "update"].includes(subcommand)) {
    if (await strikes(state, "vminfod_down")) throw crash("connect ECONNREFUSED");
  }
  const uuid = () => uuidOf(subcommand, call);
  const has = (flag: string) => call.flags.has(flag);
  switch (subcommand) {
    case "create":
      return await create(state, await payloadText(call));
    case "validate":
      return await validate(state, ...await validateWords(call));
    case "start":
      return await start(state, uuid(), parseBootWords(call.words.slice(1)));
    case "stop":
      return await stop(state, uuid(), { force: has("-F"), timeoutMs: timeoutMs(call) });
    case "reboot":
      return await reboot(state, uuid(), has("-F"));
    case "get":
      return await get(state, uuid());
    case "info":
      return await info(state, uuid(), call.words[1] ?? "");
    case "delete":
      return await remove(state, uuid());
    case "update":
      return await update(state, uuid(), await changesOf(call));
    case "lookup":
      return await lookup(state, {
        json: has("-j"),
        unique: has("-1"),
        fields: fieldsOf(call, "-o"),
        filters: call.words,
      });
    case "list":
      return await list(state, {
        parsable: has("-p"),
        noHeader: has("-H"),
        fields: fieldsOf(call, "-o"),
        sort: fieldsOf(call, "-s") ?? [],
        filters: call.words,
      });
    case "":
      throw misuse("Missing subcommand");
    default:
      throw misuse(`Invalid command: '${subcommand}'.`);
  }
}

/** Only the form of the positional uuid is checked. */
function uuidOf(subcommand: string, call: SimulatedCall): string {
  const [uuid = ""] = call.words;
  if (!SHAPE.test(uuid)) throw misuse(`Invalid or missing UUID for ${subcommand}`);
  return uuid;
}

function timeoutMs(call: SimulatedCall): number | null {
  const seconds = call.values.get("-t");
  return seconds === undefined || !/^\d{1,6}$/.test(seconds) ? null : Number(seconds) * 1000;
}

async function validateWords(
  call: SimulatedCall,
): Promise<[string, "create" | "update", string | undefined]> {
  const [action, brand] = call.words;
  if (action !== "create" && action !== "update") {
    throw misuse(`Invalid action for validate: '${action ?? ""}'`);
  }
  if (action === "update" && brand === undefined) throw misuse("Missing brand for validate update");
  return [await payloadText(call), action, brand];
}

async function changesOf(call: SimulatedCall) {
  const words = call.words.slice(1).filter((word) => word.includes("="));
  return words.length > 0 ? changesIn(words) : parsePayload(await payloadText(call));
}

/** The text of `-f FILE`, or of standard input up to its end. */
async function payloadText(call: SimulatedCall): Promise<string> {
  const file = call.values.get("-f") ?? "-";
  if (file !== "-") {
    try {
      return await Deno.readTextFile(file);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      throw refusal(`File: ${file} does not exist.`);
    }
  }
  if (Deno.stdin.isTerminal()) throw misuse("Will not read a payload from a terminal");
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of Deno.stdin.readable) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > PAYLOAD_BYTES_MAX) throw refusal("Invalid JSON payload: too long");
  }
  return text + decoder.decode();
}
