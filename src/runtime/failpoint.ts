// Points at which a program under test kills itself: just before or just after the commit that holds
// the n-th write of a name, or the step of a restore or a migration. What it answered by then must be
// there when it comes back.

import { AgentError } from "../domain/error.ts";

/** The commit at which to die. */
export interface Failpoint {
  /** Name of a write of the store, such as `job_record`. */
  readonly write: string;
  /** Which one of its kind, counted from 1. */
  readonly count: number;
  readonly when: "before" | "after";
}

/** Called around the commits of the store. */
export type WatchCommits = (when: "before" | "after", names: readonly string[]) => void;

/**
 * What dies at the configured failpoint; undefined without one.
 * @throws {AgentError} `invalid_argument` for one outside of development
 */
export function watchForDeath(
  failpoint: Failpoint | null,
  { dev }: { readonly dev: boolean },
): WatchCommits | undefined {
  if (failpoint === null) return undefined;
  if (dev) return openFailpoint(failpoint, () => Deno.kill(Deno.pid, "SIGKILL"));
  throw new AgentError("invalid_argument", "Cannot set a failpoint: the agent runs without --dev");
}

/** Calls `kill` at the failpoint. */
export function openFailpoint({ write, count, when }: Failpoint, kill: () => void): WatchCommits {
  let left = count;
  let hit = false;
  return (moment, names) => {
    if (moment === "before") {
      const met = names.filter((name) => name === write).length;
      hit = left > 0 && met >= left;
      left -= met;
    }
    if (hit && moment === when) kill();
  };
}
