// The source of the index: a web server, read with conditional requests, bounded bodies and retries, or a folder, for
// hosts without a network and for development.

import { joined } from "../../domain/bytes.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import { DOCUMENT_BYTES_MAX } from "../../domain/index/index_document.ts";
import { withRetries } from "./retry.ts";
import { openDeadline, type TimeLimits, type Wait } from "./time_limits.ts";
import { ask, failure, shown, type Web } from "./request.ts";
import { fileInfo } from "../../runtime/regular_file.ts";
import { fromFileUrl, join, resolve } from "@std/path";

/** The upstream's validators of a document, verbatim; see {@linkcode keptValidator}. */
interface Validators {
  readonly etag: string | null;
  readonly last_modified: string | null;
}

/** Longest validator kept, characters: it goes into every later request. */
export const VALIDATOR_CHARS_MAX = 512;

/**
 * A validator that can be kept and sent again; null for none, and for one that no header can carry.
 */
export function keptValidator(value: string | null): string | null {
  if (value === null || value.length > VALIDATOR_CHARS_MAX) return null;
  return /^[\x20-\x7e]+$/.test(value) ? value : null;
}

/** The answer to a request for a document. */
type UpstreamAnswer =
  | ({ readonly kind: "document"; readonly body: Uint8Array } & Validators)
  /** The document still matches the validators. */
  | { readonly kind: "unchanged" }
  | { readonly kind: "not_found" };

/** Conditions of one read, and who watches it. */
interface UpstreamReadOptions {
  /** Validators of the stored document; null to read it unconditionally. */
  readonly known: Validators | null;
  readonly signal?: AbortSignal;
  /**
   * Called with bytes as they arrive.
   * @throws {AgentError} to stop
   */
  readonly onBytes?: (bytes: number) => void;
}

/** Where the index is read from: a web server or a folder. */
export interface Upstream {
  /** As the operator wrote it. */
  readonly address: string;
  /**
   * Reads one document. Names in `path` must have been checked.
   * @throws {AgentError} `upstream`, `timeout`, `too_large` or `aborted`
   */
  read(path: string, options: UpstreamReadOptions): Promise<UpstreamAnswer>;
}

/** How to reach the upstream, and how to wait between attempts. */
interface WebUpstreamOptions {
  readonly web: Web;
  readonly times: TimeLimits;
  readonly wait: Wait;
  /** A number from 0 up to, not including, 1. */
  readonly random: () => number;
}

/**
 * Opens the index of the operator's setting: `https://...`, `http://...` (only where allowed), a
 * `file:` address or a folder. Nothing is fetched yet.
 * @throws {AgentError} `invalid_argument`
 */
export function openUpstream(address: string, options: WebUpstreamOptions): Upstream {
  if (/^https?:/i.test(address)) return openWebUpstream(address, options);
  if (/^file:/i.test(address)) return openFolderUpstream(address, folderOf(address));
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(address)) {
    const message = `Cannot use ${JSON.stringify(address)} as the index, expected https, http, ` +
      "file or a folder";
    throw new AgentError("invalid_argument", message);
  }
  return openFolderUpstream(address, resolve(address));
}

/** @throws {AgentError} `invalid_argument` for a folder on another host */
function folderOf(address: string): string {
  const url = URL.parse(address);
  if (url === null || url.host !== "" || url.search !== "" || url.hash !== "") {
    const message = `Cannot use ${JSON.stringify(address)} as the index, expected the address of ` +
      "a folder of this host, such as file:///srv/index";
    throw new AgentError("invalid_argument", message);
  }
  return fromFileUrl(url);
}

/** @throws {AgentError} `invalid_argument` for an address that cannot be the index */
function openWebUpstream(address: string, options: WebUpstreamOptions): Upstream {
  const base = parseBase(address, options.web.reach.allowHttp);
  return {
    address,
    read: (path, read) =>
      withRetries(() => readOnce(base, path, read, options), {
        wait: options.wait,
        random: options.random,
        ...(read.signal === undefined ? {} : { signal: read.signal }),
      }),
  };
}

function parseBase(address: string, allowHttp: boolean): URL {
  const url = URL.parse(address);
  // Only the host is repeated: the rest may contain a password or a token.
  const refuse = (reason: string) =>
    new AgentError("invalid_argument", `Cannot use ${url?.host ?? "it"} as the index: ${reason}`);
  if (url === null) throw refuse("it is not an address");
  if (url.username !== "" || url.password !== "") {
    throw refuse("it contains a user name or password");
  }
  if (url.search !== "" || url.hash !== "") throw refuse("it has a query or a fragment");
  if (url.protocol !== "https:" && !allowHttp) {
    throw refuse("it is not https, and plain http is not allowed");
  }
  if (!url.pathname.endsWith("/")) url.pathname += "/";
  return url;
}

async function readOnce(
  base: URL,
  path: string,
  { known, signal, onBytes }: UpstreamReadOptions,
  { web, times }: WebUpstreamOptions,
): Promise<UpstreamAnswer> {
  const address = new URL(path, base).href;
  const what = `read ${shown(address)}`;
  const whole = openDeadline(times.documentMs, what, signal);
  const deadline = openDeadline(times.answerMs, what, whole.signal);
  try {
    const asked = conditions(known);
    const headers = { accept: "application/json", ...asked };
    const response = await ask(web, address, {
      headers,
      deadline,
      trustedHost: base.host,
      keepsScheme: true,
    });
    if (response.status === 304 && Object.keys(asked).length > 0) {
      await response.body?.cancel();
      return { kind: "unchanged" };
    }
    if (response.status === 404 || response.status === 410) {
      // The body is meant for browsers, often HTML.
      await response.body?.cancel();
      return { kind: "not_found" };
    }
    if (response.status !== 200) {
      await response.body?.cancel();
      const message = `Cannot read ${shown(address)}: the server answered ${response.status}`;
      throw new AgentError("upstream", message);
    }
    return {
      kind: "document",
      body: await readBody(response, times.idleMs, deadline, { what, onBytes }),
      etag: keptValidator(response.headers.get("etag")),
      last_modified: keptValidator(response.headers.get("last-modified")),
    };
  } finally {
    deadline.clear();
    whole.clear();
  }
}

/** Drops validators that cannot be sent, such as those that an older version kept unchecked. */
function conditions(known: Validators | null): Record<string, string> {
  const etag = keptValidator(known?.etag ?? null);
  const modified = keptValidator(known?.last_modified ?? null);
  return {
    ...(etag === null ? {} : { "if-none-match": etag }),
    ...(modified === null ? {} : { "if-modified-since": modified }),
  };
}

type Watch = ReturnType<typeof openDeadline>;

async function readBody(
  response: Response,
  idleMs: number,
  deadline: Watch,
  { what, onBytes }: { what: string; onBytes: UpstreamReadOptions["onBytes"] },
): Promise<Uint8Array> {
  const tooLarge = () =>
    new AgentError("too_large", `Cannot ${what}: it has more than ${DOCUMENT_BYTES_MAX} bytes`);
  const parts: Uint8Array[] = [];
  let size = 0;
  deadline.extend(idleMs);
  try {
    // A server may send no length, or a wrong one, so bytes are counted as well.
    if (Number(response.headers.get("content-length") ?? 0) > DOCUMENT_BYTES_MAX) throw tooLarge();
    for await (const part of response.body ?? []) {
      size += part.byteLength;
      if (size > DOCUMENT_BYTES_MAX) throw tooLarge();
      onBytes?.(part.byteLength);
      parts.push(part);
      deadline.extend(idleMs);
    }
  } catch (error) {
    await response.body?.cancel().catch(() => {});
    throw failure(error, deadline.signal, what);
  }
  return joined(parts, size);
}

/**
 * A folder with the tree below it. Changes are detected by comparing bytes, so there are no
 * validators. Only regular files below the folder are read; symbolic links are refused, since they
 * may leave it.
 */
function openFolderUpstream(address: string, folder: string): Upstream {
  return {
    address,
    async read(path, { signal, onBytes }): Promise<UpstreamAnswer> {
      signal?.throwIfAborted();
      try {
        const body = await readRegularFile(folder, path.split("/"));
        if (body === undefined) return { kind: "not_found" };
        onBytes?.(body.byteLength);
        return { kind: "document", body, etag: null, last_modified: null };
      } catch (error) {
        if (error instanceof AgentError) throw error;
        const message = `Cannot read ${path} in ${folder}: ${messageOf(error)}`;
        throw new AgentError("upstream", message, { cause: error });
      }
    },
  };
}

async function readRegularFile(
  folder: string,
  names: readonly string[],
): Promise<Uint8Array | undefined> {
  // The folder itself may be a link, since the operator named it. It must exist: an unmounted disk would
  // otherwise look like an empty tree, and everything would be removed.
  if (!(await Deno.stat(folder)).isDirectory) {
    throw new AgentError("upstream", `Cannot read the index in ${folder}: it is not a folder`);
  }
  let path = folder;
  for (const [index, name] of names.entries()) {
    if (name === "" || name === "." || name === ".." || name.includes("\0")) {
      throw new AgentError("upstream", `Cannot read ${names.join("/")}: it leaves its folder`);
    }
    path = join(path, name);
    const info = await fileInfo(path);
    if (info === undefined) return undefined;
    const last = index === names.length - 1;
    if (info.isSymlink || (last ? !info.isFile : !info.isDirectory)) {
      const wanted = last ? "a regular file" : "a folder";
      throw new AgentError("upstream", `Cannot read ${path}, expected ${wanted}`);
    }
    if (last && info.size > DOCUMENT_BYTES_MAX) {
      const message = `Cannot read ${path}: it has more than ${DOCUMENT_BYTES_MAX} bytes`;
      throw new AgentError("too_large", message);
    }
  }
  return await Deno.readFile(path);
}
