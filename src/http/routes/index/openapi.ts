// The built-in description of the image index, served until the upstream's is mirrored.

import type { JsonObject } from "../../../domain/json.ts";
import { OPENAPI_PATH } from "../../../domain/index/index_document.ts";
import { sha256Hex } from "../../../domain/digest.ts";
import { serve, type ServedDocument } from "../../answer/served_document.ts";
import { INDEX_SCHEMAS } from "../../openapi/index_tree.ts";

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

const LIST: JsonObject = { $ref: "#/components/schemas/DistroList" };
const DISTRO: JsonObject = { $ref: "#/components/schemas/Distro" };
const BUILDS: JsonObject = { $ref: "#/components/schemas/BuildList" };
const ERROR: JsonObject = { $ref: "#/components/schemas/Error" };

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
        content: { "application/json": { schema: ERROR } },
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
