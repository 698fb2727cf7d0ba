// The description of the index that the sample upstream publishes beside it, as the true one does.

import type { JsonObject } from "../../domain/json.ts";

const TEXT: JsonObject = { type: "string" };
const FLAG: JsonObject = { type: "boolean" };

function ref(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

function nullable(schema: JsonObject): JsonObject {
  // In OpenAPI 3.0 the keys beside a $ref are ignored.
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

/** A list of values to which none can be added. */
function closed(...values: string[]): JsonObject {
  return { type: "string", enum: values };
}

/** Known values; any other text is accepted too. */
function open(...values: string[]): JsonObject {
  return {
    oneOf: [closed(...values), { type: "string", pattern: `^(?!(?:${values.join("|")})$)` }],
  };
}

const DISTRO_REQUIRED = { id: TEXT, os_family: ref("OsFamily") };
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
  DistroList: object({ distros: list(ref("DistroSummary")) }),
  Distro: object(
    { ...DISTRO_REQUIRED, releases: list(ref("Release")) },
    { ...DISTRO_OPTIONAL, dev_channel: nullable(TEXT) },
  ),
  Release: object({ id: TEXT }, {
    title: nullable(TEXT),
    version: nullable(TEXT),
    eol_date: nullable(DATE),
    aliases: listOrEmpty(ref("Alias")),
    osinfo: nullable(ref("OsinfoRef")),
  }),
  BuildList: object({ distro: TEXT, release: TEXT, builds: list(ref("Build")) }),
  Build: object({ build: TEXT, artifacts: list(ref("Artifact")) }, {
    point_release: nullable(TEXT),
    published_at: nullable(DATE_TIME),
    first_seen: nullable(DATE_TIME),
    osinfo: nullable(ref("OsinfoRef")),
  }),
  Artifact: object({
    arch: TEXT,
    format: ref("ImageFormat"),
    compression: ref("Compression"),
    locations: list(ref("Location")),
  }, {
    variant: nullable(TEXT),
    default_variant: nullable(FLAG),
    size: { type: "integer", format: "uint64", minimum: 0, nullable: true },
    firmware: listOrEmpty(ref("Firmware")),
    datasources: listOrEmpty(TEXT),
    ssh_key_injection: nullable(FLAG),
    integrity: nullable(ref("Integrity")),
  }),
  Location: object({ url: TEXT }, {
    kind: nullable(ref("LocationKind")),
    redirects_off_host: nullable(FLAG),
  }),
  Integrity: object({}, {
    digests: listOrEmpty(ref("Digest")),
    http: nullable(ref("HttpMetadata")),
    signatures: listOrEmpty(ref("Signature")),
  }),
  Digest: object({ algorithm: ref("DigestAlgorithm"), value: TEXT }, {
    source: nullable(ref("ChecksumSource")),
  }),
  ChecksumSource: object({ format: ref("ChecksumFormat"), url: TEXT }, {
    filename: nullable(TEXT),
  }),
  HttpMetadata: object({}, { etag: nullable(TEXT), last_modified: nullable(TEXT) }),
  Signature: object({ kind: ref("SignatureKind"), signs: TEXT, url: TEXT }, {
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
  const error = { description: "There is no answer.", ...body(ref("Error")) };
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
  ["/v1/index.json", "distro_list", ref("DistroList")],
  [`${DISTRO}/index.json`, "distro", ref("Distro")],
  [`${RELEASE}/index.json`, "release_builds", ref("BuildList")],
  [`${RELEASE}/archive.json`, "release_archive", ref("BuildList")],
  [`${DISTRO}/aliases/latest.json`, "alias_latest", ref("BuildList")],
  [`${DISTRO}/aliases/lts.json`, "alias_lts", ref("BuildList")],
  [`${DISTRO}/aliases/dev.json`, "alias_dev", ref("BuildList")],
  ["/v1/openapi.json", "openapi", { type: "object" }],
];

/** An OpenAPI 3.0.3 description of the index. @see document 1 */
export const SAMPLE_OPENAPI: JsonObject = {
  openapi: "3.0.3",
  info: { title: "Sample image index", version: "1.0.0" },
  paths: Object.fromEntries(
    OPERATIONS.map(([path, operationId, answer]) => [path, get(operationId, path, answer)]),
  ),
  components: { schemas: SCHEMAS },
};
