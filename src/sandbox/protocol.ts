// The words that cross the wall between the agent and a guest process: the capabilities a task may
// ask for, the messages in both directions, and the limits that nobody sets. A message is one line of
// JSON on a unix socket. Both sides import this file; guest_message.ts checks what guests send.
//
//   agent   run ......... reply ...
//   guest       call log ......... end closed
//
// `end` is the last word of a task, `closed` that of its guest: nothing of the task runs any more.

import type { JsonObject, JsonValue } from "../domain/json.ts";
import { type Language, takeLanguage } from "./guest/language.ts";

/** Everything a task may ask the agent for; a closed list. */
export const CAPABILITIES = [
  "vmadm.validate",
  "vmadm.create",
  "vmadm.get",
  "vmadm.list",
  "vmadm.boot",
  "vmadm.stop",
  "vmadm.reboot",
  "vmadm.update",
  "vmadm.delete",
  "vmadm.info",
  "media.find",
  "media.place",
  "media.remove",
  "images.find",
  "images.download",
  "vnc.wait",
  "info",
  "log.debug",
  "log.info",
  "log.warn",
  "log.error",
] as const;
/** One of the capabilities. */
export type CapabilityName = typeof CAPABILITIES[number];

/** The levels at which a task may log. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
/** One of those levels. */
export type TaskLogLevel = typeof LOG_LEVELS[number];

/** What a task may say to its callback instead of an error. @see document 2, Tasks */
export const SIGNALS = ["queue", "wait", "retry", "cancel"] as const;
/** One of those words. */
export type SignalWord = typeof SIGNALS[number];

/** Bytes of the first line of a connection, which is the secret token. */
export const TOKEN_BYTES_MAX = 128;
/** Nesting of any JSON value that leaves a guest. */
export const JSON_DEPTH_MAX = 100;
/** Arguments of one capability call. */
export const ARGS_MAX = 8;
/** Capability calls of one task that are under way at the same time. */
export const CALLS_IN_FLIGHT_MAX = 32;
/**
 * Memory of a guest after an execution, bytes, above which it is given no other one: what a task has
 * taken up and nobody has collected yet would be missing for the next. A fresh guest has about 60 MB.
 */
export const SPENT_BYTES = 160 * 1024 * 1024;
/** Characters of the name of a task that errors, entries and log lines repeat. */
export const TASK_NAME_CHARS_MAX = 255;
/** Pending timers of one task. */
export const TIMERS_MAX = 1000;
/** Compiled sources that a guest keeps. */
export const SCRIPTS_MAX = 64;

/** What a guest proves at its start to be refused, by the names of Deno's permissions. */
export const GUEST_PERMISSIONS = [
  "read",
  "write",
  "net",
  "env",
  "run",
  "sys",
  "ffi",
  "import",
] as const;
/** One of those names. */
export type GuestPermission = typeof GUEST_PERMISSIONS[number];

/**
 * All that a guest proves before its first task: those, that its realms have nothing of another, and
 * that the language of its own is frozen.
 */
export const GUEST_CHECKS = [...GUEST_PERMISSIONS, "realm", "primordials"] as const;

/** What was looked at, and what was found. */
export interface GuestCheck {
  /** One word. */
  readonly check: string;
  readonly ok: boolean;
  /** What was found, in words. */
  readonly detail: string;
}

/** What a guest is asked for: run this source. */
export interface RunMessage {
  readonly type: "run";
  /** Counts the executions of one guest; every message about the execution carries it. */
  readonly run: number;
  readonly kind: "body" | "fallback";
  readonly source: string;
  readonly task_name: string;
  /** Names of the fields of the job that need not come back, between spaces. */
  readonly engine_fields: string;
  /** JSON text of the job object. */
  readonly job: string;
  /** JSON text of what the body failed with; given to a fallback. */
  readonly error: string;
}

/** What every reply begins with. */
interface ReplyHead {
  readonly type: "reply";
  readonly run: number;
  readonly call: number;
}

interface CapabilityReply extends ReplyHead {
  readonly ok: true;
}

/** How a capability call ended. */
export type ReplyMessage =
  | CapabilityReply & {
    /** JSON text of the answer. */
    readonly value: string;
  }
  | ReplyHead & {
    readonly ok: false;
    /** A code of AgentError. */
    readonly code: string;
    readonly message: string;
  };

/** What the agent says to a guest. */
export type AgentMessage = RunMessage | ReplyMessage;

/** JSON texts on one line stand between tabs: inside of JSON a tab is always escaped. */
const TEXT_BREAK = "\t";

/** The line of a message. Its large values stay the texts they are, so that no guest parses them. */
export function agentLine(message: AgentMessage): string {
  if (message.type === "run") {
    const { job, error, ...head } = message;
    return [JSON.stringify(head), job, error].join(TEXT_BREAK);
  }
  if (!message.ok) return JSON.stringify(message);
  const { value, ...head } = message;
  return [JSON.stringify(head), value].join(TEXT_BREAK);
}

/** The message of a line that agentLine() made, read by the methods of `language` alone. */
export function readAgentLine(line: string, language: Language = takeLanguage()): AgentMessage {
  const { textIndexOf, slice, parse } = language;
  const first = textIndexOf(line, TEXT_BREAK);
  // What agentLine() writes: the types say it, and nobody else writes to a guest.
  if (first === -1) return parse(line) as ReplyMessage;
  const head = parse(slice(line, 0, first)) as Omit<RunMessage, "job" | "error"> | CapabilityReply;
  if (head.type === "reply") return { ...head, value: slice(line, first + 1) };
  const second = textIndexOf(line, TEXT_BREAK, first + 1);
  return { ...head, job: slice(line, first + 1, second), error: slice(line, second + 1) };
}

/** How an execution ended, as the guest tells it. `job` comes without the fields of the engine. */
export type EndOutcome =
  | { readonly kind: "success"; readonly result: JsonValue; readonly job: JsonObject }
  /** `job` is null when the job object could not be written as JSON. */
  | { readonly kind: "failure"; readonly error: JsonValue; readonly job: JsonObject | null }
  | {
    readonly kind: "signal";
    readonly word: SignalWord;
    readonly result: JsonValue;
    readonly job: JsonObject;
  };

/** What a guest says to the agent. */
export type GuestMessage =
  /** First of all: what the guest has tried of what it must not be able to do. */
  | { readonly type: "ready"; readonly checks: readonly GuestCheck[] }
  | {
    readonly type: "call";
    readonly run: number;
    readonly call: number;
    readonly name: CapabilityName;
    /** Or what keeps them from being taken, in words that follow "it". */
    readonly args: readonly JsonValue[] | { readonly flaw: string };
  }
  | {
    readonly type: "log";
    readonly run: number;
    readonly level: TaskLogLevel;
    readonly message: string;
    readonly fields: JsonObject;
  }
  | { readonly type: "end"; readonly run: number; readonly outcome: EndOutcome }
  /** Nothing of the execution runs any more; `spent` when it has left the guest too little memory. */
  | { readonly type: "closed"; readonly run: number; readonly spent: boolean };
