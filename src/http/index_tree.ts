// The image index as document 1 has it: eight read-only operations on the documents that the mirror
// took, byte for byte as their publisher wrote them. A request looks a path up in the store; it is
// never joined to a path of a file system.

import { type Context, Hono } from "hono";
import { AgentError } from "../domain/error.ts";
import { quote } from "../domain/index_document.ts";
import {
  aliasPath,
  archivePath,
  DISTRO_LIST_PATH,
  distroPath,
  isIndexName,
  OPENAPI_PATH,
  releasePath,
  SERVED_ALIASES,
} from "../domain/index_path.ts";
import { msBetween, type Now } from "../domain/instant.ts";
import type { IndexStore } from "../store/store.ts";
import { acceptsGzip, matchedEtag } from "./conditional_request.ts";
import {
  type DocumentCache,
  openDocumentCache,
  type ServedDocument,
  validators,
} from "./document_cache.ts";
import { builtinOpenapi } from "./index_openapi.ts";

/** A tree that was not compared with its upstream for so long says its age in every answer. */
export const STALE_MS = 24 * 3600 * 1000;
/** Carries the age of a stale tree, whole seconds since it was last compared with its upstream. */
export const AGE_HEADER = "x-index-age";

/** What the routes of the tree work with. */
export interface IndexTreeDependencies {
  readonly index: IndexStore;
  /** Grows with every sync that is recorded; what is kept in memory is then read again. */
  readonly generation: () => number;
  readonly now: Now;
}

/** The routes of document 1. Errors are thrown, for the app to answer. */
export function indexTreeRoutes({ index, generation, now }: IndexTreeDependencies): Hono {
  const cache = openDocumentCache(index, generation);
  const openapi = builtinOpenapi();
  const answer = async (c: Context, path: string, builtin?: ServedDocument) => {
    const document = await cache.get(path) ?? builtin;
    if (document === undefined) throw await notFound(cache, path);
    return await respond(c, document, await ageSeconds(cache, now));
  };

  const routes = new Hono();
  routes.get("/v1/index.json", (c) => answer(c, DISTRO_LIST_PATH));
  routes.get("/v1/openapi.json", async (c) => answer(c, OPENAPI_PATH, await openapi));
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
  const { at } = await cache.freshness();
  const reason = at === undefined ? "the index has not been synced yet" : "the index has none";
  return new AgentError("not_found", `Cannot find ${path}: ${reason}`);
}

async function ageSeconds(cache: DocumentCache, now: Now): Promise<number | undefined> {
  const { at, failed } = await cache.freshness();
  if (at === undefined) return undefined;
  const ageMs = msBetween(at, now());
  return failed || ageMs > STALE_MS ? Math.max(0, Math.floor(ageMs / 1000)) : undefined;
}

async function respond(
  c: Context,
  document: ServedDocument,
  age: number | undefined,
): Promise<Response> {
  const { headers } = c.req.raw;
  const encoding = acceptsGzip(headers) ? "gzip" : "identity";
  const etags = encoding === "gzip"
    ? [document.etags.gzip, document.etags.identity]
    : [document.etags.identity, document.etags.gzip];
  const matched = matchedEtag(headers, etags, document.lastModifiedMs);
  const response = matched === undefined ? await document.response(encoding) : new Response(null, {
    status: 304,
    headers: validators(matched, document.lastModifiedMs),
  });
  if (age !== undefined) response.headers.set(AGE_HEADER, String(age));
  return response;
}
