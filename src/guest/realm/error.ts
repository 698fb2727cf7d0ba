// Turns a task's errors into records, inside its realm. The head of body.ts says how this text is run.
// A thrown value is hostile: reading it may run code of the task and may throw.

import type { Realm, RealmPlace, StackPlace } from "./execution.ts";

/** The error of `cb(error)`: a string unchanged, an error or object as name and message. */
export function errorFromCallback(realm: Realm, given: unknown): unknown {
  try {
    if (typeof given !== "object" && typeof given !== "function") {
      return cut(realm, `${String(given)}`);
    }
    if (given === null) return "null";
    if ("statusCode" in given) return wholeError(realm, given);
    return nameAndMessage(realm, given, "");
  } catch {
    return "An error that cannot be read";
  }
}

/** The error of a throw or a rejection, with the task and the line in its source. */
export function errorFromThrow(realm: Realm, thrown: unknown): unknown {
  const task = `task ${realm.stringify(realm.name)}`;
  try {
    if (typeof thrown !== "object" || thrown === null) {
      return cut(realm, `${String(thrown)} (${task})`);
    }
    const line = lineOf(realm, "stack" in thrown ? thrown.stack : undefined);
    return nameAndMessage(realm, thrown, ` (${task}${line})`);
  } catch {
    return `An error that cannot be read (${task})`;
  }
}

/** Why a value has no JSON, given what was thrown. The engine's own words do not say what is expected. */
export function reasonOf(thrown: unknown): string {
  try {
    const words = String(thrown instanceof Error ? thrown.message.split("\n")[0] : thrown);
    switch (words) {
      case "Do not know how to serialize a BigInt":
        return "it holds a BigInt, expected a number or a text";
      case "Converting circular structure to JSON":
        return "it holds itself, expected what JSON can express";
      default:
        return words;
    }
  } catch {
    return "an error that cannot be read";
  }
}

/** An error as the job records it; `place` follows the message. */
export function nameAndMessage(
  realm: Realm,
  error: object,
  place: string,
): { name: string; message: string } {
  const { name, message } = error as { name?: unknown; message?: unknown };
  const hasText = name !== undefined || message !== undefined;
  const text = hasText ? `${message ?? ""}` : `${realm.stringify(error)}`;
  return {
    name: cut(realm, typeof name === "string" && name !== "" ? name : "Error"),
    message: `${cut(realm, text)}${place}`,
  };
}

/** An HTTP error is kept with all its fields, as clients of node-workflow expect. */
export function wholeError(realm: Realm, error: object): unknown {
  const text = `${realm.stringify(error)}`;
  if (text.length > realm.settings.errorCharsMax || text[0] !== "{") {
    return nameAndMessage(realm, error, "");
  }
  const fields = realm.parse(text) as object;
  return error instanceof Error ? { ...nameAndMessage(realm, error, ""), ...fields } : fields;
}

/** The line as the author counts it: the source begins in line 1 of its file. */
export function lineOf(realm: Realm, stack: unknown): string {
  if (typeof stack !== "string") return "";
  const at = stack.indexOf(`${realm.file}:`);
  const line = at === -1 ? NaN : parseInt(stack.slice(at + realm.file.length + 1), 10);
  return line > 0 ? `, line ${line}` : "";
}

/**
 * The stack of an error, reduced to the frames of its task, each as V8 writes it. The places are
 * foreign objects that a task must never get hold of, so no built-in method is called on them and
 * their exceptions are not inspected.
 */
export function stackOf(
  { file }: RealmPlace,
  error: unknown,
  sites: readonly StackPlace[],
): string {
  let text = "Error";
  try {
    text = `${error}`;
    for (let at = 0; at < sites.length; at++) {
      const site = sites[at];
      if (site === undefined || site.getFileName() !== file) continue;
      const column = site.getColumnNumber();
      // No column: V8 had no stack left to find the place, and the line means nothing.
      const place = file + (column === null ? "" : `:${site.getLineNumber()}:${column}`);
      const name = site.getFunctionName() ?? "";
      text += `\n    at ${site.isAsync() ? "async " : ""}`;
      text += name === "" ? place : `${name} (${place})`;
    }
  } catch {
    // A foreign exception, or one from the error's own methods: keep the frames found so far.
  }
  return text;
}

/** A text cut to the limit of errors. */
export function cut(realm: Realm, text: string): string {
  return text.slice(0, realm.settings.errorCharsMax);
}
