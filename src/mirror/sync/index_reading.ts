// Index documents as decoders read them: the agent sends their bytes, takes the answers and checks
// them again by the same rules. Documents of one upstream may share a decoder.

import { joinBodies } from "../../decoder/work/byte_source.ts";
import type { DecoderOptions } from "../../decoder/work_order.ts";
import type { Decoders } from "../../decoder/pool.ts";
import { type Build, parseBuildList } from "../../domain/index/artifact.ts";
import { AgentError } from "../../domain/error.ts";
import {
  type Distro,
  type DistroList,
  type DistroSummary,
  parseDistro,
  parseDistroList,
} from "../../domain/index/image_index.ts";
import { DISTRO_LIST_PATH, RefusedDocument } from "../../domain/index/index_document.ts";
import { isJsonObject, type JsonObject, type JsonValue, kindOf } from "../../domain/json.ts";

/** A document of the index as received: its path is checked, its body is not. */
export interface ReadDocument {
  readonly path: string;
  readonly body: Uint8Array;
}

/** A list of artifacts: those that a release offers, or those that it has archived. */
export interface ReleaseDocument extends ReadDocument {
  readonly kind: "current" | "archived";
}

/** The lists of a release, and what is known of it. */
interface ReleaseDocuments {
  readonly distro: string;
  readonly release: string;
  readonly news: readonly ReleaseDocument[];
  readonly held: readonly ReleaseDocument[];
  /** Names of artifacts that have left, and their pins as JSON text. */
  readonly gone: readonly { readonly artifact: string; readonly pin: string }[];
  /** Also accepts changed digests and older builds. */
  readonly accepts: boolean;
}

/** What new lists change in a release. */
export interface ReleaseReading {
  /** What the operator must allow, worded to follow the name of the document; null for nothing. */
  readonly change: string | null;
  readonly artifacts: number;
  /** Artifacts that leave, with their pins as JSON text. */
  readonly leaving: readonly (readonly [artifact: string, pin: string])[];
  /** Names of artifacts that return. */
  readonly back: readonly string[];
}

/** State of a listed distro. */
export type ListedState = "accepted" | "kept" | "absent";

/**
 * Reads documents. Each method throws RefusedDocument for a document that breaks a rule, and an
 * AgentError `upstream` for one that a decoder could not read within its limits.
 */
export interface IndexReading {
  list(body: Uint8Array): Promise<DistroList>;
  distro(document: ReadDocument, summary: DistroSummary): Promise<Distro>;
  /** The named build of a list, or the first one; and the names of all. */
  build(
    document: ReleaseDocument,
    about: { readonly distro: string; readonly release: string },
    wanted: string | undefined,
  ): Promise<{ readonly names: readonly string[]; readonly build: Build | undefined }>;
  release(documents: ReleaseDocuments): Promise<ReleaseReading>;
  equal(one: ReadDocument, other: ReadDocument): Promise<boolean>;
  /** A document that may be missing from the tree. */
  optional(document: ReadDocument): Promise<void>;
  /**
   * @returns the list to store in place of the upstream's; null when the upstream's list is right
   */
  compose(
    list: Uint8Array,
    stored: Uint8Array | undefined,
    states: readonly (readonly [distro: string, state: ListedState])[],
  ): Promise<Uint8Array | null>;
  /** Hosts of all locations in the documents. */
  hosts(documents: readonly ReadDocument[]): Promise<string[]>;
}

/** What aborts a reading, and whether it takes precedence over work for requests. */
export type ReadingOptions = Pick<DecoderOptions, "signal" | "ahead">;

/** @param origin source of the documents */
export function openIndexReading(
  decoders: Decoders,
  origin: string,
  { signal, ahead = false }: ReadingOptions = {},
): IndexReading {
  const read = async (
    kind: string,
    documents: readonly ReadDocument[],
    more: JsonObject = {},
  ): Promise<JsonValue> => {
    const { lengths, input } = joinBodies(documents.map(({ body }) => body));
    const paths = documents.map(({ path }) => path);
    const options = {
      what: `read ${paths[0] ?? "the index"}`,
      code: "upstream",
      origin,
      ahead,
      ...(signal === undefined ? {} : { signal }),
    } as const;
    const request = { kind, lengths, paths, ...more };
    return accepted(await decoders.ask("index", request, input, options));
  };
  return {
    list: async (body) => parseDistroList(await read("list", [{ path: DISTRO_LIST_PATH, body }])),
    distro: async (document, summary) =>
      parseDistro(await read("distro", [document], { distro: { ...summary } }), summary),
    build: async ({ path, body, kind }, about, wanted) => {
      const named = wanted === undefined ? {} : { build: wanted };
      const answer = await read("build", [{ path, body }], { ...about, list: kind, ...named });
      const { names, list } = isJsonObject(answer) ? answer : {};
      const parsed = list === null
        ? undefined
        : parseBuildList(list, { document: path, ...about, kind });
      return { names: textsIn(names), build: parsed?.builds[0] };
    },
    release: async ({ news, held, gone, distro, release, accepts }) => {
      const lists = [...news, ...held];
      const kinds = lists.map(({ kind }) => kind);
      const about = { distro, release, kinds, news: news.length, accepts };
      return releaseIn(await read("release", [...lists, remembered(gone)], about));
    },
    equal: async (one, other) => await read("equal", [one, other]) === true,
    optional: async (document) => void await read("optional", [document]),
    compose: async (list, stored, states) => {
      const documents = [{ path: DISTRO_LIST_PATH, body: list }, jsonBody(states)];
      const before = stored === undefined ? [] : [{ path: DISTRO_LIST_PATH, body: stored }];
      const text = await read("compose", [...documents, ...before]);
      if (text === null) return null;
      return typeof text === "string" ? new TextEncoder().encode(text) : strange(text, "a text");
    },
    hosts: async (documents) => textsIn(await read("hosts", documents)),
  };
}

function accepted(answer: JsonValue): JsonValue {
  const refused = isJsonObject(answer) ? answer.refused : undefined;
  if (!isJsonObject(refused)) return answer;
  const { document, path, reason } = refused;
  throw new RefusedDocument({ document: String(document), path: String(path) }, String(reason));
}

function remembered(gone: ReleaseDocuments["gone"]): ReadDocument {
  const pairs = gone.map(({ artifact, pin }) => `[${JSON.stringify(artifact)},${pin}]`);
  return { path: "", body: new TextEncoder().encode(`[${pairs.join()}]`) };
}

function jsonBody(value: unknown): ReadDocument {
  return { path: "", body: new TextEncoder().encode(JSON.stringify(value)) };
}

function releaseIn(answer: JsonValue): ReleaseReading {
  const { change, artifacts, leaving, back } = isJsonObject(answer) ? answer : {};
  if (typeof artifacts !== "number" || !Array.isArray(leaving)) {
    return strange(answer, "the number of artifacts and a list of those that leave");
  }
  return {
    change: typeof change === "string" ? change : null,
    artifacts,
    leaving: leaving.map((pair) => {
      const [artifact, pin] = Array.isArray(pair) ? pair : [];
      return typeof artifact === "string" && typeof pin === "string"
        ? [artifact, pin]
        : strange(pair, "two texts");
    }),
    back: textsIn(back),
  };
}

function textsIn(value: JsonValue | undefined): string[] {
  const texts = Array.isArray(value) ? value : strange(value, "a list of texts");
  return texts.map((text) => typeof text === "string" ? text : strange(text, "a text"));
}

function strange(found: JsonValue | undefined, expected: string): never {
  const message = `Cannot read the index: a part of the decoder's answer is ${
    kindOf(found)
  }, expected ${expected}`;
  throw new AgentError("internal", message);
}
