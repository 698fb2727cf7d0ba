// What is told to a collector: a span for every request and every job with its tasks, and the figures
// of /metrics. Loaded when there is a collector, and costs nothing else.

import type { Ground } from "./runner.ts";
import { openFigures } from "./readiness.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Meters } from "../metrics/meters.ts";
import { readSecretHeaders } from "../state/secret_file.ts";
import type { Store } from "../store/store.ts";
import { VERSION } from "../program/version.ts";

/**
 * Starts to tell the collector of the configuration, if there is one.
 * @throws {AgentError} `invalid_argument` or `forbidden` for a file of headers that is no good
 */
export async function openTelemetry(ground: Ground, store: Store, meters: Meters): Promise<void> {
  const { config, log, now, opened } = ground;
  const endpoint = config.otlp_endpoint.value;
  if (endpoint === null) return;
  if (!Deno.build.standalone && /^(1|true)$/.test(Deno.env.get("OTEL_DENO") ?? "")) {
    return log.info("telemetry left to the runtime", { because: "OTEL_DENO is set" });
  }
  const path = config.otlp_headers_file.value;
  const headers = path === null ? {} : await readSecretHeaders(path);
  const { openOtlp } = await import("../metrics/otlp.ts");
  const { jobSpans, requestSpan } = await import("../metrics/spans.ts");
  const nowMs = () => Date.parse(now());
  const otlp = openOtlp({
    endpoint,
    headers: { ...headers, "user-agent": `zonewright/${VERSION}` },
    fetch,
    figures: openFigures(ground, store, meters),
    nowMs,
    log,
    version: VERSION,
    resource: {
      "service.name": Deno.env.get("OTEL_SERVICE_NAME") ?? "zonewright",
      "service.version": VERSION,
      "host.name": Deno.hostname(),
      "process.pid": Deno.pid,
    },
  });
  meters.told.answered = (answered) => {
    const span = requestSpan(answered, nowMs());
    if (span !== undefined) otlp.add(() => [span]);
  };
  // A job that is canceled and then undone ends twice.
  meters.told.jobEnded = (uuid: JobUuid) =>
    otlp.add(async () => {
      const job = await store.jobs.get(uuid);
      return job === undefined ? [] : jobSpans(job);
    }, uuid);
  opened("telemetry", () => otlp.stop());
  log.info("telemetry sent", { endpoint });
}
