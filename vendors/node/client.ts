// Calls over a unix socket or with certificates of one's own: fetch() and WebSocket of Node take neither.

import http from "node:http";
import https from "node:https";
import { Readable } from "node:stream";
import tls from "node:tls";
import { WebSocket as SocketClient } from "ws";
import { asDeno, denoError } from "./errors.ts";

/** Deno.HttpClient. */
export class HttpClient {
  /** A unix socket to call instead of the address. */
  readonly path: string | undefined;
  /** Authorities that count besides those of Node, PEM. */
  readonly authorities: readonly string[];

  constructor(path: string | undefined, authorities: readonly string[]) {
    this.path = path;
    this.authorities = authorities;
  }

  /** What a call by this client passes to Node. */
  get connection(): https.RequestOptions {
    if (this.path !== undefined) return { socketPath: this.path };
    if (this.authorities.length === 0) return {};
    return { ca: [...tls.rootCertificates, ...this.authorities] };
  }

  close(): void {}

  [Symbol.dispose](): void {}
}

/**
 * Deno.createHttpClient().
 * @throws for what is not a certificate
 */
export function createHttpClient(
  { proxy, caCerts = [] }: {
    readonly proxy?: { readonly path?: string };
    readonly caCerts?: readonly string[];
  },
): HttpClient {
  for (const ca of caCerts) asDeno(() => tls.createSecureContext({ ca }));
  return new HttpClient(proxy?.path, caCerts);
}

/** fetch() by a client. */
export async function fetchBy(
  input: string | URL | Request,
  { client, ...init }: RequestInit & { client?: unknown },
): Promise<Response> {
  if (!(client instanceof HttpClient)) throw new TypeError("Cannot fetch: the client is not one");
  const streams = init.body === undefined || init.body === null ? {} : { duplex: "half" };
  const request = new Request(input, { ...init, ...streams });
  const url = new URL(request.url);
  const secure = client.path === undefined && url.protocol === "https:";
  const { promise, resolve, reject } = Promise.withResolvers<Response>();
  const sent = (secure ? https : http).request(url, {
    method: request.method,
    headers: Object.fromEntries(request.headers),
    agent: false,
    signal: request.signal,
    ...client.connection,
  }, (answer) => resolve(responseOf(answer, request.method)));
  sent.on("error", (error) => {
    const message = `error sending request for url (${request.url}): ${error.message}`;
    reject(new TypeError(message, { cause: denoError(error) }));
  });
  if (request.body === null) sent.end();
  else {
    // Node's stream of the same bytes.
    const body = Readable.fromWeb(request.body as Parameters<typeof Readable.fromWeb>[0]);
    body.on("error", (error) => sent.destroy(error)).pipe(sent);
  }
  return await promise;
}

function responseOf(answer: http.IncomingMessage, method: string): Response {
  const headers = new Headers();
  const { rawHeaders, statusCode: status = 500, statusMessage = "" } = answer;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  }
  const empty = method === "HEAD" || status === 204 || status === 304;
  if (empty) answer.resume();
  const body = empty ? null : Readable.toWeb(answer) as ReadableStream<Uint8Array<ArrayBuffer>>;
  return new Response(body, { status, statusText: statusMessage, headers });
}

interface SocketOptions {
  readonly protocols?: string | string[];
  readonly headers?: HeadersInit;
  readonly client?: unknown;
}

/** WebSocket that takes headers and a client. */
export const ClientSocket = new Proxy(WebSocket, {
  construct(Own, [url, options = {}]: [string | URL, (string | string[] | SocketOptions)?]) {
    if (typeof options === "string" || Array.isArray(options)) return new Own(url, options);
    const { protocols = [], headers, client } = options;
    return new SocketClient(socketUrl(url, client), protocols, {
      headers: Object.fromEntries(new Headers(headers)),
      ...(client instanceof HttpClient && client.path === undefined ? client.connection : {}),
      perMessageDeflate: false,
    });
  },
});

/** A unix socket is part of the address there. */
function socketUrl(url: string | URL, client: unknown): string {
  if (!(client instanceof HttpClient) || client.path === undefined) return String(url);
  const { pathname, search } = new URL(url);
  return `ws+unix:${client.path}:${pathname}${search}`;
}
