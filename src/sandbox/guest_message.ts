// Reads what guests send. A guest is not believed: whatever is not exactly one of the messages of
// protocol.ts is refused, and the pool then kills the guest.

import { AgentError } from "../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import {
  ARGS_MAX,
  CAPABILITIES,
  type EndOutcome,
  type GuestMessage,
  JSON_DEPTH_MAX,
  LOG_LEVELS,
  SIGNALS,
} from "./protocol.ts";

const PROBLEMS_MAX = 64;
const OUTCOMES = ["success", "failure", "signal"] as const;
const TOO_DEEP_FIELDS = { fields: `nested deeper than ${JSON_DEPTH_MAX} levels` };

/**
 * Reads one line from a guest. A key named `__proto__` is dropped at every level, so that no later
 * assignment can take it for a prototype. A value that is nested deeper than JSON_DEPTH_MAX is no
 * fault of the guest: it becomes an error of its task.
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
        fields: shallow(message.fields) ? object(message, "fields") : TOO_DEEP_FIELDS,
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
  if (Object.hasOwn(value, "__proto__")) Reflect.deleteProperty(value, "__proto__");
  return value;
}

/**
 * Whether a value is nested no deeper than a guest may send. Drops the keys named `__proto__` on the
 * way; the recursion is bounded by the same limit.
 */
function shallow(value: JsonValue | undefined, levelsLeft = JSON_DEPTH_MAX): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (levelsLeft === 0) return false;
  if (Array.isArray(value)) return value.every((inner) => shallow(inner, levelsLeft - 1));
  if (Object.hasOwn(value, "__proto__")) Reflect.deleteProperty(value, "__proto__");
  return Object.values(value).every((inner) => shallow(inner, levelsLeft - 1));
}

function endOutcome(value: unknown): EndOutcome {
  if (!isJsonObject(value)) throw malformed("outcome is not an object");
  const kind = oneOf(OUTCOMES, value, "kind");
  const job = kind === "failure" && value.job === null ? null : object(value, "job");
  if (!shallow(job ?? undefined)) return tooDeep("job", null);
  if (kind === "failure") {
    const error = present(value, "error");
    return shallow(error) ? { kind, error, job } : tooDeep("error", job);
  }
  const result = present(value, "result");
  if (!shallow(result)) return tooDeep("result", job);
  if (job === null) throw malformed("job is not an object");
  return kind === "success"
    ? { kind, result, job }
    : { kind, word: oneOf(SIGNALS, value, "word"), result, job };
}

function tooDeep(noun: string, job: JsonObject | null): EndOutcome {
  const message = `Cannot record the ${noun}: it is nested deeper than ${JSON_DEPTH_MAX} levels`;
  return { kind: "failure", error: { name: "RangeError", message }, job };
}

function callArguments(value: unknown): JsonValue[] | undefined {
  if (!Array.isArray(value)) throw malformed("args is not a list");
  if (value.length > ARGS_MAX) throw malformed(`args has over ${ARGS_MAX} members`);
  return value.every((arg) => shallow(arg)) ? value : undefined;
}

function problems(value: unknown): string[] {
  if (!Array.isArray(value) || value.length > PROBLEMS_MAX) throw malformed("problems is no list");
  return value.map((problem) => typeof problem === "string" ? problem : "something unknown");
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
