// The third schema: the artifacts of the image index as rows, made of the documents.

/** From schema 2 to schema 3. The rows are made when the store is opened: see index_artifacts.ts. */
export const SCHEMA_3 = `
  -- Documents whose rows are here; those that are missing are read when the store is opened.
  CREATE TABLE index_searched (path TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

  -- Places are the numbers in the publisher's lists: the order of the keys is that of the tree.
  CREATE TABLE index_distros (
    place INTEGER PRIMARY KEY,
    distro TEXT NOT NULL UNIQUE,
    -- What names it, in lower case.
    words TEXT NOT NULL
  ) STRICT;
  CREATE TABLE index_releases (
    distro TEXT NOT NULL,
    place INTEGER NOT NULL,
    release TEXT NOT NULL,
    -- JSON text.
    aliases TEXT NOT NULL,
    words TEXT NOT NULL,
    PRIMARY KEY (distro, place),
    UNIQUE (distro, release)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE index_aliases (
    distro TEXT NOT NULL,
    alias TEXT NOT NULL,
    release TEXT NOT NULL,
    PRIMARY KEY (distro, alias)
  ) STRICT, WITHOUT ROWID;
  -- Narrow, so that a filter which no index answers reads little.
  CREATE TABLE index_artifacts (
    id INTEGER PRIMARY KEY,
    distro TEXT NOT NULL,
    release TEXT NOT NULL,
    archived INTEGER NOT NULL CHECK (archived IN (0, 1)),
    build_place INTEGER NOT NULL,
    place INTEGER NOT NULL,
    build TEXT NOT NULL,
    arch TEXT NOT NULL,
    format TEXT NOT NULL,
    compression TEXT NOT NULL,
    variant TEXT,
    default_variant INTEGER NOT NULL CHECK (default_variant IN (0, 1)),
    -- JSON texts of lists.
    datasources TEXT NOT NULL,
    firmware TEXT NOT NULL,
    words TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX index_artifacts_place
    ON index_artifacts (distro, release, archived, build_place, place);
  CREATE TABLE index_artifact_texts (
    artifact_id INTEGER PRIMARY KEY REFERENCES index_artifacts (id) ON DELETE CASCADE,
    point_release TEXT,
    published_at TEXT,
    url TEXT,
    -- The artifact as the publisher wrote it; JSON text.
    artifact TEXT NOT NULL
  ) STRICT;
`;
