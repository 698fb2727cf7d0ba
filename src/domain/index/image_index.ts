// The image index: distros and their releases, and the rules that a tree must follow before it is mirrored.
// artifact.ts has builds and artifacts. Unknown fields are allowed: they are ignored here, and preserved in the
// stored bytes.

import {
  asOneOf,
  asText,
  DISTRO_LIST_PATH,
  distroPath,
  inside,
  isIndexName,
  member,
  OPENAPI_PATH,
  type Place,
  quote,
  readList,
  readNonEmptyText,
  readNullable,
  readNullableDate,
  readNullableText,
  readObject,
  readOptionalList,
  readText,
  refuse,
} from "./index_document.ts";
import type { JsonObject } from "../json.ts";

/** The families of systems. @see document 1, DistroSummary */
const OS_FAMILIES = ["linux", "bsd", "illumos"] as const;
/** A closed enumeration: a new value would be a breaking change of the interface. */
type OsFamily = typeof OS_FAMILIES[number];

/** One distro in the list of all. @see document 1, DistroSummary */
export interface DistroSummary {
  readonly id: string;
  readonly name: string | null;
  readonly homepage: string | null;
  readonly os_family: OsFamily;
}

/** Every distro in the index, in the publisher's order. @see document 1, DistroList */
export interface DistroList {
  readonly distros: readonly DistroSummary[];
}

/** A distro with its releases. @see document 1, Distro */
export interface Distro extends DistroSummary {
  /** The vendor's name for the channel that `dev` follows; undefined when the key is absent. */
  readonly dev_channel: string | null | undefined;
  /** Newest first, in the vendor's own order. */
  readonly releases: readonly Release[];
}

/** A release of a distro. @see document 1, Release */
interface Release {
  readonly id: string;
  readonly title: string | null;
  readonly version: string | null;
  readonly eol_date: string | null;
  /** `latest`, `lts`, `dev`, or any other text. */
  readonly aliases: readonly string[];
  readonly osinfo: OsinfoRef | null;
}

/** Entry of the OS information database. @see document 1, OsinfoRef */
export interface OsinfoRef {
  readonly id: string;
  readonly short_id: string;
}

/** @throws {AgentError} `upstream` naming the document, the place in it and the reason */
export function parseDistroList(value: unknown): DistroList {
  const place = { document: DISTRO_LIST_PATH, path: "$" };
  const object = readObject(value, place);
  const distros = readList(object, "distros", place).map((item, index) => {
    const at = inside(inside(place, "distros"), index);
    return readSummary(readObject(item, at), at);
  });
  refuseRepeated(distros.map((distro) => distro.id), inside(place, "distros"));
  return { distros };
}

/**
 * Reads the document of the distro that the list names.
 * @throws {AgentError} `upstream`
 */
export function parseDistro(value: unknown, summary: DistroSummary): Distro {
  const place = { document: distroPath(summary.id), path: "$" };
  const object = readObject(value, place);
  const own = readSummary(object, place);
  if (own.id !== summary.id) {
    refuse(inside(place, "id"), `must be ${quote(summary.id)} as in its path, found ${own.id}`);
  }
  if (own.os_family !== summary.os_family) {
    refuse(
      inside(place, "os_family"),
      `must be ${summary.os_family} as in ${DISTRO_LIST_PATH}, found ${own.os_family}`,
    );
  }
  const releases = readList(object, "releases", place).map((item, index) => {
    const at = inside(inside(place, "releases"), index);
    return readRelease(readObject(item, at), at);
  });
  refuseRepeated(releases.map((release) => release.id), inside(place, "releases"));
  checkAliases(releases, inside(place, "releases"));
  const dev_channel = member(object, "dev_channel") === undefined
    ? undefined
    : readNullableText(object, "dev_channel", place);
  checkDevChannel(dev_channel, releases, inside(place, "dev_channel"));
  return { ...own, dev_channel, releases };
}

/**
 * The least that an OpenAPI description must have to be passed on.
 * @throws {AgentError} `upstream`
 */
export function checkOpenapi(value: unknown): void {
  const place = { document: OPENAPI_PATH, path: "$" };
  const object = readObject(value, place);
  const version = readText(object, "openapi", place);
  if (!/^3\.\d+\.\d+$/.test(version)) {
    refuse(inside(place, "openapi"), `must be a version 3, found ${quote(version)}`);
  }
  readNonEmptyText(
    readObject(object.info, inside(place, "info")),
    "version",
    inside(place, "info"),
  );
  readObject(object.paths, inside(place, "paths"));
}

/** The release that holds an alias. */
export function holderOf(distro: Distro, alias: string): Release | undefined {
  return distro.releases.find((release) => release.aliases.includes(alias));
}

/** The link to osinfo-db, or null. @throws {AgentError} `upstream` */
export function readOsinfo(object: JsonObject, place: Place): OsinfoRef | null {
  return readNullable(object, "osinfo", place, (osinfo, at) => ({
    id: readText(osinfo, "id", at),
    short_id: readText(osinfo, "short_id", at),
  }));
}

function readSummary(object: JsonObject, place: Place): DistroSummary {
  return {
    id: readName(object, "id", place),
    name: readNullableText(object, "name", place),
    homepage: readNullableText(object, "homepage", place),
    os_family: asOneOf(member(object, "os_family"), OS_FAMILIES, inside(place, "os_family")),
  };
}

function readRelease(object: JsonObject, place: Place): Release {
  const aliases = readOptionalList(object, "aliases", place);
  return {
    id: readName(object, "id", place),
    title: readNullableText(object, "title", place),
    version: readNullableText(object, "version", place),
    eol_date: readNullableDate(object, "eol_date", place),
    aliases: aliases.map((alias, index) => asText(alias, inside(inside(place, "aliases"), index))),
    osinfo: readOsinfo(object, place),
  };
}

function readName(object: JsonObject, key: string, place: Place): string {
  const name = readText(object, key, place);
  if (isIndexName(name)) return name;
  return refuse(
    inside(place, key),
    `must be 1 to 64 of A-Z a-z 0-9 . _ - without ".." or a leading ".", found ${quote(name)}`,
  );
}

/** Refuses the second of two equal texts, naming its place. @throws {AgentError} `upstream` */
export function refuseRepeated(texts: readonly string[], place: Place, what = ".id"): void {
  const first = new Map<string, number>();
  for (const [index, text] of texts.entries()) {
    const earlier = first.get(text);
    if (earlier !== undefined) {
      const at = inside(place, index);
      refuse({ ...at, path: at.path + what }, `repeats ${quote(text)} of [${earlier}]`);
    }
    first.set(text, index);
  }
}

function checkAliases(releases: readonly Release[], place: Place): void {
  const holders = new Map<string, string>();
  for (const [index, release] of releases.entries()) {
    for (const [position, alias] of release.aliases.entries()) {
      const holder = holders.get(alias);
      if (holder !== undefined) {
        refuse(
          inside(inside(inside(place, index), "aliases"), position),
          `gives ${quote(alias)} to ${release.id}, but ${holder} holds it`,
        );
      }
      holders.set(alias, release.id);
    }
  }
}

/** An absent dev_channel says nothing; null means that there is no development channel. */
function checkDevChannel(
  dev_channel: string | null | undefined,
  releases: readonly Release[],
  at: Place,
): void {
  const holder = releases.find((release) => release.aliases.includes("dev"));
  if (dev_channel === null && holder !== undefined) {
    refuse(at, `must name the channel that dev follows, found null though ${holder.id} holds dev`);
  }
  if (typeof dev_channel === "string" && holder === undefined) {
    refuse(at, `must be null as no release holds dev, found ${quote(dev_channel)}`);
  }
}
