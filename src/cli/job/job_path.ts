// Paths of the HTTP interface that are made of what somebody typed.

import type { Call } from "../kit/command.ts";

/** `/jobs/` and the first operand; a text that is no uuid stays one segment and is not found. */
export function jobPath(call: Call): string {
  return `/jobs/${encodeURIComponent(call.args.operands[0] ?? "")}`;
}
