// The built-in description of the image index, served until the upstream's is mirrored. Open enumerations are a choice
// between the known words and any other text; closed ones are plain enumerations. No schema forbids further fields:
// clients ignore fields they do not know.

import { listOf, schemaRef, TEXT } from "../../../domain/description/answer.ts";
import type { JsonObject } from "../../../domain/json.ts";
import { OPENAPI_PATH } from "../../../domain/index/index_document.ts";
import { sha256Hex } from "../../../domain/digest.ts";
import { serve, type ServedDocument } from "../../answer/served_document.ts";

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

/** When this description was last changed; its `Last-Modified`. */
const WRITTEN_AT = "2026-11-20T00:00:00.000Z";

function operation(
  operationId: string,
  summary: string,
  schema: JsonObject,
  ...parameters: string[]
): JsonObject {
  return {
    get: {
      operationId,
      summary,
      ...(parameters.length === 0 ? {} : {
        parameters: parameters.map((name) => ({
          name,
          in: "path",
          required: true,
          schema: { type: "string" },
        })),
      }),
      responses: {
        "200": { description: "The document.", content: { "application/json": { schema } } },
        "4XX": { $ref: "#/components/responses/Error" },
        "5XX": { $ref: "#/components/responses/Error" },
      },
    },
  };
}

const LIST = schemaRef("DistroList");
const DISTRO = schemaRef("Distro");
const BUILDS = schemaRef("BuildList");

/** OpenAPI 3.0.3 description of the eight operations. @see document 1, Endpoints and Versioning */
export const INDEX_OPENAPI: JsonObject = {
  openapi: "3.0.3",
  info: {
    title: "Image index",
    description: "A read-only tree of distros, releases, builds and downloadable images.",
    version: "1.0.0",
  },
  paths: {
    "/v1/index.json": operation("distro_list", "Every distro in the index.", LIST),
    "/v1/distros/{distro}/index.json": operation(
      "distro",
      "One distro and its releases.",
      DISTRO,
      "distro",
    ),
    "/v1/distros/{distro}/releases/{release}/index.json": operation(
      "release_builds",
      "Current builds of a release.",
      BUILDS,
      "distro",
      "release",
    ),
    "/v1/distros/{distro}/releases/{release}/archive.json": operation(
      "release_archive",
      "Archived builds of a release.",
      BUILDS,
      "distro",
      "release",
    ),
    "/v1/distros/{distro}/aliases/latest.json": operation(
      "alias_latest",
      "Builds of the release that holds latest.",
      BUILDS,
      "distro",
    ),
    "/v1/distros/{distro}/aliases/lts.json": operation(
      "alias_lts",
      "Builds of the release that holds lts.",
      BUILDS,
      "distro",
    ),
    "/v1/distros/{distro}/aliases/dev.json": operation(
      "alias_dev",
      "Builds of the release that holds dev.",
      BUILDS,
      "distro",
    ),
    "/v1/openapi.json": operation("openapi", "This description.", { type: "object" }),
  },
  components: {
    schemas: INDEX_SCHEMAS,
    responses: {
      Error: {
        description: "Why the request failed.",
        content: { "application/json": { schema: schemaRef("Error") } },
      },
    },
  },
};

/** The description, ready to be served. */
export async function builtinOpenapi(): Promise<ServedDocument> {
  const body = new TextEncoder().encode(JSON.stringify(INDEX_OPENAPI, null, 2) + "\n");
  return serve({
    path: OPENAPI_PATH,
    body,
    sha256: await sha256Hex(body),
    etag: null,
    last_modified: null,
    fetched_at: WRITTEN_AT,
  });
}
