// Lets one process at a time change the files of a folder: two commands that change the same files at once would each
// undo what the other did.

import { AgentError } from "../domain/error.ts";
import { SYSTEM_TIMERS, type Timers } from "./timers.ts";

/**
 * How long another process may have a folder, milliseconds: an upgrade takes less. The process is to end after that, since
 * its wait cannot be canceled.
 */
const HELD_MS_MAX = 120_000;
/** Milliseconds of waiting after which it is mentioned. */
const NOTE_MS = 1_000;
/** Where Linux lists the locks of all processes. @see proc(5) */
const LOCKS = "/proc/locks";

/** How a command waits for others. */
interface Patience {
  /** The clock of the wait; the system's unless given. */
  readonly timers?: Timers;
  /** Takes one line, when it takes a second. */
  readonly note?: ((line: string) => void) | undefined;
}

/**
 * Runs a function while no other process does so for this folder: the second one waits. A process that is
 * killed holds nothing. Not reentrant.
 * @throws {AgentError} `conflict` when another process has the folder for longer: flock(1) may have begun this one
 */
export async function aloneIn<T>(
  folder: string,
  run: () => Promise<T>,
  { timers = SYSTEM_TIMERS, note }: Patience = {},
): Promise<T> {
  // A folder that only its owner may read, or whose file system has no locks, is changed as before.
  const held = await Deno.open(folder).catch(() => undefined);
  let locking = true;
  const cancelMention = timers.start(NOTE_MS, async () => {
    const holder = await holderOf(folder);
    if (locking) note?.(`waiting until ${holder} is done with ${folder}`);
  });
  const { promise: late, resolve } = Promise.withResolvers<"late">();
  const cancelTimer = timers.start(HELD_MS_MAX, () => resolve("late"));
  try {
    const locked = held?.lock(true).catch(() => {});
    const outcome = await Promise.race([locked, late]);
    locking = false;
    cancelMention();
    if (outcome === "late") {
      const message = `Cannot change files in ${folder}: ${await holderOf(folder)} has locked it`;
      throw new AgentError("conflict", message, { about: { kind: "file", name: folder } });
    }
    return await run();
  } finally {
    cancelTimer();
    cancelMention();
    held?.close();
  }
}

/** `process 4711`, which has locked a folder, if the system says so. */
async function holderOf(folder: string): Promise<string> {
  try {
    // By its name: calls of a file that waits for its lock wait too.
    const { ino } = await Deno.stat(folder);
    // The runtime hides /proc from a binary that lacks any permission.
    const locks = new Deno.Command("/bin/cat", { args: [LOCKS], stdin: "null", stderr: "null" });
    const text = new TextDecoder().decode((await locks.output()).stdout);
    const held = new RegExp(`: FLOCK +\\S+ +WRITE +(\\d+) +[^ ]+:${ino} `).exec(text);
    if (held !== null) return `process ${held[1]}`;
  } catch {
    // Without that list the holder stays unknown.
  }
  return "another process";
}
