// The sample upstream: an index and its files on a loopback address, so that an agent for development has
// something to mirror and to boot without internet access. It answers like the real upstream's host: static
// files with entity tags, and an HTML page for anything missing.

import { absent } from "../../runtime/regular_file.ts";
import { basename, dirname, join } from "@std/path";
import { joined, writeAll } from "../../domain/bytes.ts";
import { AgentError, messageOf, systemCode, systemReason } from "../../domain/error.ts";
import type { Log } from "../../metrics/log.ts";
import { type Content, digestsOf } from "./iso9660.ts";
import { SAMPLE_ISO, type SampleFiles, sampleFiles } from "./sample_file.ts";
import { entityTag, PUBLISHED_AT, sampleIndex } from "./sample_index.ts";

interface SampleUpstreamOptions {
  /** Folder in which the ISO image is kept; created if missing. */
  readonly cacheDir: string;
  readonly log: Log;
  /** Closes the upstream, or gives up starting it. */
  readonly signal?: AbortSignal;
  /** Size of the ISO image, bytes: a multiple of 2048 of at least 1 MiB. */
  readonly isoBytes: number;
}

/** A running upstream with the sample index. */
export interface SampleUpstream {
  /** Address of the index, such as `http://127.0.0.1:40123`. */
  readonly url: string;
  /** Ends the server and all downloads; may be called twice. */
  close(): Promise<void>;
}

interface Resource {
  readonly type: string;
  /** Size of the body, bytes. */
  readonly size: number;
  readonly etag: string;
  readonly lastModified?: string;
  /** The bytes from `first` to `last`, both included. */
  body(first: number, last: number): BodyInit;
}

const HOSTNAME = "127.0.0.1";
/** Bytes of a file that are given to the server at a time. */
const READ_BYTES = 128 << 10; // 128 KiB
const ISO_NAME = "zonewright-sample.iso";
const NOT_FOUND_PAGE = "<!DOCTYPE html>\n<title>Not found</title>\n<h1>404</h1>\n" +
  "<p>There is no file at this address.</p>\n";

/**
 * Starts the sample upstream on a free port of 127.0.0.1. Its files are generated and verified for the first
 * request, since that takes longer than the rest of an agent's start; a request that finds them unusable is
 * answered 500, and the next one tries again.
 * @throws the reason of `signal` if that is aborted first
 */
export function startSampleUpstream(options: SampleUpstreamOptions): SampleUpstream {
  const { log, signal } = options;
  signal?.throwIfAborted();
  const stop = new AbortController();
  let tree: Promise<SampleTree> | undefined;
  const opened = () =>
    tree ??= openTree(options, url, stop.signal).catch((error) => {
      tree = undefined;
      throw error;
    });
  const server = listen(opened, log, stop.signal);
  // The documents contain the port, which is known from here on.
  const url = `http://${HOSTNAME}:${server.addr.port}`;
  const end = async () => {
    signal?.removeEventListener("abort", close);
    stop.abort();
    await server.finished;
    await tree?.then(({ iso }) => iso.close(), () => {});
  };
  let closed: Promise<void> | undefined;
  const close = () => closed ??= end();
  signal?.addEventListener("abort", close);
  log.info("sample upstream started", { url });
  return { url, close };
}

/** What the upstream answers with, by path, and the open file that some of it is read from. */
interface SampleTree {
  readonly resources: ReadonlyMap<string, Resource>;
  readonly iso: Deno.FsFile;
}

async function openTree(
  options: SampleUpstreamOptions,
  url: string,
  signal: AbortSignal,
): Promise<SampleTree> {
  const files = await sampleFiles({ ...options, signal });
  const resources = new Map<string, Resource>();
  await addDocuments(resources, url, files);
  const iso = await openIso({ ...options, signal }, files);
  addFiles(resources, files, iso);
  return { resources, iso };
}

function listen(
  opened: () => Promise<SampleTree>,
  log: Log,
  signal: AbortSignal,
): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({
    hostname: HOSTNAME,
    port: 0,
    signal,
    onListen: () => {}, // it would print the address
    onError: (error) => {
      // Once it closes, nobody waits for an answer.
      if (!signal.aborted) {
        log.error("sample upstream failed to answer", { error: messageOf(error) });
      }
      return new Response("Internal error\n", { status: 500 });
    },
  }, async (request) => answer(request, (await opened()).resources));
}

async function openIso(options: SampleUpstreamOptions, files: SampleFiles): Promise<Deno.FsFile> {
  const { content, digests } = files[SAMPLE_ISO];
  const path = join(options.cacheDir, ISO_NAME);
  const { file, made } = await openKeptFile(path, content, digests.sha256, options.signal)
    .catch((error) => {
      const code = systemCode(error);
      if (code === undefined) throw error;
      throw new AgentError(code, `Cannot write ${path}: ${systemReason(error)}`, { cause: error });
    });
  if (made) options.log.info("sample medium made", { path, bytes: content.size });
  return file;
}

async function addDocuments(
  resources: Map<string, Resource>,
  baseUrl: string,
  files: SampleFiles,
): Promise<void> {
  for (const [path, bytes] of sampleIndex({ baseUrl, files })) {
    const { sha256 } = await digestsOf([bytes]);
    resources.set(path, inMemory("application/json; charset=utf-8", bytes, entityTag(sha256)));
  }
}

function addFiles(
  resources: Map<string, Resource>,
  files: SampleFiles,
  iso: Deno.FsFile,
): void {
  const lastModified = new Date(PUBLISHED_AT).toUTCString();
  for (const [path, { content, digests }] of Object.entries(files)) {
    const etag = entityTag(digests.sha256);
    const resource: Resource = path === SAMPLE_ISO
      ? {
        type: "application/x-iso9660-image",
        size: content.size,
        etag,
        body: (first, last) => fileRange(iso, first, last),
      }
      : inMemory("application/gzip", joined(content.chunks(), content.size), etag);
    resources.set(path, { ...resource, lastModified });
  }
}

function inMemory(type: string, bytes: Uint8Array<ArrayBuffer>, etag: string): Resource {
  return { type, size: bytes.length, etag, body: (first, last) => bytes.subarray(first, last + 1) };
}

/** Looks up the path as it is: no part of a request becomes the name of a file. */
function answer(request: Request, resources: ReadonlyMap<string, Resource>): Response {
  if (request.method !== "GET" && request.method !== "HEAD") {
    return new Response("Method not allowed\n", { status: 405, headers: { allow: "GET, HEAD" } });
  }
  const resource = resources.get(new URL(request.url).pathname.slice(1));
  if (resource === undefined) {
    return new Response(NOT_FOUND_PAGE, {
      status: 404,
      headers: { "content-type": "text/html; charset=utf-8" },
    });
  }
  const headers = new Headers({
    "content-type": resource.type,
    "accept-ranges": "bytes",
    // Compressed in transit, an answer would lose its length and its strong entity tag.
    "cache-control": "max-age=0, no-transform",
    etag: resource.etag,
  });
  if (resource.lastModified !== undefined) headers.set("last-modified", resource.lastModified);
  if (namesEntity(request.headers.get("if-none-match"), resource.etag)) {
    return new Response(null, { status: 304, headers });
  }
  return answerBytes(request, resource, headers);
}

function answerBytes(request: Request, resource: Resource, headers: Headers): Response {
  // A range of a file that has changed would be joined to the wrong beginning.
  const condition = request.headers.get("if-range");
  const applies = request.method === "GET" && (condition === null || condition === resource.etag);
  const range = parseByteRange(applies ? request.headers.get("range") : null, resource.size);
  if (range.kind === "unsatisfiable") {
    headers.set("content-range", `bytes */${resource.size}`);
    return new Response(null, { status: 416, headers });
  }
  const [first, last] = range.kind === "part" ? [range.first, range.last] : [0, resource.size - 1];
  headers.set("content-length", String(last - first + 1));
  if (request.method === "HEAD") return new Response(null, { headers });
  if (range.kind === "whole") return new Response(resource.body(first, last), { headers });
  headers.set("content-range", `bytes ${first}-${last}/${resource.size}`);
  return new Response(resource.body(first, last), { status: 206, headers });
}

/** Whether an If-None-Match names this entity; weak tags count (RFC 9110, section 13.1.2). */
function namesEntity(header: string | null, etag: string): boolean {
  if (header === null) return false;
  const tags = header.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  return tags.includes(etag) || tags.includes("*");
}

/**
 * A part of a file as a stream. All streams share one open file: seeking and reading in one turn of
 * the event loop keeps them apart, and a client that goes away leaves nothing open.
 */
function fileRange(
  file: Deno.FsFile,
  first: number,
  last: number,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let at = first;
  return new ReadableStream({
    pull(controller) {
      const buffer = new Uint8Array(Math.min(READ_BYTES, last + 1 - at));
      file.seekSync(at, Deno.SeekMode.Start);
      const count = file.readSync(buffer);
      if (count === null) throw new Error(`Cannot read sample medium: it ends at byte ${at}`);
      controller.enqueue(buffer.subarray(0, count));
      at += count;
      if (at > last) controller.close();
    },
  });
}

/** The requested part of a resource. */
type ByteRange =
  | { readonly kind: "whole" }
  /** From byte `first` to byte `last`, both included. */
  | { readonly kind: "part"; readonly first: number; readonly last: number }
  | { readonly kind: "unsatisfiable" };

const WHOLE: ByteRange = { kind: "whole" };

/**
 * Parses the range of a resource of `size` bytes. Several ranges, other units and malformed headers mean the
 * whole resource, which the standard allows.
 * @see RFC 9110, section 14.1.2 and 14.2
 */
export function parseByteRange(header: string | null, size: number): ByteRange {
  const match = /^bytes=(\d*)-(\d*)$/i.exec(header?.replaceAll(" ", "") ?? "");
  const [from, to] = [match?.[1] ?? "", match?.[2] ?? ""];
  if (from === "" && to === "") return WHOLE;
  if (from === "") {
    const last = size - 1;
    const first = Math.max(0, size - Number(to));
    return first > last ? { kind: "unsatisfiable" } : { kind: "part", first, last };
  }
  const first = Number(from);
  if (to !== "" && Number(to) < first) return WHOLE;
  if (first >= size) return { kind: "unsatisfiable" };
  return { kind: "part", first, last: to === "" ? size - 1 : Math.min(Number(to), size - 1) };
}

const KEPT_READ_BYTES = 256 << 10; // 256 KiB

/** An open file with verified bytes. */
interface KeptFile {
  readonly file: Deno.FsFile;
  /** Whether it was written now, because it was missing or had other bytes. */
  readonly made: boolean;
}

/**
 * Opens the file at a path for reading, with the content of this digest. It is kept across starts,
 * but never trusted: its bytes are compared with the digest every time. A missing or different file
 * is generated under another name and renamed, so that nobody reads an incomplete one.
 * @param sha256 of the content, lower-case hex
 */
async function openKeptFile(
  path: string,
  content: Content,
  sha256: string,
  signal?: AbortSignal,
): Promise<KeptFile> {
  const found = await Deno.open(path).catch(absent);
  try {
    if (found !== undefined && await hasContent(found, content.size, sha256, signal)) {
      return { file: found, made: false };
    }
  } catch (error) {
    found?.close();
    throw error;
  }
  found?.close();
  return { file: await makeFile(path, content, signal), made: true };
}

async function hasContent(
  file: Deno.FsFile,
  size: number,
  sha256: string,
  signal?: AbortSignal,
): Promise<boolean> {
  if ((await file.stat()).size !== size) return false;
  return (await digestsOf(fileChunks(file), signal)).sha256 === sha256;
}

async function* fileChunks(file: Deno.FsFile): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(KEPT_READ_BYTES);
  for (let count = await file.read(buffer); count !== null; count = await file.read(buffer)) {
    yield buffer.subarray(0, count);
  }
}

async function makeFile(
  path: string,
  content: Content,
  signal?: AbortSignal,
): Promise<Deno.FsFile> {
  await Deno.mkdir(dirname(path), { recursive: true });
  const part = await Deno.makeTempFile({ dir: dirname(path), prefix: `${basename(path)}.` });
  const file = await Deno.open(part, { read: true, write: true });
  try {
    for (const chunk of content.chunks()) {
      signal?.throwIfAborted();
      await writeAll(file, chunk);
    }
    await file.sync();
    await Deno.rename(part, path);
    return file;
  } catch (error) {
    file.close();
    await Deno.remove(part);
    throw error;
  }
}
