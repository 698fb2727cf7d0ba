// GET /agent/v1/images: every artifact of the image index as one list that can be filtered. An extension of the
// interface, so it lives under /agent/v1/.

import {
  ANY_OBJECT,
  FLAG,
  listOf,
  NULLABLE_TEXT,
  type ShapeOf,
  shapeRef,
  TEXT,
  whole,
} from "../../../domain/description/answer.ts";
import { Hono } from "hono";
import type { Description } from "../../../domain/description/description.ts";
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
import type { HttpEnv } from "../../served_agent.ts";
import { readQuery } from "../../request/query.ts";
import { FIRMWARES } from "../../../domain/index/artifact.ts";
import {
  type ImageFilter,
  type ImagePage,
  type ImagePlace,
  type ImageStore,
  type ListedImage,
  SEARCH_WORDS_MAX,
} from "../../../store/image_store.ts";

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
