// Counters of jobs per block of consecutive places, which triggers keep exact, so that counts and offsets
// take no longer with a long history.
//
//   places    0 ......... 4095 | 4096 ......... 8191 | 8192 ...
//   counters  number of jobs, and their range of creation times: over all definitions, and for each one

/** Places per block, as a power of two. */
const BLOCK_BITS = 12;
/** Places per block: few enough to examine in one statement, unless the jobs are large. */
export const BLOCK = 2 ** BLOCK_BITS;
/** The definition id of the counters over all definitions; real ids begin with 1. */
export const EVERY = 0;

const block = (row: "new" | "old") => `${row}.id >> ${BLOCK_BITS}`;
/** Subtracts a removed job from the counters. */
const COUNTERS = `definition_id IN (${EVERY}, old.definition_id) AND block = ${block("old")}`;

/** The counters and their triggers. Blocks without jobs have no row. */
export const PLACE_TABLES = `
  CREATE TABLE job_places (
    definition_id INTEGER NOT NULL,
    block INTEGER NOT NULL,
    jobs INTEGER NOT NULL CHECK (jobs >= 0),
    -- No job of the block was made earlier or later; the one that was may be gone.
    first_at TEXT NOT NULL,
    last_at TEXT NOT NULL,
    PRIMARY KEY (definition_id, block)
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER job_places_insert AFTER INSERT ON jobs BEGIN
    INSERT INTO job_places (definition_id, block, jobs, first_at, last_at) VALUES
      (${EVERY}, ${block("new")}, 1, new.created_at, new.created_at),
      (new.definition_id, ${block("new")}, 1, new.created_at, new.created_at)
      ON CONFLICT DO UPDATE SET jobs = jobs + 1,
        first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at);
  END;
  CREATE TRIGGER job_places_delete AFTER DELETE ON jobs BEGIN
    UPDATE job_places SET jobs = jobs - 1 WHERE ${COUNTERS};
    DELETE FROM job_places WHERE ${COUNTERS} AND jobs = 0;
  END;
`;
