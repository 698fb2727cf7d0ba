// The mirror of the image index for its operator: how fresh it is, syncing it, and resolving a reference to a
// file.

import { type Context, Hono } from "hono";
import { object } from "../../../domain/description/object.ts";
import {
  about,
  type Described,
  type Description,
  either,
  flag,
  kept,
  oneOf,
  parse,
} from "../../../domain/description/value.ts";
import { messageOf } from "../../../domain/error.ts";
import { msBetween, type Now, systemNow } from "../../../domain/instant.ts";
import { ARTIFACT_FIELDS } from "../../../domain/machine/media.ts";
import type { Log } from "../../../metrics/log.ts";
import type { Mirror } from "../../../mirror/mirror.ts";
import type { IndexStore } from "../../../store/store.ts";
import type { HttpEnv, HttpLimits } from "../../context.ts";
import { readJson, smallBody } from "../../request/json_body.ts";
import { readQuery } from "../../request/query.ts";

interface IndexSyncDependencies {
  readonly mirror: Pick<
    Mirror,
    "upstream" | "syncing" | "progress" | "sync" | "preview" | "findArtifact"
  >;
  readonly index: IndexStore;
  readonly log: Log;
  readonly limits: HttpLimits;
  /** By default the system's clock. */
  readonly now?: Now;
}

/** The query of POST /index/sync. */
export const SYNC_QUERY_FIELDS = {
  wait: about("Whether to wait for the end of the sync.", flag, { default: false }),
  dry_run: about("Whether to show what would change without changing anything.", flag, {
    default: false,
  }),
  accept_changed: about(
    "Whether to accept changed digests and an older tree.",
    flag,
    { default: false },
  ),
};

/** A boolean, or its word as in a query. */
const written: Description<boolean> = kept(
  either<boolean | string>("true or false", flag, oneOf(["true", "false"])),
  (value) => value === true || value === "true",
);

/** The body of a sync: the switches of the query; each may be in either place. */
export const syncRequest = object({ wait: written, dry_run: written, accept_changed: written });
type SyncSwitches = Described<typeof syncRequest>;

/** The routes of the mirror. */
export function indexSyncRoutes(deps: IndexSyncDependencies): Hono<HttpEnv> {
  const routes = new Hono<HttpEnv>();
  routes.get("/agent/v1/index", async (c) => c.json(await status(deps)));
  routes.get("/agent/v1/index/artifacts", async (c) => {
    const reference = readQuery(c.req.url, ARTIFACT_FIELDS, ["distro", "release"]);
    return c.json(await deps.mirror.findArtifact(reference));
  });
  routes.post("/agent/v1/index/sync", (c) => startSync(c, deps));
  return routes;
}

async function status({ mirror, index, now = systemNow }: IndexSyncDependencies) {
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
  const { wait, dry_run, accept_changed: acceptChanged } = await readSwitches(c, limits);
  // A sync continues when its caller leaves, since it serves all callers.
  if (dry_run) return c.json(await mirror.preview({ acceptChanged }));
  if (wait) return c.json(await mirror.sync({ acceptChanged }));
  const sync = mirror.sync({ acceptChanged });
  // Without an upstream the sync is refused at once, which the caller must see.
  if (mirror.upstream === null) await sync;
  sync.catch((error) => log.error("index sync failed", { error: messageOf(error) }));
  return c.json({ syncing: true }, 202);
}

/** @throws {AgentError} `malformed`, `too_large` or `invalid_argument` */
async function readSwitches(c: Context, limits: HttpLimits): Promise<Required<SyncSwitches>> {
  const query = readQuery(c.req.url, SYNC_QUERY_FIELDS);
  const body = parse(syncRequest, await readJson(c, smallBody(limits)), "", "request for a sync");
  const asked = (name: keyof SyncSwitches) => query[name] === true || body[name] === true;
  return {
    wait: asked("wait"),
    dry_run: asked("dry_run"),
    accept_changed: asked("accept_changed"),
  };
}
