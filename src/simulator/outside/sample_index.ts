// The index tree of the sample upstream: two made-up distros that together have every kind of document and
// every alias, and whose images can really be downloaded and booted.

import { schemaRef } from "../../domain/description/answer.ts";
import type { JsonObject } from "../../domain/json.ts";
import { SAMPLE_ISO, type SampleFiles, type SamplePath } from "./sample_file.ts";

/** The publication date of all files. */
export const PUBLISHED_AT = "2026-11-01T00:00:00Z";

/** What the documents of the sample index are generated from. */
interface SampleIndexOptions {
  /** The base of all addresses in the documents, without a slash at the end. */
  readonly baseUrl: string;
  /** The files to describe. */
  readonly files: SampleFiles;
}

/** The entity tag of bytes with this digest. */
export function entityTag(sha256: string): string {
  return `"${sha256}"`;
}

/**
 * The documents of the index by their paths below the base, such as `v1/index.json`. Every optional key is
 * written, as by the real publisher.
 * @see document 1
 */
export function sampleIndex(
  { baseUrl, files }: SampleIndexOptions,
): Map<string, Uint8Array<ArrayBuffer>> {
  const documents = new Map<string, JsonObject>();
  const distros = [sampleDistro(baseUrl, files), previewDistro(baseUrl, files)];
  documents.set("v1/index.json", { distros: distros.map(distroSummary) });
  for (const distro of distros) putDistro(documents, distro);
  documents.set("v1/openapi.json", SAMPLE_OPENAPI);
  return new Map([...documents].map(([path, document]) => {
    return [path, new TextEncoder().encode(`${JSON.stringify(document, null, 2)}\n`)];
  }));
}

interface SampleDistro {
  readonly id: string;
  readonly name: string;
  readonly homepage: string | null;
  readonly os_family: "linux" | "bsd" | "illumos";
  readonly dev_channel: string | null;
  /** Newest first. */
  readonly releases: readonly SampleRelease[];
}

interface SampleRelease {
  readonly id: string;
  readonly title: string;
  readonly aliases: readonly ("latest" | "lts" | "dev")[];
  readonly eol_date: string | null;
  /** Newest first. */
  readonly builds: JsonObject[];
  /** Builds of the vault; a release without any has no archive. */
  readonly archive: JsonObject[];
}

function sampleDistro(baseUrl: string, files: SampleFiles): SampleDistro {
  return {
    id: "zonewright-sample",
    name: "zonewright sample",
    homepage: null,
    os_family: "linux",
    dev_channel: null,
    releases: [
      {
        id: "2.0",
        title: "zonewright sample 2.0",
        aliases: ["latest", "lts"],
        eol_date: null,
        builds: [build("20261101", "2.0", [
          isoArtifact(baseUrl, files),
          diskArtifact("files/zonewright-sample-2.0.raw.gz", false, baseUrl, files),
        ])],
        archive: [],
      },
      {
        id: "1.0",
        title: "zonewright sample 1.0",
        aliases: [],
        eol_date: "2027-12-31",
        builds: [build("20260201", "1.0", [
          diskArtifact("files/zonewright-sample-1.0.raw.gz", true, baseUrl, files),
        ])],
        archive: [],
      },
    ],
  };
}

function previewDistro(baseUrl: string, files: SampleFiles): SampleDistro {
  return {
    id: "zonewright-preview",
    name: "zonewright preview",
    homepage: null,
    os_family: "illumos",
    dev_channel: "preview",
    releases: [
      {
        id: "3.0_preview",
        title: "zonewright preview 3.0",
        aliases: ["dev"],
        eol_date: null,
        builds: [build("3.0-20261101.1", null, [
          diskArtifact("files/zonewright-preview-3.0.raw.gz", true, baseUrl, files),
        ])],
        archive: [],
      },
      {
        id: "2",
        title: "zonewright preview 2",
        aliases: ["latest"],
        eol_date: null,
        builds: [build("2.1-20261001.0", "2.1", [
          diskArtifact("files/zonewright-preview-2.1.raw.gz", true, baseUrl, files),
        ])],
        archive: [build("2.0-20260501.0", "2.0", [
          diskArtifact("vault/zonewright-preview-2.0.raw.gz", true, baseUrl, files),
        ])],
      },
    ],
  };
}

function putDistro(documents: Map<string, JsonObject>, distro: SampleDistro): void {
  const folder = `v1/distros/${distro.id}`;
  documents.set(`${folder}/index.json`, {
    ...distroSummary(distro),
    dev_channel: distro.dev_channel,
    releases: distro.releases.map(({ id, title, aliases, eol_date }) => (
      { id, version: id, title, aliases: [...aliases], eol_date, osinfo: null }
    )),
  });
  for (const { id: release, aliases, builds, archive } of distro.releases) {
    const current = { distro: distro.id, release, builds };
    documents.set(`${folder}/releases/${release}/index.json`, current);
    for (const alias of aliases) documents.set(`${folder}/aliases/${alias}.json`, current);
    if (archive.length === 0) continue;
    const archived = { distro: distro.id, release, builds: archive };
    documents.set(`${folder}/releases/${release}/archive.json`, archived);
  }
}

function distroSummary({ id, name, os_family, homepage }: SampleDistro): JsonObject {
  return { id, name, os_family, homepage };
}

function build(id: string, pointRelease: string | null, artifacts: JsonObject[]): JsonObject {
  return {
    build: id,
    point_release: pointRelease,
    published_at: PUBLISHED_AT,
    first_seen: PUBLISHED_AT,
    osinfo: null,
    artifacts,
  };
}

function isoArtifact(baseUrl: string, files: SampleFiles): JsonObject {
  return {
    variant: "installer",
    default_variant: true,
    arch: "x86_64",
    format: "iso",
    compression: "none",
    ...download(SAMPLE_ISO, baseUrl, files),
  };
}

function diskArtifact(
  path: Exclude<SamplePath, typeof SAMPLE_ISO>,
  isDefault: boolean,
  baseUrl: string,
  files: SampleFiles,
): JsonObject {
  return {
    variant: "disk",
    default_variant: isDefault,
    arch: "x86_64",
    format: "raw",
    compression: "gzip",
    ...download(path, baseUrl, files),
  };
}

/** The keys of an artifact that follow from its file. */
function download(path: SamplePath, baseUrl: string, files: SampleFiles): JsonObject {
  const { content, digests: { sha256, sha512 } } = files[path];
  return {
    firmware: ["bios"],
    datasources: [],
    ssh_key_injection: false,
    size: content.size,
    locations: [{
      url: `${baseUrl}/${path}`,
      kind: path.startsWith("vault/") ? "vault" : "primary",
      redirects_off_host: false,
    }],
    integrity: {
      digests: [
        { algorithm: "sha256", value: sha256, source: null },
        { algorithm: "sha512", value: sha512, source: null },
      ],
      signatures: [],
      http: { last_modified: new Date(PUBLISHED_AT).toUTCString(), etag: entityTag(sha256) },
    },
  };
}

const TEXT: JsonObject = { type: "string" };
const FLAG: JsonObject = { type: "boolean" };

function nullable(schema: JsonObject): JsonObject {
  // OpenAPI 3.0 ignores keys beside a $ref.
  return "$ref" in schema ? { nullable: true, allOf: [schema] } : { ...schema, nullable: true };
}

function list(items: JsonObject): JsonObject {
  return { type: "array", items };
}

function listOrEmpty(items: JsonObject): JsonObject {
  return { ...list(items), default: [] };
}

function object(required: Record<string, JsonObject>, optional: Record<string, JsonObject> = {}) {
  const names = Object.keys(required);
  return {
    type: "object",
    properties: { ...required, ...optional },
    ...(names.length === 0 ? {} : { required: names }),
  };
}

/** A closed list of values. */
function closed(...values: string[]): JsonObject {
  return { type: "string", enum: values };
}

/** Known values, with any other text accepted too. */
function open(...values: string[]): JsonObject {
  return {
    oneOf: [closed(...values), { type: "string", pattern: `^(?!(?:${values.join("|")})$)` }],
  };
}

const DISTRO_REQUIRED = { id: TEXT, os_family: schemaRef("OsFamily") };
const DISTRO_OPTIONAL = { name: nullable(TEXT), homepage: nullable(TEXT) };
const DATE: JsonObject = { type: "string", format: "date" };
const DATE_TIME: JsonObject = { type: "string", format: "date-time" };

const SCHEMAS: JsonObject = {
  Alias: open("latest", "lts", "dev"),
  ImageFormat: open("qcow2", "raw", "vmdk"),
  Compression: open("none", "gzip", "xz", "zstd", "bzip2"),
  ChecksumFormat: open("gnu", "bsd", "bare", "vendor_document"),
  SignatureKind: open("pgp_detached", "pgp_clearsigned"),
  OsFamily: closed("linux", "bsd", "illumos"),
  LocationKind: closed("primary", "vault", "mirror"),
  Firmware: closed("bios", "uefi"),
  DigestAlgorithm: closed("sha256", "sha512"),
  DistroSummary: object(DISTRO_REQUIRED, DISTRO_OPTIONAL),
  DistroList: object({ distros: list(schemaRef("DistroSummary")) }),
  Distro: object(
    { ...DISTRO_REQUIRED, releases: list(schemaRef("Release")) },
    { ...DISTRO_OPTIONAL, dev_channel: nullable(TEXT) },
  ),
  Release: object({ id: TEXT }, {
    title: nullable(TEXT),
    version: nullable(TEXT),
    eol_date: nullable(DATE),
    aliases: listOrEmpty(schemaRef("Alias")),
    osinfo: nullable(schemaRef("OsinfoRef")),
  }),
  BuildList: object({ distro: TEXT, release: TEXT, builds: list(schemaRef("Build")) }),
  Build: object({ build: TEXT, artifacts: list(schemaRef("Artifact")) }, {
    point_release: nullable(TEXT),
    published_at: nullable(DATE_TIME),
    first_seen: nullable(DATE_TIME),
    osinfo: nullable(schemaRef("OsinfoRef")),
  }),
  Artifact: object({
    arch: TEXT,
    format: schemaRef("ImageFormat"),
    compression: schemaRef("Compression"),
    locations: list(schemaRef("Location")),
  }, {
    variant: nullable(TEXT),
    default_variant: nullable(FLAG),
    size: { type: "integer", format: "uint64", minimum: 0, nullable: true },
    firmware: listOrEmpty(schemaRef("Firmware")),
    datasources: listOrEmpty(TEXT),
    ssh_key_injection: nullable(FLAG),
    integrity: nullable(schemaRef("Integrity")),
  }),
  Location: object({ url: TEXT }, {
    kind: nullable(schemaRef("LocationKind")),
    redirects_off_host: nullable(FLAG),
  }),
  Integrity: object({}, {
    digests: listOrEmpty(schemaRef("Digest")),
    http: nullable(schemaRef("HttpMetadata")),
    signatures: listOrEmpty(schemaRef("Signature")),
  }),
  Digest: object({ algorithm: schemaRef("DigestAlgorithm"), value: TEXT }, {
    source: nullable(schemaRef("ChecksumSource")),
  }),
  ChecksumSource: object({ format: schemaRef("ChecksumFormat"), url: TEXT }, {
    filename: nullable(TEXT),
  }),
  HttpMetadata: object({}, { etag: nullable(TEXT), last_modified: nullable(TEXT) }),
  Signature: object({ kind: schemaRef("SignatureKind"), signs: TEXT, url: TEXT }, {
    key_url: nullable(TEXT),
  }),
  OsinfoRef: object({ id: TEXT, short_id: TEXT }),
  Error: object({ message: TEXT, request_id: TEXT }, { error_code: TEXT }),
};

function get(operationId: string, path: string, answer: JsonObject): JsonObject {
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => (
    { name, in: "path", required: true, schema: TEXT }
  ));
  const body = (schema: JsonObject) => ({ content: { "application/json": { schema } } });
  const error = { description: "There is no answer.", ...body(schemaRef("Error")) };
  return {
    get: {
      operationId,
      parameters,
      responses: {
        "200": { description: "The document.", ...body(answer) },
        "4XX": error,
        "5XX": error,
      },
    },
  };
}

const DISTRO = "/v1/distros/{distro}";
const RELEASE = `${DISTRO}/releases/{release}`;
const OPERATIONS: readonly (readonly [path: string, operationId: string, answer: JsonObject])[] = [
  ["/v1/index.json", "distro_list", schemaRef("DistroList")],
  [`${DISTRO}/index.json`, "distro", schemaRef("Distro")],
  [`${RELEASE}/index.json`, "release_builds", schemaRef("BuildList")],
  [`${RELEASE}/archive.json`, "release_archive", schemaRef("BuildList")],
  [`${DISTRO}/aliases/latest.json`, "alias_latest", schemaRef("BuildList")],
  [`${DISTRO}/aliases/lts.json`, "alias_lts", schemaRef("BuildList")],
  [`${DISTRO}/aliases/dev.json`, "alias_dev", schemaRef("BuildList")],
  ["/v1/openapi.json", "openapi", { type: "object" }],
];

/** The description of the index, which is published with it, as by the real upstream. */
const SAMPLE_OPENAPI: JsonObject = {
  openapi: "3.0.3",
  info: { title: "Sample image index", version: "1.0.0" },
  paths: Object.fromEntries(
    OPERATIONS.map(([path, operationId, answer]) => [path, get(operationId, path, answer)]),
  ),
  components: { schemas: SCHEMAS },
};
