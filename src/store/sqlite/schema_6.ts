// The sixth schema: which job has begun to make which machine.

/** From schema 5 to schema 6. */
export const SCHEMA_6 = `
  CREATE TABLE machine_claims (
    uuid TEXT PRIMARY KEY,
    -- No reference: a claim may outlive its job, and is released then.
    job_uuid TEXT NOT NULL,
    claimed_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    next_try_at TEXT,
    error TEXT,
    CHECK ((tries = 0) = (error IS NULL))
  ) STRICT;
`;
