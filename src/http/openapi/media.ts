// The verified files of hosts, the media library and its uploads in the OpenAPI document.

import {
  listOf,
  schemaRef,
  type ShapeOf,
  shapeRef,
  TEXT,
} from "../../domain/description/answer.ts";
import type { JsonObject } from "../../domain/json.ts";
import { MEDIA_HOST_FIELDS } from "../request/forwarding.ts";
import { MEDIUM, MEDIUM_STARTED } from "../routes/media/media.ts";
import {
  LIBRARY,
  LIBRARY_FILE,
  LIBRARY_QUERY_FIELDS,
  LIBRARY_REMOVAL_FIELDS,
  MEDIA_FOLDER,
  REMOVED_MEDIUM,
  UNFINISHED_UPLOAD,
  UPLOAD_QUERY_FIELDS,
} from "../routes/media/library.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import { HOST_UUID } from "./hosts.ts";
import { JOB_UUID } from "./schemas.ts";
import {
  emptyAnswer,
  headerRef,
  inPath,
  jsonAnswer,
  jsonBody,
  type OpenapiPart,
  parameterRef,
  queryParameters,
} from "./operation.ts";

/** The digest of the examples. */
export const MEDIUM_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

const EXAMPLE: ShapeOf<typeof MEDIUM> = {
  digest: `sha256:${MEDIUM_SHA256}`,
  name: "zonewright-sample-2.0-20261101-installer-x86_64.iso",
  path: `/var/lib/zonewright/media/sha256-${MEDIUM_SHA256}/zonewright-sample.iso`,
  size: 1048576,
  source: "artifact",
  origin: "https://images.example.com/zonewright-sample.iso",
  label: "zonewright-sample 2.0 20261101 installer x86_64 iso",
  level: "index",
  created_at: "2026-11-20T12:00:00.000Z",
  last_used_at: "2026-11-20T12:00:00.000Z",
  verified_at: "2026-11-20T12:00:00.000Z",
  used_by: [],
};

const SCHEMAS: JsonObject = { MediumStarted: MEDIUM_STARTED, Medium: MEDIUM };
const SHOWN = shapeRef("Medium", MEDIUM);

const REQUESTS: Record<string, JsonObject> = {
  artifact: {
    artifact: { distro: "zonewright-sample", release: "latest", format: "iso" },
    check: "index",
  },
  url: {
    url: "https://images.example.com/disk.raw.xz",
    digest: `sha256:${MEDIUM_SHA256}`,
    compression: "xz",
  },
  path: { path: "/media/installer.iso" },
};

/** The parameter that names another host. */
const OF_HOST: JsonObject[] = queryParameters(MEDIA_HOST_FIELDS, { host: HOST_UUID });

const STARTED: ShapeOf<typeof MEDIUM_STARTED> = { job_uuid: JOB_UUID };
const JOB_STORED = jsonAnswer(
  "The job was stored.",
  shapeRef("MediumStarted", MEDIUM_STARTED),
  STARTED,
  ["Location"],
);

/** Files that were downloaded, or found in a folder, and verified. */
export const MEDIA_FILES: OpenapiPart = {
  tag: {
    name: "Media",
    description: "Verified files of a host, identified by digest. A job of the built-in workflow " +
      "`fetch-medium` fetches one and reports its progress.",
  },
  parameters: {
    MediumDigest: inPath(
      "digest",
      "`sha256:` and the hex, or the hex alone.",
      TEXT,
      `sha256:${MEDIUM_SHA256}`,
    ),
  },
  schemas: SCHEMAS,
  paths: {
    "/agent/v1/media": {
      get: {
        operationId: "media_list",
        summary: "Every verified file, most recently used first",
        parameters: OF_HOST,
        responses: {
          "200": jsonAnswer("The files.", listOf(SHOWN), [EXAMPLE]),
          ...refusals("404", "409", "502"),
        },
      },
      post: {
        operationId: "medium_fetch",
        summary: "Fetch a file and verify it",
        description:
          "Answered once the job is stored. An equal request joins the unfinished job. The job's " +
          "result is the medium.",
        parameters: OF_HOST,
        requestBody: jsonBody("The file.", schemaRef("MediumRequest"), REQUESTS),
        responses: {
          "202": JOB_STORED,
          ...refusals("404", ...BODY_REFUSALS, "502", "507"),
        },
      },
    },
    "/agent/v1/media/{digest}": {
      get: {
        operationId: "medium_get",
        summary: "Get a verified file",
        parameters: [parameterRef("MediumDigest"), ...OF_HOST],
        responses: {
          "200": jsonAnswer("The file.", SHOWN, EXAMPLE),
          ...refusals("404", "409", "502"),
        },
      },
      delete: {
        operationId: "medium_remove",
        summary: "Remove a file from the cache or from the upload folder",
        description:
          "403 for a file of the operator's media folders; 409 while an unfinished job uses the " +
          "file.",
        parameters: [parameterRef("MediumDigest"), ...OF_HOST],
        responses: {
          "204": emptyAnswer("The file was removed."),
          ...refusals("404", "409", "502", "507"),
        },
      },
    },
    "/agent/v1/media/{digest}/verify": {
      post: {
        operationId: "medium_verify",
        summary: "Verify a file again",
        description:
          "If the file is damaged, the job fails and the file is removed from the cache.",
        parameters: [parameterRef("MediumDigest"), ...OF_HOST],
        requestBody: jsonBody(
          "An empty object.",
          schemaRef("MediumVerification"),
          { empty: {} },
        ),
        responses: {
          "202": JOB_STORED,
          ...refusals("404", ...BODY_REFUSALS, "502", "507"),
        },
      },
    },
  },
};

const NAME = "installer-13.iso";
/** The content of the example upload, and the header fields that describe it. */
const BYTES = "The bytes of the file.";
const SHA256 = "67d9473094910373bd50e381e491edbe1be97e35295665cccfc31c53b2e4690f";
const SHA256_BASE64 = "Z9lHMJSRA3O9UOOB5JHtvhvpfjUpVmXMz8McU7LkaQ8=";

const FOLDER = "/var/lib/zonewright/uploads";
const FILE = {
  name: NAME,
  place: "upload",
  folder: FOLDER,
  path: `${FOLDER}/${NAME}`,
  size: BYTES.length,
  modified_at: "2026-11-20T12:00:00.000Z",
  kind: "iso",
  boot_record: true,
  problem: null,
  digest: `sha256:${SHA256}`,
  level: "index",
  used_by: [],
} satisfies ShapeOf<typeof LIBRARY_FILE>;
const UNFINISHED = {
  name: NAME,
  offset: 1048576,
  total: 734003200,
  digests: [`sha256:${SHA256}`],
} satisfies ShapeOf<typeof UNFINISHED_UPLOAD>;
const REMOVED = {
  name: NAME,
  removed: "uploaded file",
  path: `${FOLDER}/${NAME}`,
} satisfies ShapeOf<typeof REMOVED_MEDIUM>;

const LIBRARY_SCHEMAS: JsonObject = {
  MediaLibrary: LIBRARY,
  MediaFolder: MEDIA_FOLDER,
  LibraryFile: LIBRARY_FILE,
  UnfinishedUpload: UNFINISHED_UPLOAD,
  RemovedMedium: REMOVED_MEDIUM,
};

const UPLOAD_HEADERS = ["Upload-Offset", "Upload-Complete"];

function header(name: string, description: string, example: string): JsonObject {
  return { name, in: "header", description, schema: TEXT, example };
}

const UPLOAD: JsonObject = {
  operationId: "media_upload",
  summary: "Upload a file, whole or in parts one after another",
  description: "The body is the file, or with `Content-Range` a part that begins at the " +
    "`Upload-Offset` of `HEAD`; any other place is refused with 409 and the right " +
    "`Upload-Offset`. A part is answered with 202, the last one with 201, or 200 if it " +
    "replaced a file. `Content-Range: bytes */TOTAL` without a body ends an upload whose " +
    "bytes have all arrived. An interrupted upload is kept for a day. Only one request at " +
    "a time may write a name. 409 if the name is taken, 403 if it is a file of the " +
    "operator.",
  parameters: [
    parameterRef("MediumName"),
    header(
      "Content-Range",
      "`bytes FIRST-LAST/TOTAL`: which part of the file the body is.",
      `bytes 0-${BYTES.length - 1}/${BYTES.length}`,
    ),
    header(
      "Repr-Digest",
      "Digests of the whole file (RFC 9530), `sha-256` and `sha-512`; the older field " +
        "`Digest` is read too. A file with another digest is discarded and refused with 400. " +
        "Without a digest, the SHA-256 is computed and shown.",
      `sha-256=:${SHA256_BASE64}:`,
    ),
    ...queryParameters(UPLOAD_QUERY_FIELDS, { replace: true }),
  ],
  requestBody: {
    description: "The bytes; any content type but a form.",
    required: true,
    content: { "application/octet-stream": { schema: TEXT, example: BYTES } },
  },
  responses: {
    "200": jsonAnswer("The file, which replaced another.", schemaRef("LibraryFile"), FILE, [
      "Location",
      ...UPLOAD_HEADERS,
    ]),
    "201": jsonAnswer("The complete file.", schemaRef("LibraryFile"), FILE, [
      "Location",
      ...UPLOAD_HEADERS,
    ]),
    "202": jsonAnswer(
      "The progress of the upload.",
      schemaRef("UnfinishedUpload"),
      UNFINISHED,
      UPLOAD_HEADERS,
    ),
    ...refusals("408", "409", "413", "415", "507"),
  },
};

/** Listing and uploading the files that machines boot from. */
export const MEDIA_LIBRARY: OpenapiPart = {
  tag: {
    name: "Media library",
    description:
      "The files that machines may boot from: those of all media folders, those that were " +
      "uploaded, and the cache. Unfinished uploads are not listed.",
  },
  parameters: {
    MediumName: inPath(
      "name",
      "Letters, digits, dots, dashes and underscores, ending in `.iso`, `.img` or `.raw`.",
      TEXT,
      NAME,
    ),
  },
  schemas: LIBRARY_SCHEMAS,
  paths: {
    "/agent/v1/media/library": {
      get: {
        operationId: "media_library",
        summary: "The files of all media folders and the cache",
        parameters: [
          ...queryParameters(LIBRARY_QUERY_FIELDS, { limit: 100, offset: 0 }),
          ...OF_HOST,
        ],
        responses: {
          "200": jsonAnswer("The library.", schemaRef("MediaLibrary"), {
            folders: [{ path: FOLDER, place: "upload", problem: null }],
            files: [FILE],
            truncated: false,
            cache: { bytes: 1048576, bytes_max: 68719476736 },
          }, ["X-Count"]),
          ...refusals("404", "409", "502"),
        },
      },
    },
    "/agent/v1/media/library/{name}": {
      get: {
        operationId: "media_library_file",
        summary: "Get a file, or the progress of its upload",
        description:
          "HEAD answers the same without a body; the next part begins at `Upload-Offset`.",
        parameters: [parameterRef("MediumName"), ...OF_HOST],
        responses: {
          "200": {
            description: "The file, or its unfinished upload.",
            headers: Object.fromEntries(
              [...UPLOAD_HEADERS, "X-Request-Id"].map((name) => [name, headerRef(name)]),
            ),
            content: {
              "application/json": {
                schema: { anyOf: [schemaRef("LibraryFile"), schemaRef("UnfinishedUpload")] },
                examples: { file: { value: FILE }, unfinished: { value: UNFINISHED } },
              },
            },
          },
          ...refusals("404", "409", "502"),
        },
      },
      put: UPLOAD,
      delete: {
        operationId: "media_library_remove",
        summary: "Remove an uploaded file, or an unfinished upload",
        description:
          "409 while an unfinished job uses it or a request writes it; 403 for a file of the " +
          "operator.",
        parameters: [
          parameterRef("MediumName"),
          ...queryParameters(LIBRARY_REMOVAL_FIELDS, { unfinished: false }),
          ...OF_HOST,
        ],
        responses: {
          "200": jsonAnswer("The file was removed.", schemaRef("RemovedMedium"), REMOVED),
          ...refusals("404", "409", "502", "507"),
        },
      },
    },
  },
};
