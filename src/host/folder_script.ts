// Changes names in a zone's root, and reads files there. A system call with a path follows whatever links are
// on it at that moment, and this runtime has no calls relative to an open folder. So a shell enters the
// folder, checks where it is, and from then on uses plain names there, whatever happens to the path. `link`
// and `rm` without options make one system call each and follow no link; `mv` and `ln` would move into a
// folder that had taken the name.
//
// The same scripts run on a host behind ssh. They use POSIX commands, and `link` of coreutils and illumos.

import { AgentError, isNoSpace } from "../domain/error.ts";
import type { CommandResult } from "./program.ts";
import { describeResult } from "./program_output.ts";

/** Runs a program on the managed host like runCommand(). */
export type RunProgram = (
  program: string,
  args: readonly string[],
  options: { deadlineMs: number; signal?: AbortSignal },
) => Promise<CommandResult>;

/** Milliseconds; only a hanging disk takes longer. */
const DEADLINE_MS = 60_000;

/** Exit codes of the scripts. */
const LED_ELSEWHERE = 3;
const IS_A_FOLDER = 4;
const NOT_THERE = 5;

const ENTER_FOLDER = `
cd -P -- "$1" 2>/dev/null && [ "$(pwd -P)" = "$1" ] || exit ${LED_ELSEWHERE}
if [ -d "./$2" ] && [ ! -h "./$2" ]; then exit ${IS_A_FOLDER}; fi
`;
const REMOVE = `${ENTER_FOLDER}
if [ ! -e "./$2" ] && [ ! -h "./$2" ]; then exit ${NOT_THERE}; fi
rm -f -- "./$2"
`;
const MOVE = `${ENTER_FOLDER}
if [ -e "./$2" ] || [ -h "./$2" ]; then rm -f -- "./$2" || exit; fi
link "../$3" "./$2" && rm -f -- "../$3"
`;

/**
 * The file first gets a second name outside the zone, after which its kind cannot change; if it was a link,
 * so is the second name, and it is refused.
 */
const TAIL = `
[ -d "$1" ] || exit ${NOT_THERE}
cd -P -- "$1" 2>/dev/null && [ "$(pwd -P)" = "$1" ] || exit ${LED_ELSEWHERE}
if [ ! -f "./$2" ] || [ -h "./$2" ]; then exit ${NOT_THERE}; fi
rm -f -- "$3" && link "./$2" "$3" || exit
if [ ! -f "$3" ] || [ -h "$3" ]; then rm -f -- "$3"; exit ${NOT_THERE}; fi
tail -c "$4" <"$3"
code=$?
rm -f -- "$3"
exit $code
`;

/** The end of a file that others may replace at any moment. */
export interface TailRequest {
  readonly folder: string;
  readonly name: string;
  readonly bytes: number;
  /** Absolute path of a name in the same file system that nobody else can reach. */
  readonly temporary: string;
}

/**
 * Reads the end of a regular file in a folder.
 * @returns null when there is no such file
 * @throws {AgentError} `conflict` when the path leads elsewhere; `host`
 */
export async function tailWithin(
  run: RunProgram,
  { folder, name, bytes, temporary }: TailRequest,
): Promise<string | null> {
  const action = `Cannot read ${JSON.stringify(`${folder}/${name}`)}`;
  const args = ["-c", TAIL, "zonewright", folder, name, temporary, String(bytes)];
  const result = await run("/bin/sh", args, { deadlineMs: DEADLINE_MS });
  if (result.code === NOT_THERE) return null;
  checkEnd(action, folder, result);
  return result.stdout;
}

/**
 * Removes a name in a folder.
 * @returns false when it does not exist
 * @throws {AgentError} `conflict` when the path leads elsewhere, or a folder has the name; `host`
 */
export async function removeWithin(
  run: RunProgram,
  { folder, name }: { folder: string; name: string },
): Promise<boolean> {
  const action = `Cannot remove ${JSON.stringify(`${folder}/${name}`)}`;
  const result = await run("/bin/sh", ["-c", REMOVE, "zonewright", folder, name], {
    deadlineMs: DEADLINE_MS,
  });
  if (result.code === NOT_THERE) return false;
  checkEnd(action, folder, result);
  return true;
}

/**
 * Moves a file of the folder above into this one, replacing a regular file of that name.
 * @param temporary its name in the folder above
 * @throws {AgentError} `conflict` when the path leads elsewhere, or something else takes the name;
 * `storage_full`; `host`
 */
export async function moveWithin(
  run: RunProgram,
  { folder, name, temporary }: { folder: string; name: string; temporary: string },
): Promise<void> {
  const action = `Cannot move a file to ${JSON.stringify(`${folder}/${name}`)}`;
  const args = ["-c", MOVE, "zonewright", folder, name, temporary];
  checkEnd(action, folder, await run("/bin/sh", args, { deadlineMs: DEADLINE_MS }));
}

function checkEnd(action: string, folder: string, result: CommandResult): void {
  const { code } = result;
  if (code === 0) return;
  if (code === LED_ELSEWHERE) {
    const message = `${action}: ${
      JSON.stringify(folder)
    } is another folder now, or leads elsewhere`;
    throw new AgentError("conflict", message);
  }
  if (code === IS_A_FOLDER) throw new AgentError("conflict", `${action}: it is a folder`);
  const said = `"/bin/sh" ${describeResult(result)}`;
  if (isNoSpace(said)) {
    throw new AgentError("storage_full", `${action}: ${said}`);
  }
  // The name was given to something else between two steps.
  const taken = /exists|is a directory/i.test(said);
  throw new AgentError(taken ? "conflict" : "host", `${action}: ${said}`);
}
