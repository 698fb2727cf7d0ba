// Figures of the store that no list of jobs tells: for those who watch the agent.

import type { Instant } from "../domain/instant.ts";

/** What the store measures of itself. */
export interface StoreMeasures {
  /** From when on the job has waited that has waited longest; null when none is ready. */
  readonly oldest_ready_at: Instant | null;
  /** Size of the database without its log. */
  readonly file_bytes: number;
  /** Part of it that is empty. */
  readonly free_bytes: number;
}

/** The measuring side of the store. */
export interface MeasureStore {
  /** Takes a bounded time, however many jobs there are. */
  read(now: Instant): Promise<StoreMeasures>;
}
