// Spans and figures in the words of OTLP, as JSON. Written by hand: its libraries are larger than the
// agent, and of what they do only this is wanted.

import type { Family, Labels, Sample } from "./exposition.ts";

/** What a span or a resource tells of itself. */
export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** Something that took time. */
export interface Span {
  /** 32 lower-case hex digits. */
  readonly traceId: string;
  /** 16 lower-case hex digits. */
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  /** `server` answers another program. */
  readonly kind: "server" | "internal";
  /** Milliseconds since 1970, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly failed: boolean;
}

/** Who tells. */
export interface Origin {
  readonly resource: Attributes;
  /** Of this program. */
  readonly version: string;
}

const KINDS = { internal: 1, server: 2 } as const;
const STATUS_ERROR = 2;
/** Values since the start, not since the last export. */
const CUMULATIVE = 2;

/** The body of `POST /v1/traces`. @see opentelemetry-proto, ExportTraceServiceRequest */
export function tracesDocument(spans: readonly Span[], origin: Origin) {
  return {
    resourceSpans: [{
      resource: { attributes: attributesOf(origin.resource) },
      scopeSpans: [{ scope: scopeOf(origin), spans: spans.map(spanOf) }],
    }],
  };
}

/**
 * The body of `POST /v1/metrics`. @see opentelemetry-proto, ExportMetricsServiceRequest
 * @param startMs when counting began, milliseconds since 1970
 */
export function metricsDocument(
  families: readonly Family[],
  { startMs, nowMs }: { startMs: number; nowMs: number },
  origin: Origin,
) {
  const times = { startTimeUnixNano: nanos(startMs), timeUnixNano: nanos(nowMs) };
  return {
    resourceMetrics: [{
      resource: { attributes: attributesOf(origin.resource) },
      scopeMetrics: [{
        scope: scopeOf(origin),
        metrics: families.map((family) => ({
          name: family.name,
          description: family.help,
          ...unitOf(family.name),
          ...dataOf(family, times),
        })),
      }],
    }],
  };
}

function scopeOf({ version }: Origin) {
  return { name: "zonewright", version };
}

function spanOf(span: Span) {
  const { traceId, spanId, parentSpanId, name, kind, startMs, endMs, attributes, failed } = span;
  return {
    traceId,
    spanId,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanos(startMs),
    endTimeUnixNano: nanos(endMs),
    attributes: attributesOf(attributes),
    status: failed ? { code: STATUS_ERROR } : {},
  };
}

/** Nanoseconds as the text that JSON wants for 64 bits; exact to the microsecond. */
function nanos(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}

function attributesOf(attributes: Attributes | Labels) {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: valueOf(value) }));
}

function valueOf(value: string | number | boolean) {
  switch (typeof value) {
    case "string":
      return { stringValue: value };
    case "boolean":
      return { boolValue: value };
    default:
      return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  }
}

function unitOf(name: string): { unit?: string } {
  const [, word] = /_(seconds|bytes)(?:_total)?$/.exec(name) ?? [];
  return word === undefined ? {} : { unit: word === "seconds" ? "s" : "By" };
}

interface Times {
  readonly startTimeUnixNano: string;
  readonly timeUnixNano: string;
}

function dataOf({ type, samples }: Family, times: Times) {
  if (type === "histogram") {
    const dataPoints = byLabels(samples).map((group) => histogramPoint(group, times));
    return { histogram: { aggregationTemporality: CUMULATIVE, dataPoints } };
  }
  const dataPoints = samples.map(({ labels = {}, value }) => ({
    attributes: attributesOf(labels),
    ...times,
    asDouble: value,
  }));
  if (type === "gauge") return { gauge: { dataPoints } };
  return { sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } };
}

/** The samples of each histogram of a family, which differ in `le` alone. */
function byLabels(samples: readonly Sample[]): { labels: Labels; samples: Sample[] }[] {
  const groups = new Map<string, { labels: Labels; samples: Sample[] }>();
  for (const sample of samples) {
    const { le: _le, ...labels } = sample.labels ?? {};
    const key = JSON.stringify(labels);
    const group = groups.get(key) ?? { labels, samples: [] };
    groups.set(key, group);
    group.samples.push(sample);
  }
  return [...groups.values()];
}

/** There a bucket counts what lies below its bound; here, what lies between it and the one before. */
function histogramPoint(
  { labels, samples }: { labels: Labels; samples: readonly Sample[] },
  times: Times,
) {
  const of = (suffix: string) => samples.filter((sample) => sample.suffix === suffix);
  const buckets = of("_bucket");
  return {
    attributes: attributesOf(labels),
    ...times,
    count: String(of("_count")[0]?.value ?? 0),
    sum: of("_sum")[0]?.value ?? 0,
    bucketCounts: buckets.map(({ value }, at) => String(value - (buckets[at - 1]?.value ?? 0))),
    explicitBounds: buckets.map(({ labels: { le } = {} }) => Number(le)).filter(Number.isFinite),
  };
}
