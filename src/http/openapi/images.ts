// The search of the image index in the OpenAPI document.

import type { JsonObject } from "../../domain/json.ts";
import { IMAGE_QUERY_FIELDS } from "../routes/images.ts";
import { refusals } from "./errors.ts";
import { ARTIFACT } from "./index_tree.ts";
import {
  jsonAnswer,
  listOf,
  NULLABLE_TEXT,
  objectOf,
  type OpenapiPart,
  schemaRef,
  TEXT,
} from "./operation.ts";
import { queryParameters } from "./requests.ts";

const FILTERS: JsonObject[] = queryParameters(IMAGE_QUERY_FIELDS, {
  distro: "zonewright-sample",
  release: "latest",
  build: "20261101",
  arch: "x86_64",
  format: "iso",
  variant: "installer",
  compression: "none",
  datasource: "nocloud",
  firmware: "bios",
  q: "sample iso",
  newest: true,
  default_variant: true,
  archived: false,
  limit: 10,
  after: "0.0.0.0.0",
});

const IMAGE: JsonObject = {
  distro: "zonewright-sample",
  release: "2.0",
  aliases: ["latest", "lts"],
  build: "20261101",
  point_release: "2.0",
  published_at: "2026-11-01T00:00:00Z",
  archived: false,
  url: "https://images.example.com/zonewright-sample-2.0.iso",
  artifact: ARTIFACT,
};

const SCHEMAS: JsonObject = {
  ImagePage: objectOf("One page of the matching artifacts.", ["images", "next"], {
    images: listOf(schemaRef("ListedImage")),
    next: {
      type: ["string", "null"],
      description: "`after` of the next page; null on the last one.",
    },
  }),
  ListedImage: objectOf("An artifact with its place in the index.", Object.keys(IMAGE), {
    distro: TEXT,
    release: { type: "string", description: "The release's id." },
    aliases: { ...listOf(TEXT), description: "What the release is called besides." },
    build: TEXT,
    point_release: NULLABLE_TEXT,
    published_at: { ...NULLABLE_TEXT, description: "As the vendor wrote it." },
    archived: { type: "boolean", description: "Whether only the vendor's vault still has it." },
    url: { ...NULLABLE_TEXT, description: "Its primary location, or else the first one." },
    artifact: schemaRef("Artifact"),
  }),
};

/** The routes under `/agent/v1/images`, and what they refer to. */
export const IMAGES: OpenapiPart = {
  tag: { name: "Images", description: "A search over every artifact of the image index." },
  parameters: {},
  schemas: SCHEMAS,
  paths: {
    "/agent/v1/images": {
      get: {
        operationId: "image_search",
        summary: "Artifacts of the index, in its own order",
        description:
          "Newest first within a release. Without parameters every artifact is listed. An artifact " +
          "must match all filters. A sync between two pages may move artifacts: the later " +
          "page then repeats some, or leaves some out.",
        parameters: FILTERS,
        responses: {
          "200": jsonAnswer("The matching artifacts.", schemaRef("ImagePage"), {
            images: [IMAGE],
            next: null,
          }, ["X-Count"]),
          ...refusals("409"),
        },
      },
    },
  },
};
