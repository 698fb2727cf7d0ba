// The mirror of the image index for its operator: how fresh it is, syncing it, and the file that a reference
// means.

import { type Context, Hono } from "hono";
import { invalidArgument, messageOf } from "../../../domain/error.ts";
import { msBetween, type Now, systemNow } from "../../../domain/instant.ts";
import { isJsonObject } from "../../../domain/json.ts";
import { parseArtifactRef } from "../../../domain/machine/media.ts";
import type { Log } from "../../../metrics/log.ts";
import type { Mirror } from "../../../mirror/mirror.ts";
import type { IndexStore } from "../../../store/store.ts";
import type { HttpLimits } from "../../context.ts";
import { readJson, smallBody } from "../../request/json_body.ts";
import { readQuery } from "../../request/query.ts";

/** What the routes of the mirror work with. */
export interface IndexSyncDependencies {
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

/** The options of a sync, in the query or the body. */
const SYNC_KEYS = ["wait", "dry_run", "accept_changed"] as const;
type SyncSwitches = Readonly<Record<typeof SYNC_KEYS[number], boolean>>;

const REF_KEYS = ["distro", "release", "build", "variant", "arch", "format"] as const;

/** The routes of the mirror. */
export function indexSyncRoutes(deps: IndexSyncDependencies): Hono {
  const routes = new Hono();
  routes.get("/agent/v1/index", async (c) => c.json(await status(deps)));
  routes.get("/agent/v1/index/artifacts", async (c) => {
    const query = readQuery(c.req.url, REF_KEYS);
    return c.json(await deps.mirror.findArtifact(parseArtifactRef(Object.fromEntries(query))));
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
  // A sync goes on when its caller leaves: it serves all callers.
  if (dry_run) return c.json(await mirror.preview({ acceptChanged }));
  if (wait) return c.json(await mirror.sync({ acceptChanged }));
  const sync = mirror.sync({ acceptChanged });
  // Without an upstream the sync is refused at once, which the caller must see.
  if (mirror.upstream === null) await sync;
  sync.catch((error) => log.error("index sync failed", { error: messageOf(error) }));
  return c.json({ syncing: true }, 202);
}

/** @throws {AgentError} `malformed`, `too_large` or `invalid_argument` */
async function readSwitches(c: Context, limits: HttpLimits): Promise<SyncSwitches> {
  const query = readQuery(c.req.url, SYNC_KEYS);
  const body = await readJson(c, smallBody(limits));
  if (!isJsonObject(body)) {
    throw invalidArgument("body", "Cannot read the body: expected an object");
  }
  const unknown = Object.keys(body).find((key) => !SYNC_KEYS.some((known) => known === key));
  if (unknown !== undefined) {
    const message = `Cannot read ${unknown}: expected one of ${SYNC_KEYS.join(", ")}`;
    throw invalidArgument(unknown, message, "UnknownField");
  }
  const read = (name: typeof SYNC_KEYS[number]) =>
    switchOf(name, query.get(name) ?? "false") || switchOf(name, body[name] ?? false);
  return {
    wait: read("wait"),
    dry_run: read("dry_run"),
    accept_changed: read("accept_changed"),
  };
}

/** `true` or `false` in a query. @throws {AgentError} `invalid_argument` */
function switchOf(name: string, value: unknown): boolean {
  const word = typeof value === "boolean" ? String(value) : value;
  if (word === "true" || word === "false") return word === "true";
  throw invalidArgument(name, `Cannot read ${name}: expected true or false`);
}
