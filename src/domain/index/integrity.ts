// What a vendor offers for checking one artifact: digests, what its server said of the file, and
// signatures. The index copies these; it does not vouch for them.

import { type Digest, DIGEST_ALGORITHMS, DIGEST_DIGITS, isDigestValue } from "../digest.ts";
import {
  asOneOf,
  inside,
  member,
  type Place,
  quote,
  readNonEmptyText,
  readNullable,
  readNullableText,
  readObject,
  readOptionalList,
  readText,
  refuse,
} from "./index_document.ts";
import type { JsonObject } from "../json.ts";

/** @see document 1, Integrity */
export interface Integrity {
  readonly digests: readonly PublishedDigest[];
  readonly http: { readonly etag: string | null; readonly last_modified: string | null } | null;
  readonly signatures: readonly Signature[];
}

/** @see document 1, Digest */
export interface PublishedDigest extends Digest {
  readonly source: {
    readonly format: string;
    readonly url: string;
    readonly filename: string | null;
  } | null;
}

/** @see document 1, Signature */
export interface Signature {
  readonly kind: string;
  readonly signs: string;
  readonly url: string;
  readonly key_url: string | null;
}

/** @throws {AgentError} `upstream` */
export function readIntegrity(object: JsonObject, place: Place): Integrity {
  return {
    digests: readOptionalList(object, "digests", place).map((item, index) => {
      const at = inside(inside(place, "digests"), index);
      return readDigest(readObject(item, at), at);
    }),
    http: readNullable(object, "http", place, (http, at) => ({
      etag: readNullableText(http, "etag", at),
      last_modified: readNullableText(http, "last_modified", at),
    })),
    signatures: readOptionalList(object, "signatures", place).map((item, index) => {
      const at = inside(inside(place, "signatures"), index);
      const signature = readObject(item, at);
      return {
        kind: readNonEmptyText(signature, "kind", at),
        signs: readText(signature, "signs", at),
        url: readText(signature, "url", at),
        key_url: readNullableText(signature, "key_url", at),
      };
    }),
  };
}

function readDigest(object: JsonObject, place: Place): PublishedDigest {
  const algorithm = asOneOf(
    member(object, "algorithm"),
    DIGEST_ALGORITHMS,
    inside(place, "algorithm"),
  );
  const value = readText(object, "value", place);
  if (!isDigestValue(algorithm, value)) {
    const wanted = `${DIGEST_DIGITS[algorithm]} digits of lower-case hex`;
    refuse(inside(place, "value"), `must be ${wanted}, found ${quote(value)}`);
  }
  const source = readNullable(object, "source", place, (from, at) => ({
    format: readNonEmptyText(from, "format", at),
    url: readText(from, "url", at),
    filename: readNullableText(from, "filename", at),
  }));
  return { algorithm, value, source };
}
