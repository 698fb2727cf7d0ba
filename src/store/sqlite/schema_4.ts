// The fourth schema: the verified files of the host, and which jobs use them.

/** From schema 3 to schema 4. */
export const SCHEMA_4 = `
  CREATE TABLE media_files (
    -- Of the file as it is used, lower-case hex.
    sha256 TEXT PRIMARY KEY CHECK (length(sha256) = 64),
    name TEXT NOT NULL,
    -- Where a file of the operator lies; null for one of the cache.
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

  -- What was downloaded to make a file of the cache: it may have been compressed.
  CREATE TABLE media_downloads (
    packed TEXT NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    -- Null where nobody wanted it.
    sha512 TEXT CHECK (length(sha512) = 128),
    file_sha256 TEXT NOT NULL REFERENCES media_files (sha256) ON DELETE CASCADE,
    PRIMARY KEY (packed, sha256)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX media_downloads_sha512 ON media_downloads (packed, sha512)
    WHERE sha512 IS NOT NULL;
  CREATE INDEX media_downloads_file ON media_downloads (file_sha256);

  -- Jobs that use a file; those that have ended do not count.
  CREATE TABLE media_uses (
    sha256 TEXT NOT NULL REFERENCES media_files (sha256) ON DELETE CASCADE,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (sha256, job_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX media_uses_job ON media_uses (job_id);
`;
