// The mirror of the image index for its operator: how fresh it is, syncing it, and a search of it.

import {
  always,
  ANY_OBJECT,
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
import { type Description, parse } from "../../../domain/description/description.ts";
import {
  about,
  each,
  flag,
  inEitherCase,
  integer,
  oneOf,
  text,
  wholeText,
} from "../../../domain/description/value.ts";
import { messageOf } from "../../../domain/error.ts";
import { msBetween, type Now, systemNow } from "../../../domain/instant.ts";
import type { Log } from "../../../metrics/log.ts";
import type { Mirror } from "../../../mirror/mirror.ts";
import type { IndexStore } from "../../../store/store.ts";
import type { HttpEnv } from "../../served_agent.ts";
import type { HttpLimits } from "../../limits.ts";
import { readJson, smallBody } from "../../request/body.ts";
import { readQuery } from "../../request/query.ts";
import { FIRMWARES } from "../../../domain/index/artifact.ts";
import {
  type ImageFilter,
  type ImagePage,
  type ImagePlace,
  type ImageStore,
  type ListedImage,
  SEARCH_WORDS_MAX,
} from "../../../store/local_store.ts";

interface IndexSyncDependencies {
  readonly mirror: Pick<Mirror, "upstream" | "syncing" | "progress" | "sync" | "preview">;
  readonly index: IndexStore;
  readonly log: Log;
  readonly limits: HttpLimits;
  /** By default the system's clock. */
  readonly now?: Now;
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
const COMPARED = {
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
  ...COMPARED,
  problems: PROBLEMS,
  compared_at: { ...INSTANT, description: "When the tree was last compared with its upstream." },
  retry_after_seconds: { ...COUNT, description: "The `Retry-After` of the upstream." },
});

/** The answer of `POST /agent/v1/index/sync` with `dry_run`; sizes in bytes. */
export const INDEX_PREVIEW = whole("What a sync would change.", {
  dry_run: always(true),
  ...COMPARED,
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

/** The routes of the mirror. */
export function indexSyncRoutes(deps: IndexSyncDependencies): Hono<HttpEnv> {
  const routes = new Hono<HttpEnv>();
  routes.get("/agent/v1/index", async (c) => c.json(await status(deps)));
  routes.post("/agent/v1/index/sync", (c) => startSync(c, deps));
  return routes;
}

/** The 202 of a sync that goes on after the answer. */
export const INDEX_SYNCING = whole("A sync is under way.", { syncing: always(true) });

async function status(
  { mirror, index, now = systemNow }: IndexSyncDependencies,
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

// GET /agent/v1/images.

/** Names that other tools use for the architectures of the OS information database. */
const FOREIGN_ARCHS: ReadonlyMap<string, string> = new Map([
  ["amd64", "x86_64"],
  ["x64", "x86_64"],
  ["x86-64", "x86_64"],
  ["arm64", "aarch64"],
]);
/** Artifacts of one page by default, and at most. */
const IMAGES_DEFAULT = 100;
const IMAGES_MAX = 1000;
/** Longest value of a filter, characters. */
const VALUE_CHARS_MAX = 200;
/** Five numbers, as `placeText` writes them. */
const PLACE = /^[0-9]{1,9}(?:\.[0-9]{1,9}){4}$/;
const WORDS = new RegExp(`^\\s*(?:\\S+(?:\\s+\\S+){0,${SEARCH_WORDS_MAX - 1}})?\\s*$`);

const value = wholeText(VALUE_CHARS_MAX);

/** An architecture, translated to its name in the index. */
const arch: Description<string> = {
  ...value,
  read(given, field, findings) {
    const meant = typeof given === "string" ? FOREIGN_ARCHS.get(given.toLowerCase()) : undefined;
    if (meant === undefined) return value.read(given, field, findings);
    const words = "must be a name of the OS information database, found " +
      `${JSON.stringify(given)}: did you mean ${JSON.stringify(meant)}?`;
    findings.add(field, "Invalid", words);
    return undefined;
  },
  schema: (components) => ({
    ...value.schema(components),
    not: { pattern: `^(?:${[...FOREIGN_ARCHS.keys()].map(inEitherCase).join("|")})$` },
  }),
};

/** The query of GET /agent/v1/images. */
export const IMAGE_QUERY_FIELDS = {
  distro: about("Only artifacts of the distro with this id.", value),
  release: about(
    "Only artifacts of the release with this alias, or else this id.",
    value,
  ),
  build: about("Only artifacts of the build with this id.", value),
  arch: about(
    "Only artifacts of this architecture, in the words of the OS information database.",
    arch,
  ),
  format: about("Only artifacts of this disk format.", value),
  variant: about("Only artifacts of this variant.", value),
  compression: about("Only artifacts with this compression.", value),
  datasource: about("Only artifacts that support this datasource.", value),
  firmware: about("Only artifacts known to boot with this firmware.", oneOf(FIRMWARES)),
  q: about(
    `At most ${SEARCH_WORDS_MAX} words: only artifacts in whose names (distro, release, build, variant, ` +
      "format, file) each word occurs, ignoring case.",
    each(value, text(WORDS, `at most ${SEARCH_WORDS_MAX} words`)),
  ),
  newest: about(
    "Whether the artifact belongs to the newest current build of its release, which " +
      "clients choose.",
    flag,
  ),
  default_variant: about(
    "Whether the artifact is the default variant: as the vendor marked it, or, if the " +
      "build marks none for the architecture, the one without a variant.",
    flag,
  ),
  archived: about("Whether only the vendor's archive still has the artifact.", flag),
  limit: about("Artifacts on one page.", integer(1, IMAGES_MAX), { default: IMAGES_DEFAULT }),
  after: about(
    "`next` of the previous page.",
    text(PLACE, "the `next` of an earlier page, such as 0.2.0.1.4"),
  ),
};

interface ImageQuery {
  readonly filter: ImageFilter;
  readonly page: ImagePage;
}

/** @throws {AgentError} `invalid_argument` naming every incorrect key */
function readImageQuery(url: string): ImageQuery {
  const { q = "", limit = IMAGES_DEFAULT, after, ...filter } = readQuery(url, IMAGE_QUERY_FIELDS);
  const words = q.split(/\s+/).filter((word) => word !== "");
  return {
    filter: words.length === 0 ? filter : { ...filter, words },
    page: { limit, ...(after === undefined ? {} : { after: placeOf(after) }) },
  };
}

function placeOf(text: string): ImagePlace {
  const [distro = 0, release = 0, archived = 0, build = 0, artifact = 0] = text.split(".")
    .map(Number);
  return [distro, release, archived, build, artifact];
}

/** A place as the text of `next` and `after`. */
function placeText(place: ImagePlace): string {
  return place.join(".");
}

// GET /agent/v1/images: every artifact of the image index as one list that can be filtered. An
// extension of the interface, so it lives under /agent/v1/.

/** An entry of `GET /agent/v1/images`; `artifact` is as document 1 has it. */
export const LISTED_IMAGE = whole("An artifact with its place in the index.", {
  distro: TEXT,
  release: { ...TEXT, description: "The release's id." },
  aliases: { ...listOf(TEXT), description: "Other names of the release." },
  build: TEXT,
  point_release: NULLABLE_TEXT,
  published_at: { ...NULLABLE_TEXT, description: "As the vendor wrote it." },
  archived: { ...FLAG, description: "Whether only the vendor's archive still has it." },
  url: { ...NULLABLE_TEXT, description: "Its primary location, or else its first." },
  artifact: shapeRef("Artifact", ANY_OBJECT),
});

/** The answer of `GET /agent/v1/images`, in the order of the index. */
export const IMAGE_PAGE = whole("One page of the matching artifacts.", {
  images: listOf(shapeRef("ListedImage", LISTED_IMAGE)),
  next: { ...NULLABLE_TEXT, description: "`after` of the next page; null on the last one." },
});

/**
 * The route of the search. `X-Count` is the number of matching artifacts on all pages; the next page follows
 * `next`, which is null on the last one.
 */
export function imageSearchRoutes({ images }: { readonly images: ImageStore }): Hono<HttpEnv> {
  const routes = new Hono<HttpEnv>();
  routes.get("/agent/v1/images", async (c) => {
    const { filter, page } = readImageQuery(c.req.url);
    const count = await images.count(filter);
    // One more than shown, to see whether another page follows.
    const found = await images.search(filter, { ...page, limit: page.limit + 1 });
    const shown = found.slice(0, page.limit);
    const last = shown.at(-1);
    const next = found.length > shown.length && last !== undefined ? placeText(last.place) : null;
    c.header("x-count", String(count));
    const answer: ShapeOf<typeof IMAGE_PAGE> = { images: shown.map(imageOnWire), next };
    return c.json(answer);
  });
  return routes;
}

function imageOnWire({ place: _, ...image }: ListedImage): ShapeOf<typeof LISTED_IMAGE> {
  return image;
}
