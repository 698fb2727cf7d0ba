// /agent/v1/media/library: the files by name, and the upload of more. An upload is a PUT of the whole file, or
// of parts one after another; HEAD says where to continue.

import {
  COUNT,
  FLAG,
  listOf,
  NULLABLE_COUNT,
  NULLABLE_INSTANT,
  NULLABLE_TEXT,
  orNull,
  type ShapeOf,
  shapeRef,
  TEXT,
  UUID,
  whole,
  wordOf,
} from "../../../domain/description/answer.ts";
import { type Context, Hono } from "hono";
import {
  CHECK_LEVELS,
  type Digest,
  type DigestAlgorithm,
  digestText,
  isDigestValue,
} from "../../../domain/digest.ts";
import { about, flag, integer } from "../../../domain/description/value.ts";
import { bytesOfBase64, hexOf } from "../../../domain/bytes.ts";
import { AgentError, invalidArgument } from "../../../domain/error.ts";
import { parseMediaName } from "../../../domain/machine/media.ts";
import type { HttpEnv } from "../../served_agent.ts";
import { contentLengthOf, UPLOAD_PATH } from "../../request/body.ts";
import { PASSED_OVER, readQuery } from "../../request/query.ts";
import { type MediaLibrary, REMOVED_KINDS } from "../../../mirror/media/library.ts";
import type { LibraryFile } from "../../../mirror/media/library_files.ts";
import type { UploadRange } from "../../../mirror/media/uploads.ts";
import type { UnfinishedUpload } from "../../../mirror/media/partial.ts";

/** Files per page: the first bytes of each are read. */
const PAGE_FILES_MAX = 1000;
/** Characters of a header or a name that an error shows. */
const TEXT_CHARS_MAX = 100;

/** The query of GET /agent/v1/media/library. */
export const LIBRARY_QUERY_FIELDS = {
  limit: about("Files on this page.", integer(1, PAGE_FILES_MAX), { default: PAGE_FILES_MAX }),
  offset: about("Files to skip.", PASSED_OVER, { default: 0 }),
};

/** The query of a PUT of a file. */
export const UPLOAD_QUERY_FIELDS = {
  replace: about("Replaces an uploaded file that no unfinished job uses.", flag, {
    default: false,
  }),
};

/** The query of a removal. */
export const LIBRARY_REMOVAL_FIELDS = {
  unfinished: about("Removes only the unfinished upload of this name.", flag, { default: false }),
};

/** A folder whose files are listed. */
export const MEDIA_FOLDER = whole("A folder of media.", {
  path: TEXT,
  place: wordOf(["folder", "upload"]),
  problem: { ...NULLABLE_TEXT, description: "Why none of its files are listed." },
});

/** An entry of `GET /agent/v1/media/library`; `size` in bytes. */
export const LIBRARY_FILE = whole("A file of a media folder or of the cache.", {
  name: {
    ...TEXT,
    description: "Its path below the folder. A name without a slash can be used as `media.path`; " +
      "otherwise use `path`.",
  },
  place: {
    ...wordOf(["folder", "upload", "cache"]),
    description: "The operator's `folder`, an `upload`, or the `cache` of downloads.",
  },
  folder: { ...NULLABLE_TEXT, description: "Null in the cache." },
  path: { ...TEXT, description: "Its path on this host." },
  size: COUNT,
  modified_at: NULLABLE_INSTANT,
  kind: {
    ...TEXT,
    description:
      "Its format by its first bytes: `iso`, `raw` if they match no format, or one that " +
      "no machine boots, such as `qcow2`.",
  },
  boot_record: { ...orNull(FLAG), description: "Whether an ISO has an El Torito boot record." },
  problem: { ...NULLABLE_TEXT, description: "Why no machine boots it." },
  digest: {
    ...NULLABLE_TEXT,
    description: "`sha256:` and the hex digits, if known and the file has not changed since.",
  },
  level: { ...orNull(wordOf(CHECK_LEVELS)), description: "As for a medium." },
  used_by: { ...listOf(UUID), description: "Unfinished jobs." },
});

/** The answer to GET /agent/v1/media/library. */
export const LIBRARY = whole("Files to boot from.", {
  folders: {
    ...listOf(shapeRef("MediaFolder", MEDIA_FOLDER)),
    description: "In the order in which names are looked up.",
  },
  files: { ...listOf(shapeRef("LibraryFile", LIBRARY_FILE)), description: "By name." },
  truncated: { ...FLAG, description: "Whether there are more files than listed." },
  cache: whole("The space of downloaded media.", {
    bytes: COUNT,
    bytes_max: { ...NULLABLE_COUNT, description: "`cache_max`; null for no limit." },
  }),
});

/** An upload that is not complete. */
export const UNFINISHED_UPLOAD = whole("The progress of an upload.", {
  name: TEXT,
  offset: { ...COUNT, description: "The byte at which it continues." },
  total: { ...NULLABLE_COUNT, description: "Bytes of the complete file, if known." },
  digests: { ...listOf(TEXT), description: "Digests that the complete file must have." },
});

/** The answer to a removal by name. */
export const REMOVED_MEDIUM = whole("What was removed.", {
  name: TEXT,
  removed: wordOf(REMOVED_KINDS),
  path: NULLABLE_TEXT,
});

/** Reading, uploading and removing files by the names that callers gave them. */
export function mediaLibraryRoutes(
  { library }: { readonly library: MediaLibrary },
): Hono<HttpEnv> {
  const routes = new Hono<HttpEnv>();
  routes.get("/agent/v1/media/library", (c) => listFiles(c, library));
  routes.all("/agent/v1/media/library", (c) => c.notFound());
  routes.get(UPLOAD_PATH, (c) => getFile(c, library));
  routes.put(UPLOAD_PATH, (c) => putFile(c, library));
  routes.delete(UPLOAD_PATH, (c) => deleteFile(c, library));
  return routes;
}

async function listFiles(c: Context<HttpEnv>, library: MediaLibrary): Promise<Response> {
  const { limit = PAGE_FILES_MAX, offset = 0 } = readQuery(c.req.url, LIBRARY_QUERY_FIELDS);
  const { folders, files, truncated, cache } = await library.list();
  c.header("x-count", String(files.length));
  const page = await library.look(files.slice(offset, offset + limit));
  const answer: ShapeOf<typeof LIBRARY> = {
    folders,
    files: page.map(libraryOnWire),
    truncated,
    cache,
  };
  return c.json(answer);
}

/** A complete file, or the progress of its upload: HEAD gives the offset of the next part. */
async function getFile(c: Context<HttpEnv>, library: MediaLibrary): Promise<Response> {
  const name = c.req.param("name") ?? "";
  const unfinished = isName(name) ? await library.uploads.find(name) : undefined;
  if (unfinished !== undefined) return unfinishedAnswer(c, name, unfinished, 200);
  const file = await library.find(name);
  if (file === undefined) {
    const shown = JSON.stringify(name.slice(0, TEXT_CHARS_MAX));
    throw new AgentError("not_found", `Cannot find ${shown}: it is in no media folder`);
  }
  c.header("upload-offset", String(file.size));
  c.header("upload-complete", "?1");
  return c.json(libraryOnWire(file));
}

async function putFile(c: Context<HttpEnv>, library: MediaLibrary): Promise<Response> {
  const { replace = false } = readQuery(c.req.url, UPLOAD_QUERY_FIELDS);
  const name = parseMediaName(c.req.param("name") ?? "", "name");
  const { headers, body } = c.req.raw;
  refuseForms(headers);
  const range = rangeOf(headers.get("content-range"));
  const length = lengthOf(headers, range);
  const digests = digestsOf(headers);
  // An upload may take hours, and has a limit of its own.
  c.get("release")();
  const result = await library.upload({ name, range, length, digests, body }, replace);
  if (result.kind === "unfinished") return unfinishedAnswer(c, name, result.upload, 202);
  const { file, replaced } = result.result;
  c.header("upload-offset", String(file.size));
  c.header("upload-complete", "?1");
  c.header("location", `/agent/v1/media/library/${name}`);
  return c.json(libraryOnWire(file), replaced ? 200 : 201);
}

async function deleteFile(c: Context<HttpEnv>, library: MediaLibrary): Promise<Response> {
  const { unfinished = false } = readQuery(c.req.url, LIBRARY_REMOVAL_FIELDS);
  const name = c.req.param("name") ?? "";
  const shown = JSON.stringify(name.slice(0, TEXT_CHARS_MAX));
  const missing = new AgentError("not_found", `Cannot remove ${shown}: no such file was uploaded`);
  if (!isName(name)) throw missing;
  const answer = (removed: Omit<ShapeOf<typeof REMOVED_MEDIUM>, "name">) =>
    c.json({ name, ...removed });
  if (!unfinished) return answer(await library.removeNamed(name));
  if (!await library.uploads.remove(name)) throw missing;
  return answer({ removed: "unfinished upload", path: null });
}

function isName(name: string): boolean {
  try {
    return parseMediaName(name, "name") === name;
  } catch {
    return false;
  }
}

function unfinishedAnswer(
  c: Context<HttpEnv>,
  name: string,
  { offset, total, digests }: UnfinishedUpload,
  status: 200 | 202,
): Response {
  c.header("upload-offset", String(offset));
  c.header("upload-complete", "?0");
  const answer: ShapeOf<typeof UNFINISHED_UPLOAD> = {
    name,
    offset,
    total,
    digests: digests.map(digestText),
  };
  return c.json(answer, status);
}

function libraryOnWire({ sha256, ...file }: LibraryFile): ShapeOf<typeof LIBRARY_FILE> {
  return { ...file, digest: sha256 === null ? null : `sha256:${sha256}` };
}

/** Refuses forms, which would be stored with their envelope, and compressed bodies. */
function refuseForms(headers: Headers): void {
  const type = (headers.get("content-type") ?? "").toLowerCase();
  const encoding = (headers.get("content-encoding") ?? "identity").toLowerCase();
  const form = type.startsWith("multipart/") ||
    type.startsWith("application/x-www-form-urlencoded");
  if (!form && encoding === "identity") return;
  const found = form ? `content type is ${JSON.stringify(type.slice(0, TEXT_CHARS_MAX))}` : "";
  const packed = `content encoding is ${JSON.stringify(encoding.slice(0, TEXT_CHARS_MAX))}`;
  const message = `Cannot upload a file: ${form ? found : packed}, expected ` +
    (form ? "application/octet-stream, as curl -T FILE sends it" : "none");
  throw new AgentError("not_acceptable_type", message);
}

const CONTENT_RANGE = /^bytes (?:(\d{1,15})-(\d{1,15})|\*)\/(\d{1,15})$/;

/** `bytes N-M/T`, or, for an upload whose bytes have all arrived, `bytes * /T` without the blank. */
function rangeOf(header: string | null): UploadRange | null {
  if (header === null) return null;
  const [text, first, last, whole] = CONTENT_RANGE.exec(header) ?? [];
  const total = Number(whole);
  const from = first === undefined ? total : Number(first);
  const to = last === undefined ? total - 1 : Number(last);
  if (text !== undefined && total > 0 && from <= to + 1 && to < total) return { from, to, total };
  const shown = JSON.stringify(header.slice(0, TEXT_CHARS_MAX));
  const message = `Cannot read Content-Range ${shown}, expected bytes FIRST-LAST/TOTAL, such as ` +
    "bytes 0-1048575/734003200";
  throw invalidArgument("Content-Range", message);
}

/** Bytes of the body, if the request says. */
function lengthOf(headers: Headers, range: UploadRange | null): number | null {
  const length = headers.has("transfer-encoding") ? null : contentLengthOf(headers);
  const expected = range === null ? null : range.to + 1 - range.from;
  if (length === null) return expected;
  if (expected === null || length === expected) return length;
  const message =
    `Cannot read Content-Range: it has ${expected} bytes, Content-Length says ${length}`;
  throw invalidArgument("Content-Range", message);
}

const ALGORITHMS: Readonly<Record<string, DigestAlgorithm>> = {
  "sha-256": "sha256",
  "sha-512": "sha512",
};

/**
 * The digests of `Repr-Digest` and `Digest`. A field without a known algorithm is refused, since its caller
 * believes that it is checked.
 * @see RFC 9530, section 3, and RFC 3230 for the older field
 */
function digestsOf(headers: Headers): Digest[] {
  const all: Digest[] = [];
  for (const field of ["Repr-Digest", "Digest"]) {
    const header = headers.get(field);
    if (header === null) continue;
    const found = header.split(",").flatMap((item) => {
      const [, name = "", value = ""] = /^\s*([\w-]+)=:?([A-Za-z0-9+/]+=*):?\s*$/.exec(item) ?? [];
      const algorithm = ALGORITHMS[name.toLowerCase()];
      return algorithm === undefined ? [] : [{ algorithm, value: hexOfBase64(value) }];
    });
    const right = found.every(({ algorithm, value }) => isDigestValue(algorithm, value));
    if (found.length > 0 && right) {
      all.push(...found);
      continue;
    }
    const shown = JSON.stringify(header.slice(0, TEXT_CHARS_MAX));
    const example = field === "Digest" ? "sha-256=<base64>" : "sha-256=:<base64>:";
    throw invalidArgument(field, `Cannot read ${field} ${shown}, expected ${example}`);
  }
  for (const { algorithm, value } of all) {
    const other = all.find((one) => one.algorithm === algorithm && one.value !== value);
    if (other === undefined) continue;
    const message = `Cannot verify an upload by two digests of ${algorithm}, ${value} and ` +
      `${other.value}, expected one`;
    throw invalidArgument("Repr-Digest", message);
  }
  return all;
}

function hexOfBase64(base64: string): string {
  try {
    return hexOf(bytesOfBase64(base64));
  } catch {
    return "";
  }
}
