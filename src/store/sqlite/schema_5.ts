// The fifth schema: documents of the image index are kept compressed, and what was published of an
// artifact is remembered after it has left the index.

/** From schema 4 to schema 5. Documents that are here stay as they are until they change. */
export const SCHEMA_5 = `
  ALTER TABLE index_documents ADD COLUMN encoding TEXT NOT NULL DEFAULT 'identity'
    CHECK (encoding IN ('identity', 'gzip'));

  CREATE TABLE index_pins (
    -- Counts up: the smallest is the oldest.
    id INTEGER PRIMARY KEY,
    distro TEXT NOT NULL,
    release TEXT NOT NULL,
    artifact TEXT NOT NULL,
    -- JSON text.
    pin TEXT NOT NULL,
    UNIQUE (distro, release, artifact)
  ) STRICT;
`;
