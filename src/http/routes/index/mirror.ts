// The mirror of the image index for its operator: how fresh it is, and syncing it.

import {
  always,
  COUNT,
  FLAG,
  INSTANT,
  listOf,
  NULLABLE_COUNT,
  NULLABLE_INSTANT,
  NULLABLE_TEXT,
  objectOf,
  orNull,
  type ShapeOf,
  shapeRef,
  TEXT,
  whole,
  wordOf,
} from "../../../domain/description/answer.ts";
import { type Context, Hono } from "hono";
import { object } from "../../../domain/description/object.ts";
import { parse } from "../../../domain/description/description.ts";
import { about, flag } from "../../../domain/description/value.ts";
import { messageOf } from "../../../domain/error.ts";
import { msBetween, type Now } from "../../../domain/instant.ts";
import type { Log } from "../../../metrics/log.ts";
import type { Mirror } from "../../../mirror/mirror.ts";
import type { IndexStore } from "../../../store/store.ts";
import type { HttpEnv } from "../../served_agent.ts";
import type { HttpLimits } from "../../limits.ts";
import { readJson, smallBody } from "../../request/body.ts";

interface IndexSyncDependencies {
  readonly mirror: Pick<Mirror, "upstream" | "syncing" | "progress" | "sync" | "preview">;
  readonly index: IndexStore;
  readonly log: Log;
  readonly limits: HttpLimits;
  readonly now: Now;
}

/** The body of a sync. */
export const syncRequest = object({
  wait: about("Whether to wait for the end of the sync.", flag, { default: false }),
  dry_run: about("Whether to show what would change without changing anything.", flag, {
    default: false,
  }),
  accept_changed: about("Whether to accept changed digests and an older tree.", flag, {
    default: false,
  }),
});

const OUTCOME = wordOf(["complete", "partial", "failed"]);

const PROBLEMS = {
  ...listOf(
    objectOf("One document.", ["document", "message"], {
      document: TEXT,
      message: TEXT,
      json_path: { ...TEXT, description: "Path of the incorrect value: `$.releases[2].id`." },
      reason: { ...TEXT, description: "What was expected there and what was found." },
      kept: { ...FLAG, description: "Whether the last good version is kept." },
    }),
  ),
  description: "Documents that were refused or could not be read; the last good versions stay.",
};

/** How a tree differs from its upstream, for a sync and for its preview. */
const COMPARISON_FIELDS = {
  upstream: TEXT,
  outcome: OUTCOME,
  added: COUNT,
  changed: COUNT,
  removed: COUNT,
  unchanged: COUNT,
};

/** The stored report of a sync, shown by `GET /agent/v1/index` until the next one ends. */
export const INDEX_SYNC = objectOf("What one sync did.", [
  "started_at",
  "finished_at",
  "upstream",
  "outcome",
  "added",
  "changed",
  "removed",
  "unchanged",
  "problems",
], {
  started_at: INSTANT,
  finished_at: INSTANT,
  ...COMPARISON_FIELDS,
  problems: PROBLEMS,
  compared_at: { ...INSTANT, description: "When the tree was last compared with its upstream." },
  retry_after_seconds: { ...COUNT, description: "The `Retry-After` of the upstream." },
});

/** The answer of `POST /agent/v1/index/sync` with `dry_run`; sizes in bytes. */
export const INDEX_PREVIEW = whole("What a sync would change.", {
  dry_run: always(true),
  ...COMPARISON_FIELDS,
  bytes_put: { ...COUNT, description: "Bytes of the documents that would be written." },
  bytes_removed: {
    ...COUNT,
    description: "Bytes of the documents that would be replaced or removed.",
  },
  changes: {
    ...listOf(
      whole("One document.", { change: wordOf(["+", "~", "-"]), document: TEXT, bytes: COUNT }),
    ),
    description: "By path, the first thousand.",
  },
  problems: PROBLEMS,
});

/** The sync that is under way; kept in memory only, so a restart forgets it. */
export const INDEX_PROGRESS = whole("The progress of a sync.", {
  phase: wordOf(["list", "documents", "store"]),
  documents: { ...COUNT, description: "Documents read so far." },
  total: { ...COUNT, description: "Documents known so far; there may be more." },
  bytes: { ...COUNT, description: "Bytes received; unchanged documents add none." },
});

/** The answer to GET /agent/v1/index. */
export const INDEX_STATUS = whole("The state of the mirror.", {
  upstream: { ...NULLABLE_TEXT, description: "An address or a folder." },
  syncing: FLAG,
  progress: {
    ...orNull(shapeRef("IndexProgress", INDEX_PROGRESS)),
    description: "The progress of the running sync.",
  },
  last_sync: orNull(shapeRef("IndexSync", INDEX_SYNC)),
  compared_at: {
    ...NULLABLE_INSTANT,
    description: "When the tree was last compared with its upstream.",
  },
  age_seconds: { ...NULLABLE_COUNT, description: "Seconds since then." },
  documents: { ...COUNT, description: "Number of documents in the mirror." },
});

/** `/agent/v1/index`: the state of the mirror, its report, and syncs by hand. */
export function indexSyncRoutes(deps: IndexSyncDependencies): Hono<HttpEnv> {
  const routes = new Hono<HttpEnv>();
  routes.get("/agent/v1/index", async (c) => c.json(await status(deps)));
  routes.post("/agent/v1/index/sync", (c) => startSync(c, deps));
  return routes;
}

/** The 202 of a sync that goes on after the answer. */
export const INDEX_SYNCING = whole("A sync is under way.", { syncing: always(true) });

async function status(
  { mirror, index, now }: IndexSyncDependencies,
): Promise<ShapeOf<typeof INDEX_STATUS>> {
  const last_sync = await index.lastSync() ?? null;
  const compared_at = last_sync?.compared_at ?? null;
  return {
    upstream: mirror.upstream,
    syncing: mirror.syncing,
    progress: mirror.progress,
    last_sync,
    compared_at,
    age_seconds: compared_at === null
      ? null
      : Math.max(0, Math.floor(msBetween(compared_at, now()) / 1000)),
    documents: (await index.list()).length,
  };
}

async function startSync(
  c: Context,
  { mirror, limits, log }: IndexSyncDependencies,
): Promise<Response> {
  const body = await readJson(c, smallBody(limits));
  const { wait = false, dry_run = false, accept_changed: acceptChanged = false } = parse(
    syncRequest,
    body,
    "",
    "request for a sync",
  );
  // A sync continues when its caller leaves, since it serves all callers.
  if (dry_run) {
    const preview: ShapeOf<typeof INDEX_PREVIEW> = await mirror.preview({ acceptChanged });
    return c.json(preview);
  }
  if (wait) {
    const done: ShapeOf<typeof INDEX_SYNC> = await mirror.sync({ acceptChanged });
    return c.json(done);
  }
  const sync = mirror.sync({ acceptChanged });
  // Without an upstream the sync is refused at once, which the caller must see.
  if (mirror.upstream === null) await sync;
  sync.catch((error) => log.error("index sync failed", { error: messageOf(error) }));
  const answer: ShapeOf<typeof INDEX_SYNCING> = { syncing: true };
  return c.json(answer, 202);
}
