// Requests by what they asked for and how they were answered. A route is the pattern that was
// registered, never a path: the number of series is bounded by the program, not by its callers.

import type { Family } from "./exposition.ts";
import { Histogram } from "./histogram.ts";

/** Seconds: a document from memory takes a tenth of a millisecond, a commit some milliseconds. */
const BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60];
/** Any other is shown as one: callers choose the words of a request line. */
export const METHODS: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
]);
const OTHER_METHOD = "other";
/** The route of what was refused before one, or has none. */
export const NO_ROUTE = "none";

/** The method as metrics and log lines name it. */
export function methodName(sent: string): string {
  return METHODS.has(sent) ? sent : OTHER_METHOD;
}

interface Series {
  readonly route: string;
  readonly method: string;
  readonly code: string;
  readonly times: Histogram;
  count: number;
}

/** Requests since the start of the agent. */
export class RequestMeter {
  readonly #series = new Map<string, Series>();
  readonly #times = new Map<string, Histogram>();

  /** Notes one answer. @param seconds until its head was there */
  answered(method: string, route: string, status: number, seconds: number): void {
    const key = `${method} ${status} ${route}`;
    const series = this.#series.get(key) ?? this.#open(key, method, route, status);
    series.count += 1;
    series.times.observe(seconds);
  }

  #open(key: string, sent: string, route: string, status: number): Series {
    const method = methodName(sent);
    if (method !== sent) key = `${method} ${status} ${route}`;
    const before = this.#series.get(key);
    if (before !== undefined) return before;
    const place = `${method} ${route}`;
    const times = this.#times.get(place) ?? new Histogram(BOUNDS);
    this.#times.set(place, times);
    const series = { route, method, code: String(status), times, count: 0 };
    this.#series.set(key, series);
    return series;
  }

  families(): Family[] {
    const series = [...this.#series.values()];
    const seen = new Set<Histogram>();
    return [{
      name: "zonewright_http_requests_total",
      type: "counter",
      help: "Requests by route, method and status.",
      samples: series.map(({ route, method, code, count }) => ({
        labels: { route, method, code },
        value: count,
      })),
    }, {
      name: "zonewright_http_request_duration_seconds",
      type: "histogram",
      help: "Time until the head of an answer was there; a WebSocket's is that of its upgrade.",
      samples: series.flatMap(({ route, method, times }) => {
        if (seen.has(times)) return [];
        seen.add(times);
        return times.samples({ route, method });
      }),
    }];
  }
}
