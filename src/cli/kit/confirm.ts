// Asking before something is done to many things at once: on a terminal by a question, elsewhere by
// wanting --yes, so that no script does by accident what a person would have been asked about.

import { type Flag, usageError } from "./arguments.ts";
import type { Call } from "./command.ts";

/** The flag that answers the question before it is asked. */
export const YES_FLAG: Flag = { name: "yes", short: "y", help: "do not ask" };

/**
 * Whether a person agrees.
 * @param deed what will be done, such as `cancel 12 jobs`
 * @throws {AgentError} `invalid_argument` when nobody can be asked
 */
export async function confirmed({ args, terminal, printer }: Call, deed: string): Promise<boolean> {
  if (args.has(YES_FLAG.name)) return true;
  if (!terminal.inIsTerminal || !terminal.errIsTerminal) {
    throw usageError(`--yes is missing: there is no terminal to ask on whether to ${deed}`);
  }
  printer.ask(`${deed[0]?.toUpperCase()}${deed.slice(1)}? [y/N] `);
  const answer = (await terminal.readLine()).trim().toLowerCase();
  return answer === "y" || answer === "yes";
}
