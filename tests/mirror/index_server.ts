// A web server whose files and faults a test decides: the upstream of the index, and the vendors.

import { fromFileUrl, join, relative } from "@std/path";

/** How the next answers for a path go wrong; each is used up by one request. */
export type Fault =
  | { readonly kind: "status"; readonly status: number; readonly headers?: Record<string, string> }
  | { readonly kind: "redirect"; readonly to: string }
  /** The length of the whole is promised, and the connection ends early. */
  | { readonly kind: "cut"; readonly after: number }
  /** So many bytes, and then nothing more. */
  | { readonly kind: "stall"; readonly after: number }
  /** The server never answers. */
  | { readonly kind: "silent" }
  /** Whatever a test makes of the file; the signal ends with the server. */
  | {
    readonly kind: "answer";
    readonly make: (file: ServedFile, closing: AbortSignal) => Response;
  };

export interface ServedFile {
  readonly body: Uint8Array;
  readonly etag?: string;
  readonly last_modified?: string;
  /** Answers a request for a part with the whole. */
  readonly ignoresRanges?: boolean;
  readonly headers?: Record<string, string>;
}

/** One request as the server saw it. */
export interface SeenRequest {
  readonly path: string;
  readonly headers: Headers;
  readonly status: number;
}

export interface IndexServer extends AsyncDisposable {
  /** Without a slash at the end. */
  readonly url: string;
  /** By path without a leading slash. */
  readonly files: Map<string, ServedFile>;
  readonly faults: Map<string, Fault[]>;
  /** Makes every request fail in the same way while it is set. */
  outage: Fault | undefined;
  readonly requests: SeenRequest[];
  /** Paths in the order in which they were asked for, also those not answered yet. */
  readonly received: string[];
  countOf(path: string): number;
}

/** Starts a server on a free port of the loopback address. */
export function openIndexServer(files = new Map<string, ServedFile>()): IndexServer {
  const requests: SeenRequest[] = [];
  const received: string[] = [];
  const faults = new Map<string, Fault[]>();
  const closing = new AbortController();
  const state: { outage: Fault | undefined } = { outage: undefined };
  const handle = async (request: Request): Promise<Response> => {
    const path = new URL(request.url).pathname.slice(1);
    received.push(path);
    const file = files.get(path);
    const fault = state.outage ?? faults.get(path)?.shift();
    const response = fault === undefined
      ? answer(request, file)
      : await failing(fault, file, closing.signal);
    requests.push({ path, headers: request.headers, status: response.status });
    return response;
  };
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {}, onError }, handle);
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    files,
    faults,
    requests,
    received,
    get outage() {
      return state.outage;
    },
    set outage(fault) {
      state.outage = fault;
    },
    countOf: (path) => requests.filter((request) => request.path === path).length,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await server.shutdown();
    },
  };
}

function onError(): Response {
  return new Response(null, { status: 500 });
}

function answer(request: Request, file: ServedFile | undefined): Response {
  if (file === undefined) {
    const body = "<!doctype html><title>404</title><p>There isn't a page here.";
    return new Response(body, { status: 404, headers: { "content-type": "text/html" } });
  }
  const headers = headersOf(file);
  const { etag, last_modified } = file;
  const none = request.headers.get("if-none-match");
  const since = request.headers.get("if-modified-since");
  if (none === null ? since !== null && since === last_modified : none === etag) {
    return new Response(null, { status: 304, headers });
  }
  const start = Number(
    /^bytes=(\d+)-$/.exec(request.headers.get("range") ?? "")?.[1] ?? Number.NaN,
  );
  const condition = request.headers.get("if-range");
  const fits = condition === null || condition === etag || condition === last_modified;
  if (Number.isNaN(start) || file.ignoresRanges || !fits) {
    return new Response(copyOf(file.body), { headers });
  }
  if (start >= file.body.byteLength) return new Response(null, { status: 416, headers });
  const size = file.body.byteLength;
  headers.set("content-range", `bytes ${start}-${size - 1}/${size}`);
  headers.set("content-length", String(size - start));
  return new Response(copyOf(file.body.subarray(start)), { status: 206, headers });
}

function headersOf(file: ServedFile): Headers {
  const headers = new Headers({
    "content-length": String(file.body.byteLength),
    // Keeps Deno.serve from compressing, which would weaken the entity tag.
    "cache-control": "no-transform",
    date: "Fri, 20 Nov 2026 12:00:00 GMT",
    ...file.headers,
  });
  if (file.etag !== undefined) headers.set("etag", file.etag);
  if (file.last_modified !== undefined) headers.set("last-modified", file.last_modified);
  return headers;
}

async function failing(
  fault: Fault,
  file: ServedFile | undefined,
  closing: AbortSignal,
): Promise<Response> {
  switch (fault.kind) {
    case "status":
      return new Response("<p>no</p>", { status: fault.status, headers: fault.headers ?? {} });
    case "redirect":
      return new Response(null, { status: 302, headers: { location: fault.to } });
    case "silent":
      await aborted(closing);
      return new Response(null, { status: 500 });
    case "answer":
      return fault.make(file ?? { body: new Uint8Array() }, closing);
    case "cut":
    case "stall": {
      const file_ = file ?? { body: new Uint8Array() };
      const stalled = fault.kind === "stall";
      const stream = brokenStream(file_.body.subarray(0, fault.after), stalled, closing);
      return new Response(stream, { headers: headersOf(file_) });
    }
  }
}

function brokenStream(
  bytes: Uint8Array,
  stalled: boolean,
  closing: AbortSignal,
): ReadableStream<Uint8Array> {
  let sent = false;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!sent && bytes.byteLength > 0) {
        sent = true;
        return controller.enqueue(copyOf(bytes));
      }
      if (stalled) await aborted(closing);
      controller.error(new Error("cut"));
    },
  }, { highWaterMark: 0 });
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

function copyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}

/** The folder of the small tree that the tests share. */
export const FIXTURE_FOLDER = fromFileUrl(new URL("../fixtures/index", import.meta.url));

/** The small tree, each document with an entity tag of its own. */
export async function fixtureFiles(): Promise<Map<string, ServedFile>> {
  const files = new Map<string, ServedFile>();
  for (const path of await filesBelow(FIXTURE_FOLDER)) {
    const body = await Deno.readFile(path);
    const name = relative(FIXTURE_FOLDER, path);
    files.set(name, { body, etag: `"${name}-1"`, last_modified: "Thu, 01 Oct 2026 04:05:06 GMT" });
  }
  return files;
}

async function filesBelow(folder: string): Promise<string[]> {
  const paths: string[] = [];
  for await (const entry of Deno.readDir(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory) paths.push(...await filesBelow(path));
    else paths.push(path);
  }
  return paths.sort();
}
