// The next useful command after an error, where the command itself knows none.

import type { AgentError } from "../../domain/error.ts";

const LISTS: readonly string[] = ["job", "workflow", "machine", "image"];

/** @param name the command that failed, empty when none was found */
export function hintFor(error: AgentError, name: string): string | undefined {
  const [noun = ""] = name.split(" ");
  switch (error.code) {
    case "unreachable":
      return "start an agent with zonewright serve --dev, or name yours with --url or --socket";
    case "invalid_argument":
      return name === "" ? "zonewright --help" : `zonewright ${name} --help`;
    case "not_found":
    case "conflict":
      return LISTS.includes(noun) ? `zonewright ${noun} list` : undefined;
    case "unauthorized":
      return "show a token with --token-file or ZONEWRIGHT_TOKEN_FILE";
    case "overloaded":
      return `try again in ${error.retryAfterSeconds ?? 1} s`;
    default:
      return undefined;
  }
}

const JOB = /\bjob ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/gi;

/** Where a job is refused because of another one, which the message names: a look at that. */
export function otherJobHint(error: AgentError, known: readonly string[]): string | undefined {
  if (error.code !== "conflict") return undefined;
  const own = known.map((word) => word.toLowerCase());
  const named = Array.from(error.message.matchAll(JOB), ([, uuid = ""]) => uuid.toLowerCase());
  const other = named.find((uuid) => !own.includes(uuid));
  return other === undefined ? undefined : `zonewright job get ${other}  shows that job`;
}
