// Reads what guests send. A guest is not believed: whatever is not exactly one of the messages of
// protocol.ts is refused, and the pool then kills the guest.

import { AgentError } from "../domain/error.ts";
import { isJsonObject, jsonDepth, type JsonObject, type JsonValue } from "../domain/json.ts";
import {
  ARGS_MAX,
  CAPABILITIES,
  type EndOutcome,
  type GuestMessage,
  JSON_DEPTH_MAX,
  LOG_LEVELS,
  SIGNALS,
} from "./protocol.ts";

/** Wrapping of a value by its message: the message object, its outcome, the value. */
const ENVELOPE_DEPTH = 3;
const PROBLEMS_MAX = 64;

/**
 * Reads one line from a guest. A key named `__proto__` is dropped at every level, so that no later
 * assignment can take it for a prototype.
 * @throws {AgentError} `malformed` for anything that is not a message of the protocol
 */
export function parseGuestMessage(line: string): GuestMessage {
  const message = parseObject(line);
  switch (message.type) {
    case "ready":
      return { type: "ready", problems: problems(message.problems) };
    case "call":
      return {
        type: "call",
        run: counter(message, "run"),
        call: counter(message, "call"),
        name: oneOf(CAPABILITIES, message, "name"),
        args: callArguments(message.args),
      };
    case "log":
      return {
        type: "log",
        run: counter(message, "run"),
        level: oneOf(LOG_LEVELS, message, "level"),
        message: text(message, "message"),
        fields: object(message, "fields"),
      };
    case "end":
      return { type: "end", run: counter(message, "run"), outcome: endOutcome(message.outcome) };
    case "closed":
      return { type: "closed", run: counter(message, "run") };
    default:
      throw malformed("its type is unknown");
  }
}

function parseObject(line: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw malformed("it is not JSON", cause);
  }
  if (!isJsonObject(value)) throw malformed("it is not an object");
  if (jsonDepth(value, JSON_DEPTH_MAX + ENVELOPE_DEPTH) > JSON_DEPTH_MAX + ENVELOPE_DEPTH) {
    throw malformed(`it is nested deeper than ${JSON_DEPTH_MAX}`);
  }
  dropPrototypeKeys(value);
  return value;
}

/** Recursion is safe here: the depth has been checked. */
function dropPrototypeKeys(value: JsonValue): void {
  if (typeof value !== "object" || value === null) return;
  if (Object.hasOwn(value, "__proto__")) Reflect.deleteProperty(value, "__proto__");
  for (const inner of Object.values(value)) dropPrototypeKeys(inner);
}

function endOutcome(value: unknown): EndOutcome {
  if (!isJsonObject(value)) throw malformed("outcome is not an object");
  switch (value.kind) {
    case "success":
      return { kind: "success", result: present(value, "result"), job: object(value, "job") };
    case "failure": {
      const job = value.job === null ? null : object(value, "job");
      return { kind: "failure", error: present(value, "error"), job };
    }
    case "signal":
      return {
        kind: "signal",
        word: oneOf(SIGNALS, value, "word"),
        result: present(value, "result"),
        job: object(value, "job"),
      };
    default:
      throw malformed("the kind of its outcome is unknown");
  }
}

function callArguments(value: unknown): JsonValue[] {
  if (!Array.isArray(value)) throw malformed("args is not a list");
  if (value.length > ARGS_MAX) throw malformed(`args has over ${ARGS_MAX} members`);
  return value;
}

function problems(value: unknown): string[] {
  if (!Array.isArray(value) || value.length > PROBLEMS_MAX) throw malformed("problems is no list");
  return value.map((problem) => String(problem));
}

function counter(message: JsonObject, field: string): number {
  const value = own(message, field);
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw malformed(`${field} is not a counter`);
  }
  return value;
}

function text(message: JsonObject, field: string): string {
  const value = own(message, field);
  if (typeof value !== "string") throw malformed(`${field} is not a text`);
  return value;
}

function object(message: JsonObject, field: string): JsonObject {
  const value = own(message, field);
  if (!isJsonObject(value)) throw malformed(`${field} is not an object`);
  return value;
}

function present(message: JsonObject, field: string): JsonValue {
  const value = own(message, field);
  if (value === undefined) throw malformed(`${field} is missing`);
  return value;
}

function oneOf<Word extends string>(
  words: readonly Word[],
  message: JsonObject,
  field: string,
): Word {
  const value = own(message, field);
  const word = words.find((known) => known === value);
  if (word === undefined) throw malformed(`${field} is not one of the known words`);
  return word;
}

function own(message: JsonObject, field: string): JsonValue | undefined {
  return Object.hasOwn(message, field) ? message[field] : undefined;
}

function malformed(what: string, cause?: unknown): AgentError {
  return new AgentError("malformed", `Cannot read a message of a guest: ${what}`, { cause });
}
