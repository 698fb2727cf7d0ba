// The paths of the eight operations of the image index, and the names in them. A path is the same text
// upstream, in the store and in a request.

/** The aliases that have an operation of their own. A release may hold others too. */
export const SERVED_ALIASES = ["latest", "lts", "dev"] as const;
/** One of the aliases with an operation. */
type ServedAlias = typeof SERVED_ALIASES[number];

/** The root of the tree: it lists the distros, which lead to all other documents. */
export const DISTRO_LIST_PATH = "v1/index.json";
/** Path of the description of the index. */
export const OPENAPI_PATH = "v1/openapi.json";
/** Path of every image in one document: no operation of document 1, but some publishers write it. */
export const IMAGES_PATH = "v1/images.json";

/** Path of a distro's document. Ids must have passed {@linkcode isIndexName}. */
export function distroPath(distro: string): string {
  return `v1/distros/${distro}/index.json`;
}

/** Path of a release's current builds. */
export function releasePath(distro: string, release: string): string {
  return `v1/distros/${distro}/releases/${release}/index.json`;
}

/** Path of a release's archived builds. */
export function archivePath(distro: string, release: string): string {
  return `v1/distros/${distro}/releases/${release}/archive.json`;
}

/** Path of the copy of the builds that an alias leads to. */
export function aliasPath(distro: string, alias: ServedAlias): string {
  return `v1/distros/${distro}/aliases/${alias}.json`;
}

/** What the path of a document says of it. */
type IndexPlace =
  | { readonly kind: "tree" }
  | { readonly kind: "distro"; readonly distro: string }
  | {
    readonly kind: "current" | "archived";
    readonly distro: string;
    readonly release: string;
  };

const DISTRO_PATH = /^v1\/distros\/([^/]+)\/(?:releases\/([^/]+)\/(index|archive)\.json)?/;

/** Reads a path: builds of a release, something else of a distro, or a document of the whole tree. */
export function placeOf(path: string): IndexPlace {
  const [, distro, release, file] = DISTRO_PATH.exec(path) ?? [];
  if (distro === undefined) return { kind: "tree" };
  if (release === undefined) return { kind: "distro", distro };
  return { kind: file === "archive" ? "archived" : "current", distro, release };
}

const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;

/**
 * Whether a text may name a distro or a release. Names become parts of upstream addresses and of
 * keys in the store, so nothing that could climb out of a folder is one.
 */
export function isIndexName(text: string): boolean {
  return NAME.test(text) && !text.includes("..");
}
