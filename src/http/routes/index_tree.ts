// The image index as document 1 has it: eight read-only operations on the documents that the mirror
// took, byte for byte as their publisher wrote them. A request looks a path up in the store; it is
// never joined to a path of a file system.

import { type Context, Hono } from "hono";
import { AgentError } from "../../domain/error.ts";
import { quote } from "../../domain/index/index_document.ts";
import {
  aliasPath,
  archivePath,
  DISTRO_LIST_PATH,
  distroPath,
  IMAGES_PATH,
  isIndexName,
  OPENAPI_PATH,
  releasePath,
  SERVED_ALIASES,
} from "../../domain/index/index_path.ts";
import type { Now } from "../../domain/instant.ts";
import type { IndexStore } from "../../store/store.ts";
import { answerDocument } from "../request/conditional_request.ts";
import {
  type DocumentCache,
  openDocumentCache,
  toldAgeSeconds,
} from "../request/document_cache.ts";
import { builtinOpenapi } from "./index_openapi.ts";
import type { ServedDocument } from "../request/served_document.ts";

/** Carries the age of a stale tree, whole seconds since it was last compared with its upstream. */
export const AGE_HEADER = "x-index-age";

/** What the routes of the tree work with. */
export interface IndexTreeDependencies {
  readonly index: IndexStore;
  /** Grows with every sync that is recorded; what is kept in memory is then compared again. */
  readonly generation: () => number;
  readonly now: Now;
  /** Shared with the short way; one of its own unless given. */
  readonly cache?: DocumentCache;
}

/** The routes of document 1. Errors are thrown, for the app to answer. */
export function indexTreeRoutes(deps: IndexTreeDependencies): Hono {
  const { index, generation, now } = deps;
  const cache = deps.cache ?? openDocumentCache(index, generation);
  const openapi = builtinOpenapi();
  const answer = async (c: Context, path: string, builtin?: ServedDocument) => {
    const document = await cache.get(path) ?? builtin;
    if (document === undefined) throw await notFound(cache, path);
    const response = await answerDocument(c.req.raw.headers, document);
    const age = toldAgeSeconds(await cache.freshness(), Date.parse(now()));
    if (age !== undefined) response.headers.set(AGE_HEADER, String(age));
    return response;
  };

  const routes = new Hono();
  routes.get("/v1/index.json", (c) => answer(c, DISTRO_LIST_PATH));
  routes.get("/v1/openapi.json", async (c) => answer(c, OPENAPI_PATH, await openapi));
  // No operation of document 1, but publishers may have it.
  routes.get("/v1/images.json", (c) => answer(c, IMAGES_PATH));
  routes.get("/v1/distros/:distro/index.json", (c) => answer(c, distroPath(name(c, "distro"))));
  routes.get(
    "/v1/distros/:distro/releases/:release/index.json",
    (c) => answer(c, releasePath(name(c, "distro"), name(c, "release"))),
  );
  routes.get(
    "/v1/distros/:distro/releases/:release/archive.json",
    (c) => answer(c, archivePath(name(c, "distro"), name(c, "release"))),
  );
  for (const alias of SERVED_ALIASES) {
    routes.get(
      `/v1/distros/:distro/aliases/${alias}.json`,
      (c) => answer(c, aliasPath(name(c, "distro"), alias)),
    );
  }
  return routes;
}

/** A decoded parameter may hold a slash, and would then name another document. */
function name(c: Context, noun: "distro" | "release"): string {
  const text = c.req.param(noun) ?? "";
  if (isIndexName(text)) return text;
  throw new AgentError("not_found", `Cannot find ${noun} ${quote(text)}: it is no name`);
}

async function notFound(cache: DocumentCache, path: string): Promise<AgentError> {
  const { atMs } = await cache.freshness();
  const reason = atMs === undefined ? "the index has not been synced yet" : "the index has none";
  return new AgentError("not_found", `Cannot find ${path}: ${reason}`);
}
