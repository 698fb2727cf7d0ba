// How a file that is downloaded is checked, for the description: what machines and media share.

import { CHECK_LEVELS } from "../../domain/index/check_level.ts";
import type { JsonObject } from "../../domain/json.ts";
import { MEDIA_COMPRESSIONS } from "../../domain/machine/media.ts";
import { objectOf } from "./operation.ts";

/** A digest as requests write it. */
export const DIGEST: JsonObject = {
  type: "string",
  pattern: "^(?:sha256:[0-9A-Fa-f]{64}|sha512:[0-9A-Fa-f]{128})$",
};

const URL_TEXT: JsonObject = { type: "string", format: "uri", maxLength: 2048 };
const COMPRESSION: JsonObject = {
  type: "string",
  enum: [...MEDIA_COMPRESSIONS],
  description: "What is to be undone once the file was verified.",
};

/** How much was done to make sure of a file. */
export const LEVEL: JsonObject = {
  type: "string",
  enum: [...CHECK_LEVELS],
  description: "How much was done to make sure of the file: `none`; it has the digests of the " +
    "`index`, or the one given; the `vendor`'s checksum document says the same; that document, or " +
    "the file, has a `signature` by a key of the operator.",
};

/** How a download is checked. */
export const CHECK_FIELDS: JsonObject = {
  check: { ...LEVEL, description: "The level that it must reach; the configured one otherwise." },
  allow_unverified: {
    type: "boolean",
    description: "Takes it also when it does not reach that level. A vendor that says something " +
      "else, or a digest that does not fit, is refused all the same.",
  },
};

/** A file of an address: with its digest, or with the word that it is taken without one. */
export const DOWNLOADED: readonly JsonObject[] = [
  objectOf("A file that is downloaded.", ["url", "digest"], {
    url: URL_TEXT,
    digest: DIGEST,
    compression: COMPRESSION,
    ...CHECK_FIELDS,
  }, "closed"),
  objectOf("A file whose digest nobody tells.", ["url", "allow_unverified"], {
    url: URL_TEXT,
    compression: COMPRESSION,
    ...CHECK_FIELDS,
    allow_unverified: { const: true },
  }, "closed"),
];
