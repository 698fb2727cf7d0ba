// The mirror of the image index, as its operator sees it: how fresh it is, bring it up to date, and
// which file a reference means. An extension of the interface, so it lives under /agent/v1/.

import { type Context, Hono } from "hono";
import { invalidArgument, messageOf } from "../domain/error.ts";
import { parseArtifactRef } from "../domain/media.ts";
import type { Log } from "../log.ts";
import type { Mirror } from "../mirror/mirror.ts";
import type { IndexStore } from "../store/store.ts";
import { readQuery } from "./query.ts";

/** What the routes of the mirror work with. */
export interface IndexSyncDependencies {
  readonly mirror: Pick<Mirror, "upstream" | "syncing" | "sync" | "findArtifact">;
  readonly index: IndexStore;
  readonly log: Log;
}

const REF_KEYS = ["distro", "release", "build", "variant", "arch", "format"] as const;

/** The routes of the mirror. */
export function indexSyncRoutes({ mirror, index, log }: IndexSyncDependencies): Hono {
  const routes = new Hono();
  routes.get("/agent/v1/index", async (c) =>
    c.json({
      upstream: mirror.upstream,
      syncing: mirror.syncing,
      last_sync: await index.lastSync() ?? null,
      documents: (await index.list()).length,
    }));
  routes.get("/agent/v1/index/artifacts", async (c) => {
    const query = readQuery(c.req.url, REF_KEYS);
    return c.json(await mirror.findArtifact(parseArtifactRef(Object.fromEntries(query))));
  });
  routes.post("/agent/v1/index/sync", (c) => startSync(c, mirror, log));
  return routes;
}

async function startSync(
  c: Context,
  mirror: IndexSyncDependencies["mirror"],
  log: Log,
): Promise<Response> {
  const query = readQuery(c.req.url, ["wait", "accept_changed"]);
  const acceptChanged = switchOf(query, "accept_changed");
  if (switchOf(query, "wait")) {
    // A caller who leaves does not end the sync: it is of use to everybody.
    return c.json(await mirror.sync({ acceptChanged }));
  }
  const sync = mirror.sync({ acceptChanged });
  // Without an upstream the sync is refused before it begins, and the caller is to know.
  if (mirror.upstream === null) await sync;
  sync.catch((error) => log.error("index sync failed", { error: messageOf(error) }));
  return c.json({ syncing: true }, 202);
}

/** `true` or `false`; absent means false. @throws {AgentError} `invalid_argument` */
function switchOf(query: ReadonlyMap<string, string>, name: string): boolean {
  const text = query.get(name) ?? "false";
  if (text === "true" || text === "false") return text === "true";
  throw invalidArgument(name, `Cannot read ${name}: expected true or false`);
}
