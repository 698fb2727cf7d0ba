// The mirror of the image index in the OpenAPI document: how fresh it is, syncing it, and the search.

import type { JsonObject } from "../../domain/json.ts";
import {
  INDEX_PREVIEW,
  INDEX_PROGRESS,
  INDEX_STATUS,
  INDEX_SYNC,
  INDEX_SYNCING,
} from "../routes/index/mirror.ts";
import { IMAGE_PAGE, IMAGE_QUERY_FIELDS, LISTED_IMAGE } from "../routes/index/images.ts";
import { refusals } from "./errors.ts";
import { ARTIFACT } from "./index_tree.ts";
import { schemaRef, type ShapeOf, shapeRef } from "../../domain/description/answer.ts";
import { jsonAnswer, jsonBody, type OpenapiPart, queryParameters } from "./operation.ts";

const SYNC: ShapeOf<typeof INDEX_SYNC> = {
  started_at: "2026-11-20T12:00:00.000Z",
  finished_at: "2026-11-20T12:00:01.250Z",
  upstream: "https://index.example.com",
  outcome: "complete",
  added: 12,
  changed: 0,
  removed: 0,
  unchanged: 0,
  problems: [],
};

const SCHEMAS: JsonObject = {
  IndexStatus: INDEX_STATUS,
  IndexProgress: INDEX_PROGRESS,
  IndexSync: INDEX_SYNC,
  IndexPreview: INDEX_PREVIEW,
  IndexSyncing: INDEX_SYNCING,
};

/** The mirror as its operator sees it. */
export const MIRROR: OpenapiPart = {
  tag: { name: "Mirror", description: "The agent's copy of the image index." },
  parameters: {},
  schemas: SCHEMAS,
  paths: {
    "/agent/v1/index": {
      get: {
        operationId: "index_status",
        summary: "The state of the mirror",
        responses: {
          "200": jsonAnswer("Its state.", schemaRef("IndexStatus"), {
            upstream: "https://index.example.com",
            syncing: false,
            progress: null,
            last_sync: { ...SYNC, compared_at: "2026-11-20T12:00:01.250Z" },
            compared_at: "2026-11-20T12:00:01.250Z",
            age_seconds: 300,
            documents: 12,
          }),
          ...refusals(),
        },
      },
    },
    "/agent/v1/index/sync": {
      post: {
        operationId: "index_sync",
        summary: "Sync the mirror with its upstream",
        description:
          "One sync runs at a time; a second request joins it. A failed sync is reported by " +
          "`outcome` and `problems`, not by the status. Without an upstream: 409.",
        requestBody: jsonBody(
          "Without any, the sync is started and the call returns.",
          schemaRef("SyncRequest"),
          { empty: {}, preview: { dry_run: true } },
        ),
        responses: {
          "200": jsonAnswer(
            "With `wait`: what it did. With `dry_run`: what it would do.",
            { oneOf: [schemaRef("IndexSync"), schemaRef("IndexPreview")] },
            SYNC,
          ),
          "202": jsonAnswer("The sync is running.", shapeRef("IndexSyncing", INDEX_SYNCING), {
            syncing: true,
          }),
          ...refusals("408", "409", "413", "415", "507"),
        },
      },
    },
  },
};

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

const IMAGE: ShapeOf<typeof LISTED_IMAGE> = {
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

const IMAGE_SCHEMAS: JsonObject = { ImagePage: IMAGE_PAGE, ListedImage: LISTED_IMAGE };

/** The routes under `/agent/v1/images`, and what they refer to. */
export const IMAGES: OpenapiPart = {
  tag: { name: "Images", description: "A search over every artifact of the image index." },
  parameters: {},
  schemas: IMAGE_SCHEMAS,
  paths: {
    "/agent/v1/images": {
      get: {
        operationId: "image_search",
        summary: "Artifacts of the index, in the order of the index",
        description:
          "Newest first within a release. An artifact must match all filters; without filters, " +
          "every artifact is listed. If a sync happens between two pages, the later one may " +
          "repeat or miss some.",
        parameters: FILTERS,
        responses: {
          "200": jsonAnswer("The matching artifacts.", shapeRef("ImagePage", IMAGE_PAGE), {
            images: [IMAGE],
            next: null,
          }, ["X-Count"]),
          ...refusals("409"),
        },
      },
    },
  },
};
