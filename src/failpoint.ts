// Points at which an agent under test kills itself: just before or just after the commit that holds
// the n-th write of a name. What it answered by then must be there when it comes back.

/** The commit at which to die. */
export interface Failpoint {
  /** Name of a write of the store, such as `job_record`. */
  readonly write: string;
  /** Which one of its kind, counted from 1. */
  readonly count: number;
  readonly when: "before" | "after";
}

/** Told of the commits of the store. */
export type WatchCommits = (when: "before" | "after", names: readonly string[]) => void;

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
