// The mirrored image index of document 1 in the OpenAPI document. Its schemas are those of the built-in description,
// converted from OpenAPI 3.0 to 3.1. The examples are documents of the sample index, cut down to one entry of each
// kind.

import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { INDEX_SCHEMAS } from "../routes/index/openapi.ts";
import { refusals } from "./errors.ts";
import { schemaRef, TEXT } from "../../domain/description/answer.ts";
import { CONDITIONS, emptyAnswer, inPath, jsonAnswer, type OpenapiPart } from "./operation.ts";

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
