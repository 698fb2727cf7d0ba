// A collector of OTLP over HTTP on loopback, which keeps what it is sent.

import type { JsonObject, JsonValue } from "../../src/domain/json.ts";

export interface Collector {
  readonly url: string;
  /** Bodies by path, in the order in which they came. */
  readonly received: ReadonlyMap<string, readonly JsonObject[]>;
  /** Headers of the last request. */
  headers(): Headers;
  /** What is answered from now on. */
  answer: number;
  close(): Promise<void>;
}

export function openCollector(): Collector {
  const received = new Map<string, JsonObject[]>();
  let last = new Headers();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const body: JsonObject = await request.json();
      last = request.headers;
      if (collector.answer === 200) {
        const { pathname } = new URL(request.url);
        received.set(pathname, [...received.get(pathname) ?? [], body]);
      }
      return Response.json({}, { status: collector.answer });
    },
  );
  const collector: Collector = {
    url: `http://127.0.0.1:${server.addr.port}`,
    received,
    headers: () => last,
    answer: 200,
    close: () => server.shutdown(),
  };
  return collector;
}

/** A value of attributes as OTLP writes it. */
function plain(value: JsonValue | undefined): JsonValue {
  const { stringValue, boolValue, intValue, doubleValue } = value as JsonObject;
  return stringValue ?? boolValue ?? doubleValue ??
    (intValue === undefined ? null : +`${intValue}`);
}

/** The attributes of a span, a point or a resource, by their keys. */
export function attributesOf(part: JsonObject): JsonObject {
  const list = part.attributes as JsonObject[];
  return Object.fromEntries(list.map(({ key, value }) => [`${key}`, plain(value)]));
}

/** Every span of the bodies of `/v1/traces`. */
export function spansOf(bodies: readonly JsonObject[] = []): JsonObject[] {
  return bodies.flatMap(({ resourceSpans }) => resourceSpans as JsonObject[])
    .flatMap(({ scopeSpans }) => scopeSpans as JsonObject[])
    .flatMap(({ spans }) => spans as JsonObject[]);
}

/** Every metric of the bodies of `/v1/metrics`. */
export function metricsOf(bodies: readonly JsonObject[] = []): JsonObject[] {
  return bodies.flatMap(({ resourceMetrics }) => resourceMetrics as JsonObject[])
    .flatMap(({ scopeMetrics }) => scopeMetrics as JsonObject[])
    .flatMap(({ metrics }) => metrics as JsonObject[]);
}
