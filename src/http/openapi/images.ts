// The part of the description about searching the image index.

import type { JsonObject } from "../../domain/json.ts";
import { SEARCH_WORDS_MAX } from "../../store/image_store.ts";
import { IMAGES_DEFAULT, IMAGES_MAX, VALUE_CHARS_MAX } from "../routes/images.ts";
import { refusals } from "./errors.ts";
import { ARTIFACT } from "./index_examples.ts";
import {
  inQuery,
  jsonAnswer,
  listOf,
  objectOf,
  type OpenapiPart,
  schemaRef,
  TEXT,
} from "./operation.ts";

const WORD: JsonObject = { type: "string", minLength: 1, maxLength: VALUE_CHARS_MAX };
const SWITCH: JsonObject = { type: "boolean" };
const PLACE: JsonObject = { type: "string", pattern: "^\\d{1,9}(?:\\.\\d{1,9}){4}$" };
const NULLABLE_TEXT: JsonObject = { type: ["string", "null"] };

const FILTERS: JsonObject[] = [
  inQuery("distro", "Only artifacts of the distro with this id.", WORD, "zonewright-sample"),
  inQuery(
    "release",
    "Only artifacts of the release that holds this alias, or else has this id.",
    WORD,
    "latest",
  ),
  inQuery("build", "Only artifacts of the build with this id.", WORD, "20261101"),
  inQuery(
    "arch",
    "Only artifacts of this architecture, in the words of the OS information database.",
    WORD,
    "x86_64",
  ),
  inQuery("format", "Only artifacts of this disk format.", WORD, "iso"),
  inQuery("variant", "Only artifacts of this variant.", WORD, "installer"),
  inQuery("compression", "Only artifacts that are compressed so as downloaded.", WORD, "none"),
  inQuery("datasource", "Only artifacts that support this datasource.", WORD, "nocloud"),
  inQuery(
    "firmware",
    "Only artifacts that are known to boot with it.",
    { type: "string", enum: ["bios", "uefi"] },
    "bios",
  ),
  inQuery(
    "q",
    `Words, ${SEARCH_WORDS_MAX} at the most, each of which occurs in a name of the distro, the release or ` +
      "the build, in what tells the artifact from others, or in its file name. Case does not count.",
    WORD,
    "sample iso",
  ),
  inQuery(
    "newest",
    "Whether the artifact is of the first current build of its release, the one that clients take.",
    SWITCH,
    true,
  ),
  inQuery(
    "default_variant",
    "Whether clients take the artifact where no variant is named: the vendor's default one, or, " +
      "where none of the build and architecture is marked so, one without a variant.",
    SWITCH,
    true,
  ),
  inQuery("archived", "Whether only the vendor's vault still has the artifact.", SWITCH, false),
  inQuery(
    "limit",
    "Artifacts of one page.",
    { type: "integer", minimum: 1, maximum: IMAGES_MAX, default: IMAGES_DEFAULT },
    10,
  ),
  inQuery("after", "The `next` of the page before.", PLACE, "0.0.0.0.0"),
];

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
  ImagePage: objectOf("A part of the artifacts that fit.", ["images", "next"], {
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

/** The search, as whoever looks for an image sees it. */
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
          "has to fit all that are given. A sync between two pages may move artifacts: the later " +
          "page then repeats some, or leaves some out.",
        parameters: FILTERS,
        responses: {
          "200": jsonAnswer("What fits.", schemaRef("ImagePage"), {
            images: [IMAGE],
            next: null,
          }, ["X-Count"]),
          ...refusals("409"),
        },
      },
    },
  },
};
