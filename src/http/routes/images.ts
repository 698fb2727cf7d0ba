// The query of GET /agent/v1/images, key by key. An unknown key is refused with the one that was probably
// meant: ignoring a filter would answer with more than was requested.

import { invalidArgument } from "../../domain/error.ts";
import { isWholeText, type JsonObject } from "../../domain/json.ts";
import { nearest } from "../../domain/field_check.ts";
import {
  type ImageFilter,
  type ImagePage,
  type ImagePlace,
  type ImageStore,
  type ListedImage,
  SEARCH_WORDS_MAX,
} from "../../store/image_store.ts";
import { integerOf, readQuery } from "../request/query.ts";
import { Hono } from "hono";

/** Keys whose value an artifact has. */
const WORD_KEYS = [
  "distro",
  "release",
  "build",
  "arch",
  "format",
  "variant",
  "compression",
  "datasource",
  "firmware",
] as const;
/** Keys that are true or false. */
const SWITCH_KEYS = ["newest", "default_variant", "archived"] as const;
const KEYS = [...WORD_KEYS, "q", ...SWITCH_KEYS, "limit", "after"] as const;

/** A closed enumeration. @see document 1, Artifact */
const FIRMWARES = ["bios", "uefi"];
/** What other tools call the architectures of the OS information database. */
const FOREIGN_ARCHS: ReadonlyMap<string, string> = new Map([
  ["amd64", "x86_64"],
  ["x64", "x86_64"],
  ["x86-64", "x86_64"],
  ["arm64", "aarch64"],
]);
/** Artifacts of one page by default, and at most. */
export const IMAGES_DEFAULT = 100;
export const IMAGES_MAX = 1000;
/** Characters of one value. */
export const VALUE_CHARS_MAX = 200;
/** Five numbers, as `placeText` writes them. */
const PLACE = /^\d{1,9}(?:\.\d{1,9}){4}$/;
const SHOWN_CHARS_MAX = 64;

/** A parsed query. */
interface ImageQuery {
  readonly filter: ImageFilter;
  readonly page: ImagePage;
}

/** @throws {AgentError} `invalid_argument` naming the key, with a suggestion */
function readImageQuery(url: string): ImageQuery {
  refuseUnknown(url);
  const query = readQuery(url, KEYS);
  const filter: Record<string, string | boolean | readonly string[]> = {};
  for (const key of WORD_KEYS) {
    const word = wordOf(query, key);
    if (word !== undefined) filter[key] = word;
  }
  for (const key of SWITCH_KEYS) {
    const on = switchOf(query, key);
    if (on !== undefined) filter[key] = on;
  }
  const words = wordOf(query, "q")?.split(/\s+/).filter((word) => word !== "") ?? [];
  if (words.length > SEARCH_WORDS_MAX) {
    throw invalidArgument("q", `Cannot search for q: it has more than ${SEARCH_WORDS_MAX} words`);
  }
  if (words.length > 0) filter.words = words;
  const limit = integerOf(query, "limit", { min: 1, max: IMAGES_MAX }) ?? IMAGES_DEFAULT;
  const after = placeOf(query);
  return { filter, page: { limit, ...(after === undefined ? {} : { after }) } };
}

/** A place as text, in answers and in `after`. */
export function placeText(place: ImagePlace): string {
  return place.join(".");
}

function refuseUnknown(url: string): void {
  if (!url.includes("?")) return;
  for (const name of new URL(url).searchParams.keys()) {
    if ((KEYS as readonly string[]).includes(name)) continue;
    const shown = name.slice(0, SHOWN_CHARS_MAX);
    const near = nearest(shown, KEYS);
    const message = `Cannot filter by ${JSON.stringify(shown)}` +
      (near === "" ? `: expected ${KEYS.join(", ")}` : near);
    throw invalidArgument(shown, message, "UnknownField");
  }
}

function wordOf(query: ReadonlyMap<string, string>, key: string): string | undefined {
  const value = query.get(key);
  if (value === undefined) return undefined;
  if (value === "" || value.length > VALUE_CHARS_MAX || !isWholeText(value)) {
    const message = `Cannot filter by ${key}: expected 1 to ${VALUE_CHARS_MAX} characters`;
    throw invalidArgument(key, message);
  }
  const meant = key === "arch" ? FOREIGN_ARCHS.get(value.toLowerCase()) : undefined;
  if (meant !== undefined) {
    const message = `Cannot filter by arch ${JSON.stringify(value)}: the index has the names of ` +
      `the OS information database: did you mean ${JSON.stringify(meant)}?`;
    throw invalidArgument(key, message);
  }
  if (key === "firmware" && !FIRMWARES.includes(value)) {
    const message = `Cannot filter by firmware ${JSON.stringify(value)}` +
      (nearest(value, FIRMWARES) || `: expected ${FIRMWARES.join(" or ")}`);
    throw invalidArgument(key, message);
  }
  return value;
}

function switchOf(query: ReadonlyMap<string, string>, key: string): boolean | undefined {
  const text = query.get(key);
  if (text === undefined || text === "true" || text === "false") {
    return text === undefined ? undefined : text === "true";
  }
  throw invalidArgument(key, `Cannot read ${key}: expected true or false`);
}

function placeOf(query: ReadonlyMap<string, string>): ImagePlace | undefined {
  const text = query.get("after");
  if (text === undefined) return undefined;
  if (!PLACE.test(text)) {
    const message = "Cannot read after: expected the `next` of an earlier page, such as 0.2.0.1.4";
    throw invalidArgument("after", message);
  }
  const [distro = 0, release = 0, archived = 0, build = 0, artifact = 0] = text.split(".")
    .map(Number);
  return [distro, release, archived, build, artifact];
}

// GET /agent/v1/images: all artifacts of the image index as one list with filters.

/**
 * The route of the search. `X-Count` is the number of matching artifacts on all pages; the next page follows
 * `next`, which is null on the last one.
 */
export function imageSearchRoutes({ images }: { readonly images: ImageStore }): Hono {
  const routes = new Hono();
  routes.get("/agent/v1/images", async (c) => {
    const { filter, page } = readImageQuery(c.req.url);
    const count = await images.count(filter);
    // One more than shown, to see whether another page follows.
    const found = await images.search(filter, { ...page, limit: page.limit + 1 });
    const shown = found.slice(0, page.limit);
    const last = shown.at(-1);
    const next = found.length > shown.length && last !== undefined ? placeText(last.place) : null;
    c.header("x-count", String(count));
    return c.json({ images: shown.map(imageOnWire), next });
  });
  return routes;
}

function imageOnWire({ place: _, ...image }: ListedImage): JsonObject {
  return { ...image, aliases: [...image.aliases] };
}
