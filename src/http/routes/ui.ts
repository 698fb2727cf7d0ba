// The web console: one page, its scripts and styles. They come from one file, which vendors/ui.ts packs and
// the binary carries. They hold no secrets: the page asks the agent for everything it shows, with the rights
// of its caller.

import { type Context, Hono } from "hono";
import { bytesOfBase64 } from "../../domain/bytes.ts";
import { AgentError } from "../../domain/error.ts";
import { YEAR_SECONDS } from "../../domain/instant.ts";
import { readBeside } from "../../runtime/node.ts";
import { preferredEncoding } from "../answer/served_document.ts";
import type { HttpEnv } from "../served_agent.ts";
import { UI_PATH } from "../request/access.ts";

/** The console as `vendors/ui.ts` writes it. */
export interface PackedUi {
  /** Names of the files that the page loads first. */
  readonly script: string;
  readonly style: string;
  /** Files by name; a name changes with its content. */
  readonly files: Readonly<Record<string, PackedFile>>;
}

/** One file, compressed by Brotli as base64. */
interface PackedFile {
  readonly type: string;
  readonly br: string;
}

/** In the binary, beside the program; from source, where `make` put it. */
const PACKED = Deno.build.standalone ? "ui.json" : "../../../dist/ui.json";

/** The page has no inline scripts or styles, and reaches no other host. */
const CONTENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");
/** Headers of every page: no other site may show it, or learn from where a caller came. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};
const CONSOLE_HEADERS = { "content-security-policy": CONTENT_POLICY, ...PAGE_HEADERS };

/** The page for each of its paths, and its files. */
export function uiRoutes(): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  let loaded: Promise<LoadedUi> | undefined;
  const ui = () => {
    loaded ??= loadUi();
    // The next request tries again: when running from source, it may have been built by then.
    loaded.catch(() => loaded = undefined);
    return loaded;
  };
  app.get("/ui/files/:name", async (c) => fileAnswer(c, await ui()));
  app.get(UI_PATH, async (c) => c.html((await ui()).page, 200, pageHeaders()));
  app.get("/ui/*", async (c) => c.html((await ui()).page, 200, pageHeaders()));
  return app;
}

interface LoadedUi {
  readonly page: string;
  readonly files: ReadonlyMap<string, LoadedFile>;
}

interface LoadedFile {
  readonly type: string;
  readonly br: Uint8Array<ArrayBuffer>;
}

/** @throws {AgentError} `not_found` when the sources were not packed */
async function loadUi(): Promise<LoadedUi> {
  let text;
  try {
    text = await readBeside("ui.json", new URL(PACKED, import.meta.url));
  } catch (cause) {
    const message = "Cannot show the console: dist/ui.json is not there; make it with: make ui";
    throw new AgentError("not_found", message, { cause });
  }
  // vendors/ui.ts wrote it, so it is not checked.
  const packed = JSON.parse(text) as PackedUi;
  const files = Object.entries(packed.files).map(([name, { type, br }]) =>
    [name, { type, br: bytesOfBase64(br) }] as const
  );
  return { page: pageText(packed), files: new Map(files) };
}

function pageText({ script, style }: PackedUi): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>zonewright</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/ui/files/${style}">
<script type="module" src="/ui/files/${script}"></script>
</head>
<body><div id="app"></div><noscript>This console needs JavaScript. The same is at /openapi.json for \
programs, and in the command zonewright.</noscript></body>
</html>
`;
}

/** The page is small and names its files by their content, so browsers fetch it each time. */
function pageHeaders(): Record<string, string> {
  return { ...CONSOLE_HEADERS, "cache-control": "no-cache" };
}

async function fileAnswer(c: Context<HttpEnv>, { files }: LoadedUi): Promise<Response> {
  const name = c.req.param("name") ?? "";
  const file = files.get(name);
  if (file === undefined) {
    const message = "Cannot find this file of the console: the agent has another version of it; " +
      "load the page again";
    throw new AgentError("not_found", message);
  }
  const encoding = preferredEncoding(c.req.header("accept-encoding") ?? null, false);
  const headers = new Headers({
    ...CONSOLE_HEADERS,
    "cache-control": `public, max-age=${YEAR_SECONDS}, immutable, no-transform`,
    "content-type": file.type,
    vary: "accept-encoding",
  });
  if (encoding !== "identity") headers.set("content-encoding", encoding);
  return new Response(encoding === "br" ? file.br : await packedAgain(file.br, encoding), {
    headers,
  });
}

/** Every browser accepts Brotli from this host and over TLS, so other encodings are made for each request. */
async function packedAgain(
  br: Uint8Array<ArrayBuffer>,
  encoding: "gzip" | "identity",
): Promise<Uint8Array<ArrayBuffer>> {
  // Loaded on use: each node: module costs milliseconds at start.
  const { brotliDecompress, gzip } = await import("node:zlib");
  const plain = await answered<Buffer>((done) => brotliDecompress(br, done));
  const bytes = encoding === "identity"
    ? plain
    : await answered<Buffer>((done) => gzip(plain, done));
  return new Uint8Array(bytes);
}

function answered<T>(run: (done: (error: Error | null, value: T) => void) => void): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  run((error, value) => error === null ? resolve(value) : reject(error));
  return promise;
}
