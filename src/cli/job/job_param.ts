// Params of jobs as they are typed: `k=v` is a text, `k:=v` is JSON.

import type { JsonValue } from "../../domain/json.ts";
import { usageError } from "../kit/arguments.ts";
import { parseJsonText } from "../kit/json_text.ts";

/**
 * The params that several `--param` name.
 * @throws {AgentError} `invalid_argument` for a text of another form, and for a name given twice
 */
export function readParams(texts: readonly string[]): Record<string, JsonValue> {
  const params = new Map<string, JsonValue>();
  for (const text of texts) {
    const match = /^([^=:]+)(:?=)(.*)$/s.exec(text);
    const [, name = "", sign, value = ""] = match ?? [];
    if (match === null) {
      throw usageError(`--param ${JSON.stringify(text)} is neither K=V nor K:=JSON`);
    }
    if (params.has(name)) throw usageError(`--param ${name} is given twice`);
    params.set(name, sign === ":=" ? parseJsonText(value, `--param ${name}`) : value);
  }
  return Object.fromEntries(params);
}
