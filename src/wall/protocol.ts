// The protocol between the agent and a guest: the capabilities of a task, the messages in both
// directions, and fixed limits. A message is one line of JSON on a unix socket. Both sides import
// this file; sandbox/untrusted_message.ts checks what guests send.
//
//   agent   run ......... reply ...
//   guest       call log ......... end closed
//
// `end` is the result of a task; `closed` says that nothing of the task runs any more.

import type { JsonObject, JsonValue } from "../domain/json.ts";
import { type Language, takeLanguage } from "./language.ts";

/** The closed list of what a task may call. */
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
/** The name of a capability as a guest sends it. */
export type CapabilityName = typeof CAPABILITIES[number];

type LevelOf<Name> = Name extends `log.${infer Level}` ? Level : never;
/** The last part of `log.debug` to `log.error`. */
export type TaskLogLevel = LevelOf<CapabilityName>;

/** What a task may pass to its callback instead of an error. @see document 2, Task */
export const SIGNALS = ["queue", "wait", "retry", "cancel"] as const;
/** A word that ends an execution without a result or an error. */
export type SignalWord = typeof SIGNALS[number];

/** Bytes of the first line of a connection, the secret token. */
export const TOKEN_BYTES_MAX = 128;
/** Depth of any JSON value from a guest. */
export const JSON_DEPTH_MAX = 100;
/** Arguments of one capability call. */
export const ARGS_MAX = 8;
/** Concurrent capability calls of one task. */
export const CALLS_IN_FLIGHT_MAX = 32;
/**
 * Memory of a guest after an execution, bytes, above which it gets no other task, which would lack
 * the uncollected memory. A fresh guest has about 60 MB.
 */
export const SPENT_BYTES = 160 * 1024 * 1024;
/** Longest name of a task repeated in errors, entries and log lines, characters. */
export const TASK_NAME_CHARS_MAX = 255;
/** Pending timers of one task. */
export const TIMERS_MAX = 1000;
/** Compiled sources cached by a guest. */
export const SCRIPTS_MAX = 64;

/** What a guest proves at its start to be refused, by names of Deno's permissions. */
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
/** A permission of the runtime that no guest may have. */
export type GuestPermission = typeof GUEST_PERMISSIONS[number];

/**
 * All that a guest proves before its first task: no permissions, no foreign objects in its realms,
 * and a frozen language in its own.
 */
export const GUEST_CHECKS = [...GUEST_PERMISSIONS, "realm", "primordials"] as const;

/** One check and its result. */
export interface GuestCheck {
  /** One word, which names it. */
  readonly check: string;
  readonly ok: boolean;
  /** What was found, in words. */
  readonly detail: string;
}

/** Asks a guest to run a source. */
export interface RunMessage {
  readonly type: "run";
  /** Number of the execution; every message about it carries it. */
  readonly run: number;
  readonly kind: "body" | "fallback";
  readonly source: string;
  readonly task_name: string;
  /** Names of job fields that need not come back, separated by spaces. */
  readonly engine_fields: string;
  /** JSON text of the job object. */
  readonly job: string;
  /** JSON text of the body's error, for a fallback. */
  readonly error: string;
}

interface ReplyHead {
  readonly type: "reply";
  readonly run: number;
  readonly call: number;
}

interface CapabilityReply extends ReplyHead {
  readonly ok: true;
}

/** Result of a capability call. */
export type ReplyMessage =
  | CapabilityReply & {
    /** JSON text of the answer. */
    readonly value: string;
  }
  | ReplyHead & {
    readonly ok: false;
    /** A code of AgentError, such as `conflict`. */
    readonly code: string;
    readonly message: string;
  };

/** Everything that the agent sends. */
export type AgentMessage = RunMessage | ReplyMessage;

/** Tabs separate the JSON texts of a line: JSON always escapes tabs. */
const TEXT_BREAK = "\t";

/** The line of a message. Large values stay texts, so that no guest parses them. */
export function agentLine(message: AgentMessage): string {
  if (message.type === "run") {
    const { job, error, ...head } = message;
    return [JSON.stringify(head), job, error].join(TEXT_BREAK);
  }
  if (!message.ok) return JSON.stringify(message);
  const { value, ...head } = message;
  return [JSON.stringify(head), value].join(TEXT_BREAK);
}

/** Parses a line of agentLine(), using only methods of `language`. @throws {SyntaxError} for a line that is not JSON */
export function readAgentLine(line: string, language: Language = takeLanguage()): AgentMessage {
  const { textIndexOf, slice, parse } = language;
  const first = textIndexOf(line, TEXT_BREAK);
  // Only agentLine() writes to a guest, so the types hold.
  if (first === -1) return parse(line) as ReplyMessage;
  const head = parse(slice(line, 0, first)) as Omit<RunMessage, "job" | "error"> | CapabilityReply;
  if (head.type === "reply") return { ...head, value: slice(line, first + 1) };
  const second = textIndexOf(line, TEXT_BREAK, first + 1);
  return { ...head, job: slice(line, first + 1, second), error: slice(line, second + 1) };
}

/** Result of an execution, as the guest reports it. `job` lacks the fields of the engine. */
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

/** Everything that a guest sends. */
export type GuestMessage =
  /** First message: the guest's checks of what it must not be able to do. */
  | { readonly type: "ready"; readonly checks: readonly GuestCheck[] }
  | {
    readonly type: "call";
    readonly run: number;
    readonly call: number;
    readonly name: CapabilityName;
    /** Or why the arguments were not accepted, worded to follow "it". */
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
  /** Nothing of the execution runs any more; `spent` when it left the guest too little memory. */
  | { readonly type: "closed"; readonly run: number; readonly spent: boolean };
