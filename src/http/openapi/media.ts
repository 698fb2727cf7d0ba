// The verified files of hosts in the OpenAPI document.

import { HOST_UUID } from "./hosts.ts";
import type { JsonObject } from "../../domain/json.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import { JOB_UUID } from "./job_schemas.ts";
import { MEDIA_HOST_FIELDS } from "../peers/forwarding.ts";
import { queryParameters } from "./requests.ts";
import {
  listOf,
  schemaRef,
  type ShapeOf,
  shapeRef,
  TEXT,
} from "../../domain/description/answer.ts";
import { MEDIUM, MEDIUM_STARTED } from "../routes/media.ts";
import {
  emptyAnswer,
  inPath,
  jsonAnswer,
  jsonBody,
  type OpenapiPart,
  parameterRef,
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
export const OF_HOST: JsonObject[] = queryParameters(MEDIA_HOST_FIELDS, { host: HOST_UUID });

const STARTED: ShapeOf<typeof MEDIUM_STARTED> = { job_uuid: JOB_UUID };
const started = (description: string) =>
  jsonAnswer(description, shapeRef("MediumStarted", MEDIUM_STARTED), STARTED, ["Location"]);

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
          "202": started("The job was stored."),
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
          "202": started("The job was stored."),
          ...refusals("404", ...BODY_REFUSALS, "502", "507"),
        },
      },
    },
  },
};
