// How the agent serves its index: the tree, the search and the sync as routes, and the short way that
// shares the tree's memory.

import type { Hono } from "hono";
import type { Ground } from "./runner.ts";
import { openDocumentCache } from "../http/request/document_cache.ts";
import { imageSearchRoutes } from "../http/routes/images.ts";
import {
  indexTreeRoutes,
  type ShortWayContext,
  withShortWay,
} from "../http/routes/index/short_way.ts";
import { indexSyncRoutes } from "../http/routes/index/sync.ts";
import type { App } from "../http/listen/server.ts";
import type { Mirror } from "../mirror/mirror.ts";
import type { Store } from "../store/store.ts";

/** The index as callers see it. */
export interface IndexRoutes {
  readonly routes: readonly Hono[];
  /** The application with the short way of documents before it. */
  before(app: App, rules: Pick<ShortWayContext, "access" | "allowedHosts">): App;
}

/** The routes of the index. Nothing is read before the first request. */
export function openIndexRoutes(
  { limits, now, newUuid, log }: Pick<Ground, "limits" | "now" | "newUuid" | "log">,
  { index, images }: Pick<Store, "index" | "images">,
  mirror: Mirror,
): IndexRoutes {
  const generation = () => mirror.generation;
  const cache = openDocumentCache(index, generation);
  return {
    routes: [
      indexTreeRoutes({ index, generation, now, cache }),
      imageSearchRoutes({ images }),
      indexSyncRoutes({ index, mirror, limits, log, now }),
    ],
    before: (app, rules) =>
      withShortWay(app, {
        ...rules,
        cache,
        // Not by way of `now`: to make the text of an instant is a twentieth of a whole 304.
        nowMs: Date.now,
        newId: () => newUuid(),
        limits,
        log,
      }),
  };
}
