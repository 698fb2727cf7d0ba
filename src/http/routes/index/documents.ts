// The image index of document 1: eight read-only operations on the mirrored documents, byte for byte as
// published. A request's path is a key of the store, never a path of the file system.

import type { Log } from "../../../metrics/log.ts";
import type { HttpEnv } from "../../served_agent.ts";
import {
  answerDocument,
  type DocumentContent,
  type ServedDocument,
} from "../../answer/served_document.ts";
import { AGE_HEADER, type DocumentCache, reportedAgeSeconds } from "../../answer/document_cache.ts";
import { type Context, Hono } from "hono";
import { AgentError } from "../../../domain/error.ts";
import {
  aliasPath,
  archivePath,
  DISTRO_LIST_PATH,
  distroPath,
  IMAGES_PATH,
  isIndexName,
  OPENAPI_PATH,
  quote,
  releasePath,
  SERVED_ALIASES,
} from "../../../domain/index/index_document.ts";
import type { Now } from "../../../domain/instant.ts";
import type { MemoryBudget } from "../../../domain/memory_budget.ts";
import { answerPieces, type Piece } from "../../answer/text_answer.ts";
import { PART_BYTES } from "../../../store/stored_text.ts";

interface IndexTreeContext {
  readonly now: Now;
  readonly budget: MemoryBudget;
  readonly log: Log;
  /** Shared with the fast path. */
  readonly cache: DocumentCache;
}

/** Also `images.json`, which publishers may provide. @see document 1, Endpoints */
export function indexTreeRoutes(context: IndexTreeContext): Hono<HttpEnv> {
  const { now, cache } = context;
  const answer = async (c: Context<HttpEnv>, path: string, builtin?: ServedDocument) => {
    const document = await cache.get(path) ?? builtin;
    if (document === undefined) throw await notFound(cache, path);
    // Held from here on: the cache may drop it while it is compressed.
    const release = document.hold();
    try {
      const age = reportedAgeSeconds(await cache.freshness(), Date.parse(now()));
      const response = await answerDocument(
        c.req.raw.headers,
        document,
        (content) => answerLarge(c, document.hold(), content, context),
      );
      if (age !== undefined) response.headers.set(AGE_HEADER, String(age));
      return response;
    } finally {
      release();
    }
  };

  const routes = new Hono<HttpEnv>();
  routes.get("/v1/index.json", (c) => answer(c, DISTRO_LIST_PATH));
  let openapi: Promise<ServedDocument> | undefined;
  routes.get("/v1/openapi.json", async (c) => {
    openapi ??= import("./openapi.ts").then(({ builtinOpenapi }) => builtinOpenapi());
    return await answer(c, OPENAPI_PATH, await openapi);
  });
  // Not an operation of document 1, but publishers may provide it.
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

/** Sends a large document. Its memory stays charged until the caller has all of it or leaves. */
async function answerLarge(
  c: Context<HttpEnv>,
  release: () => void,
  { headers, bytes }: DocumentContent,
  { budget, log }: Pick<IndexTreeContext, "budget" | "log">,
): Promise<Response> {
  try {
    const pieces = documentPieces(bytes, release);
    const response = await answerPieces(c, pieces, { budget, log, bytes: bytes.byteLength });
    for (const [name, value] of headers) response.headers.set(name, value);
    return response;
  } catch (error) {
    release();
    throw error;
  }
}

async function* documentPieces(
  bytes: Uint8Array<ArrayBuffer>,
  release: () => void,
): AsyncGenerator<Piece, void> {
  try {
    for (let at = 0; at < bytes.length; at += PART_BYTES) {
      yield { bytes: bytes.subarray(at, at + PART_BYTES), last: at + PART_BYTES >= bytes.length };
    }
  } finally {
    release();
  }
}

/** A decoded parameter with a slash would name another document. */
function name(c: Context<HttpEnv>, noun: "distro" | "release"): string {
  const text = c.req.param(noun) ?? "";
  if (isIndexName(text)) return text;
  const message = `Cannot find ${noun} ${quote(text)}, expected 1 to 64 of A-Z a-z 0-9 . _ -`;
  throw new AgentError("not_found", message, { about: { kind: "artifact", name: text } });
}

async function notFound(cache: DocumentCache, path: string): Promise<AgentError> {
  const { atMs } = await cache.freshness();
  const synced = atMs !== undefined;
  const [, , distro, ...rest] = path.split("/");
  const parent = rest.length > 1 ? `v1/distros/${distro}/index.json` : "v1/index.json";
  const reason = synced
    ? `the index has none, expected one that ${parent} names`
    : "the index has not been synced yet";
  const kind = synced ? "artifact" : "index";
  return new AgentError("not_found", `Cannot find ${path}: ${reason}`, { about: { kind } });
}
