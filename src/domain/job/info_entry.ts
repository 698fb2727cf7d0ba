// Entries of a job's info that nobody but the agent may write, told by the names of their fields.

import { isJsonObject, type JsonValue } from "../json.ts";

/** What names of info fields begin with that only the agent writes; as the tag of its machines. */
export const AGENT_PREFIX = "zonewright_";

/** The name by which an entry of somebody else would pass for the agent's; undefined for none. */
export function forgedName(entry: JsonValue): string | undefined {
  if (!isJsonObject(entry)) return undefined;
  return Object.keys(entry).find((name) => name.startsWith(AGENT_PREFIX));
}
