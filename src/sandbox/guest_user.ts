// Which user guests run as when the agent is root: nobody, who owns no file and may signal no
// process of another.

import { dirname } from "@std/path";
import type { SelfCommand } from "../executable.ts";
import type { Log } from "../log.ts";
import type { GuestUser } from "./guest_command.ts";

/** The user and group without rights, on Linux. */
const NOBODY: GuestUser = { uid: 65_534, gid: 65_534 };
const OTHERS_ENTER = 0o001;
const OTHERS_READ_AND_RUN = 0o005;

/**
 * The user for guests, or undefined for the agent's own. Another user must be able to reach and run
 * the program; where it cannot (a binary in a private folder, a source tree), that is logged.
 */
export async function findGuestUser(
  self: SelfCommand,
  log: Log,
): Promise<GuestUser | undefined> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return undefined;
  if (self.compiled && await othersMayRun(self.program)) return NOBODY;
  log.warn("guests run as the agent's own user", {
    program: self.program,
    reason: self.compiled ? "others cannot reach the program" : "the agent runs from source",
  });
  return undefined;
}

async function othersMayRun(program: string): Promise<boolean> {
  const { mode } = await Deno.stat(program);
  if (((mode ?? 0) & OTHERS_READ_AND_RUN) !== OTHERS_READ_AND_RUN) return false;
  for (let folder = dirname(program); folder !== "/"; folder = dirname(folder)) {
    const { mode } = await Deno.stat(folder);
    if (((mode ?? 0) & OTHERS_ENTER) === 0) return false;
  }
  return true;
}
