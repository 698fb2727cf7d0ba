// Task log lines in the agent's log, without secrets. They also appear in the info of the job, for
// the caller who posted it.

import { AgentError, invalidArgument } from "../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import { masked } from "../host/vmadm/output.ts";
import type { Log } from "../metrics/log.ts";
import type { TaskLogLevel } from "../wall/protocol.ts";
import type { Call, CapabilitiesOf, Capability } from "./capability.ts";
import { isSecretName, MASK } from "../domain/masking.ts";

const LOG_DEADLINE_MS = 30_000;

/**
 * The capabilities `log.debug(message, fields?)` and so on.
 * @param charsMax characters of a message; longer ones are cut
 */
export function logCapabilities(log: Log, charsMax: number): CapabilitiesOf<"log"> {
  return {
    "log.debug": logAt(log, "debug", charsMax),
    "log.info": logAt(log, "info", charsMax),
    "log.warn": logAt(log, "warn", charsMax),
    "log.error": logAt(log, "error", charsMax),
  };
}

function logAt(log: Log, level: TaskLogLevel, charsMax: number): Capability {
  return {
    deadlineMs: LOG_DEADLINE_MS,
    async perform({ job_uuid, task_name, note, drop }, [first, given]) {
      const fields = given ?? {};
      if (!isJsonObject(fields)) {
        throw invalidArgument("fields", "Cannot log: expected the fields to be an object");
      }
      const message = masked(textOf(first, charsMax));
      const more = Object.keys(fields).length === 0 ? {} : { fields: maskedFields(fields) };
      // The note comes first: its limit also applies to the log.
      const noted = await noteLine(note, { task: task_name, log: level, message, ...more });
      if (noted) log[level]("task logged", { job_uuid, task_name, message, ...more });
      else drop();
      return null;
    },
  };
}

/** Drops lines above the limit: logging too much must not fail a task. */
async function noteLine(note: Call["note"], entry: JsonObject): Promise<boolean> {
  try {
    await note(entry);
    return true;
  } catch (error) {
    if (error instanceof AgentError && error.code === "too_large") return false;
    throw error;
  }
}

function textOf(value: JsonValue | undefined, charsMax: number): string {
  if (value === undefined) throw invalidArgument("message", "Cannot log: the message is missing");
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.slice(0, charsMax);
}

// Masks secrets: a body that logs its job's params logs the passwords in them too.
// domain/masking.ts decides which names are secret.

/** The fields, with the values of secret names masked. */
function maskedFields(fields: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      isSecretName(name) ? MASK : maskedValue(value),
    ]),
  );
}

/** The guest protocol limits the depth, and thus the recursion. */
function maskedValue(value: JsonValue): JsonValue {
  if (typeof value === "string") return masked(value);
  if (Array.isArray(value)) return value.map(maskedValue);
  return isJsonObject(value) ? maskedFields(value) : value;
}
