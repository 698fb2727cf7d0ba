// What the database says of itself.

import type { Instant } from "../../../domain/instant.ts";
import type { StoreMeasures } from "../../measure_store.ts";
import type { Connection } from "../connection.ts";

/**
 * Turns that are looked through for the oldest job. The ready jobs of a workflow stand in the order
 * in which they became ready, and the first ones of all workflows stand at the front (see turns.ts):
 * with fewer workflows than this the answer is exact.
 */
const TURNS_MAX = 1000;

/** Reads the measures. */
export function selectMeasures(db: Connection, now: Instant): StoreMeasures {
  const row = db.row<StoreMeasures>(
    `SELECT
       (SELECT min(claimable_at) FROM (
          SELECT claimable_at FROM (
            SELECT claimable_at FROM jobs WHERE turn IS NOT NULL ORDER BY turn, id
             LIMIT ${TURNS_MAX})
          UNION ALL
          SELECT claimable_at FROM (
            -- Their time has come, but the runner has not looked yet.
            SELECT claimable_at FROM jobs WHERE claimable_at <= ? AND turn IS NULL
             ORDER BY claimable_at, id LIMIT 1))) AS oldest_ready_at,
       (SELECT page_count FROM pragma_page_count) * page_size AS file_bytes,
       (SELECT freelist_count FROM pragma_freelist_count) * page_size AS free_bytes
     FROM pragma_page_size`,
    now,
  );
  if (row === undefined) throw new Error("Cannot measure the store: no answer");
  return row;
}
