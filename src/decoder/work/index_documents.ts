// Checks documents of the image index against the rules and against each other. Each kind of reading takes
// documents in its own order and returns what the agent needs; a document that breaks a rule is a result too:
// `{refused: {document, path, reason}}`.

import {
  type Artifact,
  artifactKey,
  type BuildList,
  parseBuildList,
} from "../../domain/index/artifact.ts";
import { checkOpenapi, parseDistro, parseDistroList } from "../../domain/index/image_index.ts";
import {
  decodeDocument,
  DISTRO_LIST_PATH,
  DOCUMENT_BYTES_MAX,
  OPENAPI_PATH,
  refuse,
  RefusedDocument,
} from "../../domain/index/index_document.ts";
import {
  equalJson,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  objectsIn,
} from "../../domain/json.ts";
import { openByteSource, takeBodies } from "./byte_source.ts";
import type { DecoderWork } from "../decoder_message.ts";

/** A document of the input: what it is, and its bytes. */
interface Given {
  readonly path: string;
  readonly body: Uint8Array;
}

type DocumentReading = (request: JsonObject, documents: readonly Given[]) => JsonValue;

/** Reads documents: request `{kind, lengths, paths}` and further fields of the kind. */
export const indexWork: DecoderWork = async (request, input) => {
  const bodies = await takeBodies(openByteSource(input), request.lengths);
  const paths = Array.isArray(request.paths) ? request.paths.map(String) : [];
  const given = bodies.map((body, index) => ({ path: paths[index] ?? "", body }));
  const read = READINGS[String(request.kind)];
  if (read === undefined) {
    const known = Object.keys(READINGS).join(", ");
    throw new TypeError(`Cannot read documents: found ${request.kind}, expected one of ${known}`);
  }
  try {
    return read(request, given);
  } catch (error) {
    if (!(error instanceof RefusedDocument)) throw error;
    const { place, reason } = error;
    return { refused: { document: place.document, path: place.path, reason } };
  }
};

const READINGS: Readonly<Record<string, DocumentReading>> = {
  list: (_request, [list]) => asJson(parseDistroList(decoded(list))),
  distro: ({ distro }, [document]) => {
    const { distros: [summary] } = parseDistroList({ distros: [distro] });
    return summary === undefined ? null : asJson(parseDistro(decoded(document), summary));
  },
  build: readBuild,
  release: readRelease,
  equal: (_request, [one, other]) => equalJson(decoded(one), decoded(other)),
  optional: (_request, [document]) => {
    const value = decoded(document);
    if (document?.path === OPENAPI_PATH) checkOpenapi(value);
    else if (typeof value !== "object" || value === null) {
      refuse({ document: document?.path ?? "", path: "$" }, "must be an object or a list");
    }
    return true;
  },
  compose,
  hosts: (_request, documents) => [
    ...new Set(documents.flatMap((document) => orNone(() => hostsOf(document)))),
  ],
};

function decoded(document: Given | undefined): JsonValue {
  if (document === undefined) throw new TypeError("Cannot read documents: one is missing");
  // Whatever JSON.parse returns is a JSON value.
  return decodeDocument(document.body, document.path) as JsonValue;
}

/** Converts a parsed document to JSON, where absent fields are missing. */
function asJson(value: object): JsonObject {
  return value as JsonObject;
}

/** Reads one list of builds: the names of all, and the requested build or the first. */
function readBuild(request: JsonObject, [document]: readonly Given[]): JsonValue {
  const about = { distro: String(request.distro), release: String(request.release) };
  const kind = request.list === "archived" ? "archived" : "current";
  const place = { document: document?.path ?? "", ...about, kind } as const;
  const { builds } = parseBuildList(decoded(document), place);
  const chosen = typeof request.build === "string"
    ? builds.find(({ build }) => build === request.build)
    : builds[0];
  return {
    names: builds.map(({ build }) => build),
    list: chosen === undefined ? null : { ...about, builds: [asJson(chosen)] },
  };
}

/**
 * Reads the lists of a release: first `news` new lists, then the stored lists, then the pins of artifacts
 * that have left. `kinds` says which lists are current and which archived. Returns the artifacts that leave
 * and return, and the change that the operator must allow, if any.
 */
function readRelease(request: JsonObject, documents: readonly Given[]): JsonValue {
  const { distro, release, kinds, news, accepts } = request;
  const about = { distro: String(distro), release: String(release) };
  const listOf = (document: Given, index: number): BuildList =>
    parseBuildList(decoded(document), {
      document: document.path,
      ...about,
      kind: Array.isArray(kinds) && kinds[index] === "archived" ? "archived" : "current",
    });
  const remembered = documents.at(-1);
  const lists = documents.slice(0, -1);
  const after = lists.slice(0, Number(news)).map(listOf);
  const before = lists.flatMap((document, index) =>
    index < Number(news) ? [] : orNone(() => [listOf(document, index)])
  );
  // The agent wrote this text itself.
  const gone = JSON.parse(new TextDecoder().decode(remembered?.body)) as [string, Pin][];
  const [held, now] = [pinsOf(before), pinsOf(after)];
  const here = new Set(now.map(([artifact]) => artifact));
  const change = accepts === true
    ? undefined
    : weakened(new Map([...gone, ...held]), now) ?? rolledBack(before, after);
  return {
    change: Number(news) === 0 ? null : change ?? null,
    artifacts: now.length,
    leaving: held.flatMap(([artifact, pin]) =>
      here.has(artifact) || isEmptyPin(pin) ? [] : [[artifact, JSON.stringify(pin)]]
    ),
    back: gone.map(([artifact]) => artifact).filter((artifact) => here.has(artifact)),
  };
}

/**
 * The list of distros to store: null for the upstream's own, when all of its distros were accepted. Otherwise
 * the list must match what is served: kept distros appear as they were listed before, and missing ones do not
 * appear.
 */
function compose(_request: JsonObject, documents: readonly Given[]): JsonValue {
  const [body, states, stored] = documents;
  const list = decoded(body);
  const stateOf = new Map(JSON.parse(new TextDecoder().decode(states?.body)) as [string, string][]);
  const before = new Map(stored === undefined ? [] : entriesOf(decoded(stored)));
  const composed = entriesOf(list).flatMap(([id, entry]): JsonValue[] => {
    const state = stateOf.get(id);
    if (state === "accepted") return [entry];
    return state === "kept" ? [before.get(id) ?? entry] : [];
  });
  if (!isJsonObject(list) || equalJson(composed, list.distros ?? null)) return null;
  const made = { ...list, distros: composed };
  const spaced = JSON.stringify(made, null, 2) + "\n";
  const text = spaced.length * 3 <= DOCUMENT_BYTES_MAX ? spaced : JSON.stringify(made) + "\n";
  const size = new TextEncoder().encode(text).byteLength;
  if (size > DOCUMENT_BYTES_MAX) {
    refuse({ document: DISTRO_LIST_PATH, path: "$" }, `would have ${size} bytes with what is kept`);
  }
  return text;
}

/** A stored document may break rules that are newer than it; that must not block a sync. */
function orNone<T>(read: () => T[]): T[] {
  try {
    return read();
  } catch (error) {
    if (error instanceof RefusedDocument) return [];
    throw error;
  }
}

function entriesOf(list: JsonValue): [string, JsonValue][] {
  const distros = isJsonObject(list) ? objectsIn(list.distros) : [];
  return distros.flatMap((entry): [string, JsonValue][] =>
    typeof entry.id === "string" ? [[entry.id, entry]] : []
  );
}

/** Hosts of all locations of a document, whatever kind of document it is. */
function hostsOf(document: Given): string[] {
  const value = decoded(document);
  const builds = isJsonObject(value) ? objectsIn(value.builds) : [];
  return builds
    .flatMap((build) => objectsIn(build.artifacts))
    .flatMap((artifact) => objectsIn(artifact.locations))
    .map(({ url }) => typeof url === "string" ? URL.parse(url)?.host ?? "" : "")
    .filter((host) => host !== "");
}

/**
 * What was published for verifying one artifact: a later index may add to it, but not change or remove it. Otherwise
 * anyone who can write the index could replace an image together with its digest. An intended change must be accepted by
 * the operator.
 *
 * The pins of artifacts in the index are its documents. When an artifact leaves the index, its pin is stored, so that
 * nothing else can return under its name.
 */
interface Pin {
  /** Lower-case hex by algorithm. */
  readonly digests: readonly (readonly [algorithm: string, value: string])[];
  readonly signatures: readonly string[];
}

/** A pin with the name of its artifact within a release. */
type NamedPin = readonly [artifact: string, pin: Pin];

/** The pins of all artifacts; one that is both current and archived has two. */
export function pinsOf(lists: readonly BuildList[]): NamedPin[] {
  return lists.flatMap(({ builds }) =>
    builds.flatMap(({ build, artifacts }) =>
      artifacts.map((artifact): NamedPin => [
        `${JSON.stringify(build)} ${artifactKey(artifact)}`,
        pinOf(artifact),
      ])
    )
  );
}

function pinOf({ integrity }: Artifact): Pin {
  return {
    digests: (integrity?.digests ?? []).map(({ algorithm, value }) => [algorithm, value]),
    signatures: [...new Set(integrity?.signatures.map((signature) => signature.kind))],
  };
}

/** Whether a pin has nothing that a later build could contradict. */
function isEmptyPin({ digests, signatures }: Pin): boolean {
  return digests.length === 0 && signatures.length === 0;
}

/**
 * The first contradiction between new lists and the pins: a known artifact with less to check it by, or
 * with other values.
 * @param held the pins of one release, including artifacts that have left it
 * @param after the pins according to the new lists
 * @returns words that follow the name of a document, or undefined
 */
export function weakened(
  held: ReadonlyMap<string, Pin>,
  after: readonly NamedPin[],
): string | undefined {
  for (const [key, pin] of after) {
    const earlier = held.get(key);
    const change = earlier === undefined ? undefined : difference(earlier, pin);
    if (change !== undefined) return `${change} of build ${key}`;
  }
  return undefined;
}

function difference(before: Pin, after: Pin): string | undefined {
  for (const [algorithm, value] of before.digests) {
    const same = after.digests.filter(([other]) => other === algorithm);
    if (same.length === 0) return `drops the ${algorithm}`;
    if (!same.every(([, other]) => other === value)) return `changes the ${algorithm}`;
  }
  const lost = before.signatures.find((kind) => !after.signatures.includes(kind));
  return lost === undefined ? undefined : `drops the ${lost} signature`;
}

/**
 * Whether new lists are older than the known ones. Anyone who could replay an old tree would keep a host from
 * ever seeing fixes. It also counts as older if the newest build has vanished and no newer one replaces it.
 * @returns words that follow the name of a document, or undefined
 */
export function rolledBack(
  before: readonly BuildList[],
  after: readonly BuildList[],
): string | undefined {
  const held = newestSeen(before);
  const found = newestSeen(after);
  if (held === undefined || found !== undefined && found.ms >= held.ms) return undefined;
  const newest = found === undefined ? "none has a date" : `the newest is of ${found.text}`;
  return `goes back behind a build that was first seen at ${held.text}: ${newest}`;
}

function newestSeen(lists: readonly BuildList[]): { text: string; ms: number } | undefined {
  let newest: { text: string; ms: number } | undefined;
  for (const { builds } of lists) {
    for (const { first_seen } of builds) {
      const ms = Date.parse(first_seen ?? "");
      if (first_seen !== null && ms > (newest?.ms ?? -Infinity)) newest = { text: first_seen, ms };
    }
  }
  return newest;
}
