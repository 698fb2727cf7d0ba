// The tables of the image index, of the verified files and of the journal. Their rows belong to this host, wherever
// the jobs are kept.

/** Tables of the index, of its search, of the files of the cache, and of the journal. */
export const LOCAL_TABLES = `
  CREATE TABLE index_documents (
    path TEXT PRIMARY KEY,
    body BLOB NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    etag TEXT,
    last_modified TEXT,
    fetched_at TEXT NOT NULL,
    encoding TEXT NOT NULL DEFAULT 'identity' CHECK (encoding IN ('identity', 'gzip'))
  ) STRICT;
  CREATE TABLE index_syncs (
    id INTEGER PRIMARY KEY,
    -- What the sync did; JSON text.
    report TEXT NOT NULL
  ) STRICT;
  -- The pins of artifacts that have left the index.
  CREATE TABLE index_pins (
    -- Increases with each row: the smallest is the oldest.
    id INTEGER PRIMARY KEY,
    distro TEXT NOT NULL,
    release TEXT NOT NULL,
    artifact TEXT NOT NULL,
    -- JSON text.
    pin TEXT NOT NULL,
    UNIQUE (distro, release, artifact)
  ) STRICT;

  -- Documents whose rows are in these tables; the rows of others are added when the store is opened.
  CREATE TABLE index_searched (path TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

  -- Places are the numbers in the publisher's lists: the order of the keys is that of the tree.
  CREATE TABLE index_distros (
    place INTEGER PRIMARY KEY,
    distro TEXT NOT NULL UNIQUE,
    -- The names of the artifact, in lower case.
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

  CREATE TABLE media_files (
    -- Digest of the usable file, lower-case hex.
    sha256 TEXT PRIMARY KEY CHECK (length(sha256) = 64),
    name TEXT NOT NULL,
    -- Path of a file in the operator's folders; null for a file of the cache.
    path TEXT,
    size INTEGER NOT NULL CHECK (size >= 0),
    source TEXT NOT NULL CHECK (source IN ('artifact', 'url', 'path')),
    origin TEXT NOT NULL,
    label TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN ('none', 'index', 'vendor', 'signature')),
    created_at TEXT NOT NULL,
    last_used_at TEXT NOT NULL,
    verified_at TEXT NOT NULL,
    CHECK ((source = 'path') = (path IS NOT NULL))
  ) STRICT;
  CREATE INDEX media_files_used ON media_files (last_used_at);

  -- The paths of a file's copies: the same bytes may exist in several places.
  CREATE TABLE media_copies (
    path TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL REFERENCES media_files (sha256) ON DELETE CASCADE,
    -- When they were hashed.
    verified_at TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX media_copies_file ON media_copies (sha256);

  -- The download from which a file of the cache was made; it may have been compressed.
  CREATE TABLE media_downloads (
    packed TEXT NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    -- Null where it was not computed.
    sha512 TEXT CHECK (length(sha512) = 128),
    file_sha256 TEXT NOT NULL REFERENCES media_files (sha256) ON DELETE CASCADE,
    PRIMARY KEY (packed, sha256)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX media_downloads_sha512 ON media_downloads (packed, sha512)
    WHERE sha512 IS NOT NULL;
  CREATE INDEX media_downloads_file ON media_downloads (file_sha256);

  -- Jobs that use a file; ended jobs do not count. Not a foreign key, because the job may be in a shared database.
  CREATE TABLE media_uses (
    sha256 TEXT NOT NULL REFERENCES media_files (sha256) ON DELETE CASCADE,
    job_uuid TEXT NOT NULL,
    PRIMARY KEY (sha256, job_uuid)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX media_uses_job ON media_uses (job_uuid);
  -- Writes of this host's runner that a shared database could not take, oldest first, until they are delivered.
  CREATE TABLE journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_uuid TEXT NOT NULL,
    -- JSON text.
    entry TEXT NOT NULL
  ) STRICT;
  CREATE TRIGGER media_uses_of_job AFTER DELETE ON jobs BEGIN
    DELETE FROM media_uses WHERE job_uuid = old.uuid;
  END;
`;
