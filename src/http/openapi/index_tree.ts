// The mirrored image index of document 1 in the OpenAPI document. Its schemas are those of the built-in description,
// converted from OpenAPI 3.0 to 3.1. Open enumerations are a choice between the known words and any other text;
// closed ones are plain enumerations. No schema forbids further fields: clients ignore fields they do not know. The
// examples are documents of the sample index, cut down to one entry of each kind.

import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { refusals } from "./errors.ts";
import { listOf, schemaRef, TEXT } from "../../domain/description/answer.ts";
import { CONDITIONS, emptyAnswer, inPath, jsonAnswer, type OpenapiPart } from "./operation.ts";

const NULLABLE_TEXT: JsonObject = { type: "string", nullable: true };
const NULLABLE_BOOLEAN: JsonObject = { type: "boolean", nullable: true };
const DATE_TIME: JsonObject = { type: "string", format: "date-time", nullable: true };

function nullable(name: string): JsonObject {
  return { nullable: true, allOf: [schemaRef(name)] };
}

/** A list, empty by default. */
function defaultedList(items: JsonObject): JsonObject {
  return { ...listOf(items), default: [] };
}

function closed(...words: string[]): JsonObject {
  return { type: "string", enum: words };
}

function open(description: string, ...words: string[]): JsonObject {
  return {
    description,
    oneOf: [
      { type: "string", enum: words },
      { type: "string", pattern: `^(?!(?:${words.join("|")})$)` },
    ],
  };
}

function object(
  description: string,
  required: readonly string[],
  properties: JsonObject,
): JsonObject {
  return {
    type: "object",
    description,
    ...(required.length > 0 ? { required: [...required] } : {}),
    properties,
  };
}

const SUMMARY_FIELDS: JsonObject = {
  id: {
    type: "string",
    description: "Short name of the distro, which is also its directory name.",
  },
  name: { type: "string", nullable: true, description: "Name for people." },
  homepage: NULLABLE_TEXT,
  os_family: schemaRef("OsFamily"),
};

const WORDS: JsonObject = {
  OsFamily: closed("linux", "bsd", "illumos"),
  LocationKind: closed("primary", "vault", "mirror"),
  DigestAlgorithm: closed("sha256", "sha512"),
  Firmware: closed("bios", "uefi"),
  Alias: open("A name by which a release can be found.", "latest", "lts", "dev"),
  ImageFormat: open("Disk image format after decompression.", "qcow2", "raw", "vmdk"),
  Compression: open("Compression as downloaded.", "none", "gzip", "xz", "zstd", "bzip2"),
  ChecksumFormat: open("Layout of a checksum file.", "gnu", "bsd", "bare", "vendor_document"),
  SignatureKind: open("Kind of a signature.", "pgp_detached", "pgp_clearsigned"),
};

const TREE: JsonObject = {
  DistroSummary: object("One distro of the index.", ["id", "os_family"], SUMMARY_FIELDS),
  DistroList: object("Every distro of the index.", ["distros"], {
    distros: listOf(schemaRef("DistroSummary")),
  }),
  Distro: object("A distro and its releases.", ["id", "os_family", "releases"], {
    ...SUMMARY_FIELDS,
    dev_channel: {
      type: "string",
      nullable: true,
      description: "The vendor's name for the channel that the dev alias follows.",
    },
    releases: { type: "array", items: schemaRef("Release"), description: "Newest first." },
  }),
  Release: object("A vendor's major release or series.", ["id"], {
    id: TEXT,
    title: NULLABLE_TEXT,
    version: NULLABLE_TEXT,
    eol_date: { type: "string", format: "date", nullable: true },
    aliases: defaultedList(schemaRef("Alias")),
    osinfo: nullable("OsinfoRef"),
  }),
  BuildList: object("Builds of one release.", ["distro", "release", "builds"], {
    distro: TEXT,
    release: TEXT,
    builds: { type: "array", items: schemaRef("Build"), description: "Newest first." },
  }),
  Build: object("One build and its files.", ["build", "artifacts"], {
    build: { type: "string", description: "The vendor's id or serial of the build." },
    artifacts: listOf(schemaRef("Artifact")),
    point_release: NULLABLE_TEXT,
    published_at: DATE_TIME,
    first_seen: DATE_TIME,
    osinfo: nullable("OsinfoRef"),
  }),
  OsinfoRef: object("Entry of the OS information database.", ["id", "short_id"], {
    id: TEXT,
    short_id: TEXT,
  }),
};

const FILES: JsonObject = {
  Artifact: object(
    "One downloadable file.",
    ["arch", "format", "compression", "locations"],
    {
      arch: TEXT,
      format: schemaRef("ImageFormat"),
      compression: schemaRef("Compression"),
      locations: listOf(schemaRef("Location")),
      variant: NULLABLE_TEXT,
      default_variant: NULLABLE_BOOLEAN,
      size: {
        type: "integer",
        format: "uint64",
        minimum: 0,
        nullable: true,
        description: "Bytes as downloaded.",
      },
      firmware: defaultedList(schemaRef("Firmware")),
      datasources: defaultedList(TEXT),
      ssh_key_injection: NULLABLE_BOOLEAN,
      integrity: nullable("Integrity"),
    },
  ),
  Location: object("Where a file can be downloaded.", ["url"], {
    url: TEXT,
    kind: nullable("LocationKind"),
    redirects_off_host: NULLABLE_BOOLEAN,
  }),
  Integrity: object("What the vendor provides for verifying a download.", [], {
    digests: defaultedList(schemaRef("Digest")),
    http: nullable("HttpMetadata"),
    signatures: defaultedList(schemaRef("Signature")),
  }),
  Digest: object("A hash of the file as downloaded.", ["algorithm", "value"], {
    algorithm: schemaRef("DigestAlgorithm"),
    value: { type: "string", description: "Lower-case hex." },
    source: nullable("ChecksumSource"),
  }),
  ChecksumSource: object("Where the vendor publishes a hash.", ["format", "url"], {
    format: schemaRef("ChecksumFormat"),
    url: TEXT,
    filename: NULLABLE_TEXT,
  }),
  HttpMetadata: object("Header fields of the vendor's server for the file, unchanged.", [], {
    etag: NULLABLE_TEXT,
    last_modified: NULLABLE_TEXT,
  }),
  Signature: object("A vendor's signature.", ["kind", "signs", "url"], {
    kind: schemaRef("SignatureKind"),
    signs: { type: "string", description: "Address of the signed document." },
    url: TEXT,
    key_url: NULLABLE_TEXT,
  }),
  Error: object("Why a request failed.", ["message", "request_id"], {
    message: TEXT,
    request_id: TEXT,
    error_code: TEXT,
  }),
};

/** Every schema of document 1, by name. */
export const INDEX_SCHEMAS: JsonObject = { ...WORDS, ...TREE, ...FILES };

const PUBLISHED_AT = "2026-11-01T00:00:00Z";

const SUMMARY: JsonObject = {
  id: "zonewright-sample",
  name: "zonewright sample",
  os_family: "linux",
  homepage: null,
};

const DISTROS: JsonObject = { distros: [SUMMARY] };

const DISTRO: JsonObject = {
  ...SUMMARY,
  dev_channel: null,
  releases: [{
    id: "2.0",
    version: "2.0",
    title: "zonewright sample 2.0",
    aliases: ["latest", "lts"],
    eol_date: null,
    osinfo: null,
  }],
};

/** An Artifact: an image from which a machine can be installed. */
export const ARTIFACT: JsonObject = {
  arch: "x86_64",
  format: "iso",
  compression: "none",
  locations: [{
    url: "https://images.example.com/zonewright-sample-2.0.iso",
    kind: "primary",
    redirects_off_host: false,
  }],
  variant: "installer",
  default_variant: true,
  size: 8_388_608,
  firmware: ["bios"],
  datasources: [],
  ssh_key_injection: false,
  integrity: {
    digests: [{
      algorithm: "sha256",
      value: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
      source: null,
    }],
    http: { etag: null, last_modified: null },
    signatures: [],
  },
};

/** An example of the list of builds of one release. */
const BUILDS: JsonObject = {
  distro: "zonewright-sample",
  release: "2.0",
  builds: [{
    build: "20261101",
    point_release: "2.0",
    published_at: PUBLISHED_AT,
    first_seen: PUBLISHED_AT,
    osinfo: null,
    artifacts: [ARTIFACT],
  }],
};

/**
 * Converts a schema from OpenAPI 3.0 to 3.1, where null is a type instead of `nullable`.
 */
function withNullType(schema: JsonValue): JsonValue {
  if (Array.isArray(schema)) return schema.map(withNullType);
  if (!isJsonObject(schema)) return schema;
  const { nullable, ...rest } = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, withNullType(value)]),
  );
  if (nullable !== true) return rest;
  if (typeof rest.type === "string") return { ...rest, type: [rest.type, "null"] };
  return { anyOf: [rest, { type: "null" }] };
}

/** Every schema of document 1. Errors have the agent's own shape, which includes the document's fields. */
function indexSchemas(): JsonObject {
  const { Error: _, ...schemas } = INDEX_SCHEMAS;
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [name, withNullType(schema)]),
  );
}

interface IndexOperation {
  /** The name that document 1 gives the operation. */
  readonly operationId: string;
  readonly summary: string;
  readonly schema: JsonObject;
  readonly example: JsonValue;
  /** Examples of the parts of the path. */
  readonly distro?: string;
  readonly release?: string;
}

const HEADERS = ["ETag", "Last-Modified", "X-Index-Age"];

function read({ operationId, summary, schema, example, distro, release }: IndexOperation) {
  const parts = [
    ...(distro === undefined ? [] : [inPath("distro", "The distro's id.", TEXT, distro)]),
    ...(release === undefined ? [] : [inPath("release", "The release's id.", TEXT, release)]),
  ];
  return {
    get: {
      operationId,
      summary,
      parameters: [...parts, ...CONDITIONS],
      responses: {
        "200": jsonAnswer("The document as its publisher wrote it.", schema, example, HEADERS),
        "304": emptyAnswer("The caller already has it.", HEADERS),
        ...refusals("404", "412"),
      },
    },
  };
}

const LIST = schemaRef("DistroList");
const BUILD_LIST = schemaRef("BuildList");
const SAMPLE = "zonewright-sample";
const PREVIEW = "zonewright-preview";

/** The operations of the image index. @see document 1, Endpoints */
export const INDEX: OpenapiPart = {
  tag: {
    name: "Image index",
    description:
      "A read-only tree of distros, releases, builds and downloadable images, mirrored " +
      "from its upstream. The examples are those of the sample index of a development agent.",
  },
  parameters: {},
  schemas: indexSchemas(),
  paths: {
    "/v1/index.json": read({
      operationId: "distro_list",
      summary: "Every distro in the index",
      schema: LIST,
      example: DISTROS,
    }),
    "/v1/distros/{distro}/index.json": read({
      operationId: "distro",
      summary: "One distro and its releases, newest first",
      schema: schemaRef("Distro"),
      example: DISTRO,
      distro: SAMPLE,
    }),
    "/v1/distros/{distro}/releases/{release}/index.json": read({
      operationId: "release_builds",
      summary: "Current builds of a release, newest first",
      schema: BUILD_LIST,
      example: BUILDS,
      distro: SAMPLE,
      release: "2.0",
    }),
    "/v1/distros/{distro}/releases/{release}/archive.json": read({
      operationId: "release_archive",
      summary: "Builds that only the vendor's archive still has",
      schema: BUILD_LIST,
      example: { ...BUILDS, distro: PREVIEW, release: "2" },
      distro: PREVIEW,
      release: "2",
    }),
    "/v1/distros/{distro}/aliases/latest.json": read({
      operationId: "alias_latest",
      summary: "Builds of the newest generally available release",
      schema: BUILD_LIST,
      example: BUILDS,
      distro: SAMPLE,
    }),
    "/v1/distros/{distro}/aliases/lts.json": read({
      operationId: "alias_lts",
      summary: "Builds of the newest release with long-term support",
      schema: BUILD_LIST,
      example: BUILDS,
      distro: SAMPLE,
    }),
    "/v1/distros/{distro}/aliases/dev.json": read({
      operationId: "alias_dev",
      summary: "Builds of the vendor's development channel",
      schema: BUILD_LIST,
      example: { ...BUILDS, distro: PREVIEW, release: "3.0_preview" },
      distro: PREVIEW,
    }),
    "/v1/images.json": read({
      operationId: "images",
      summary: "Every image in one document, if the upstream has it",
      schema: { type: "object", additionalProperties: true },
      example: { images: [] },
    }),
    "/v1/openapi.json": read({
      operationId: "openapi",
      summary: "The upstream's own description of the index",
      schema: { type: "object", additionalProperties: true },
      example: { openapi: "3.0.3", info: { title: "Image index", version: "1.0.0" }, paths: {} },
    }),
  },
};
