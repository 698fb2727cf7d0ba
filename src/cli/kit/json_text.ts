// JSON that was typed: in a flag, in a file, on standard input.

import { resolve } from "@std/path";
import { AgentError, messageOf } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { usageError } from "./arguments.ts";
import type { Terminal } from "./terminal.ts";

/** @throws {AgentError} `invalid_argument` naming where the text stood */
export function parseJsonText(text: string, where: string): JsonValue {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw usageError(`${where} is not JSON: ${messageOf(error)}`);
  }
}

/**
 * The JSON object in a file; `-` is standard input.
 * @throws {AgentError} `invalid_argument`; `not_found` when there is no such file
 */
export async function readJsonFile(path: string, terminal: Terminal): Promise<JsonObject> {
  const where = path === "-" ? "standard input" : path;
  const value = parseJsonText(await readText(path, terminal), where);
  if (!isJsonObject(value)) throw usageError(`${where} holds no JSON object`);
  return value;
}

async function readText(path: string, terminal: Terminal): Promise<string> {
  if (path === "-") return await terminal.readIn();
  try {
    return await Deno.readTextFile(resolve(terminal.cwd, path));
  } catch (error) {
    const missing = error instanceof Deno.errors.NotFound;
    const why = missing ? "there is no such file" : messageOf(error);
    throw new AgentError(
      missing ? "not_found" : "invalid_argument",
      `Cannot read ${JSON.stringify(path)}: ${why}`,
      { cause: error },
    );
  }
}

/**
 * The JSON value that `-d` names: JSON itself, `@FILE`, or `-` for standard input.
 * @throws {AgentError} as above
 */
export async function readJsonArgument(text: string, terminal: Terminal): Promise<JsonValue> {
  if (text === "-") return parseJsonText(await terminal.readIn(), "standard input");
  if (!text.startsWith("@")) return parseJsonText(text, "--data");
  const path = text.slice(1);
  return parseJsonText(await readText(path, terminal), path);
}
