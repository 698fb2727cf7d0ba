// OTLP: an agent that is told of a collector sends spans of requests and jobs, and its figures, as
// opentelemetry-proto writes them in JSON. From source Deno's own does it where OTEL_DENO is set.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { sourceProgram, startAgentProcess } from "../support/agent_process.ts";
import {
  attributesOf,
  type Collector,
  metricsOf,
  openCollector,
  spansOf,
} from "../support/collector.ts";
import { listed, rawCall } from "../http/raw_call.ts";
import { until, withFolder } from "../support/until.ts";
import { journey } from "./programs.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLER = "b7ad6b7169203331";

async function withCollector(run: (collector: Collector) => Promise<void>): Promise<void> {
  const collector = openCollector();
  try {
    await run(collector);
  } finally {
    await collector.close();
  }
}

/** A workflow with a task that succeeds and one that fails. */
const WORKFLOW: JsonObject = {
  name: "traced",
  chain: [
    { name: "first", body: "(job, cb) => cb(null, 1)" },
    { name: "second", body: "(job, cb) => cb(new TypeError('a secret'))" },
  ],
};

journey("an agent sends spans and figures to the collector of its environment", async (program) => {
  await withCollector((collector) =>
    withFolder(async (folder) => {
      const headers = join(folder, "headers");
      await Deno.writeTextFile(headers, "# for the collector\nauthorization: Bearer x\n", {
        mode: 0o600,
      });
      const agent = await startAgentProcess(
        program,
        join(folder, "state"),
        ["--dev", "--otlp-headers-file", headers],
        { OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`, OTEL_SERVICE_NAME: "of-a-test" },
      );
      let uuid = "";
      let odd = 0;
      try {
        const workflow = await agent.post("/workflows", WORKFLOW);
        const job = await agent.post("/jobs", { workflow: `${workflow.body.uuid}` });
        uuid = `${job.body.uuid}`;
        await agent.job(uuid, "failure");
        const traceparent = `00-${TRACE}-${CALLER}-01`;
        await (await fetch(`${agent.url}/jobs/${uuid}`, { headers: { traceparent } })).text();
        const unsampled = { traceparent: `00-${TRACE}-${CALLER}-00` };
        await (await fetch(`${agent.url}/workflows`, { headers: unsampled })).text();
        // A target that is no URL is answered like any other, or refused by the runtime itself.
        const port = Number(new URL(agent.url).port);
        const put = listed(["PUT http://[/x HTTP/1.1", "Host: localhost"]);
        odd = (await rawCall(port, put, { firstOnly: true })).status;
        assert([400, 404].includes(odd), `${odd}`);
      } finally {
        assertEquals(await agent.stop(), 0);
      }
      assertEquals(collector.headers().get("authorization"), "Bearer x");
      const traces = collector.received.get("/v1/traces") ?? [];
      const spans = spansOf(traces);
      const [{ resource }] = (traces[0] as JsonObject).resourceSpans as [{ resource: JsonObject }];
      assertEquals(attributesOf(resource)["service.name"], "of-a-test");
      checkRequests(spans, uuid);
      assertEquals(spans.filter(({ name }) => name === "PUT").length, odd === 404 ? 1 : 0);
      checkJob(spans, uuid);
      checkFigures(metricsOf(collector.received.get("/v1/metrics")));
      assert(!JSON.stringify(traces).includes("a secret"));
    })
  );
});

function checkRequests(spans: readonly JsonObject[], uuid: string): void {
  const read = spans.find((span) => span.traceId === TRACE);
  assertEquals(read?.parentSpanId, CALLER);
  assertEquals(read?.name, "GET /jobs/:job_uuid");
  assertEquals(read?.kind, 2);
  const attributes = attributesOf(read as JsonObject);
  assertEquals(attributes["http.response.status_code"], 200);
  assertEquals(attributes["url.path"], `/jobs/${uuid}`);
  assertEquals(spans.filter((span) => span.name === "GET /workflows"), []);
  for (const span of spans) {
    assertMatch(`${span.traceId}`, /^[0-9a-f]{32}$/);
    assertMatch(`${span.spanId}`, /^[0-9a-f]{16}$/);
    assertMatch(`${span.startTimeUnixNano}`, /^\d{19}$/);
    assert(BigInt(`${span.endTimeUnixNano}`) >= BigInt(`${span.startTimeUnixNano}`));
  }
}

/** The job and its tasks are one trace, which has the digits of its uuid. */
function checkJob(spans: readonly JsonObject[], uuid: string): void {
  const own = spans.filter((span) => span.traceId === uuid.replaceAll("-", ""));
  assertEquals(own.map(({ name }) => name), ["job traced", "task first", "task second"]);
  assertEquals(own.map(({ status }) => status), [{ code: 2 }, {}, { code: 2 }]);
  const [job, ...tasks] = own;
  for (const { parentSpanId } of tasks) assertEquals(parentSpanId, job?.spanId);
  assertEquals(attributesOf(tasks[1] as JsonObject)["error.type"], "TypeError");
}

function checkFigures(metrics: readonly JsonObject[]): void {
  const points = (name: string, kind: string) => {
    const data = metrics.find((metric) => metric.name === name)?.[kind] as JsonObject;
    return data.dataPoints as JsonObject[];
  };
  const ended = points("zonewright_jobs_total", "sum");
  const failed = ended.find((point) => attributesOf(point).result === "failed");
  assertEquals(failed?.asDouble, 1);
  assertEquals(points("zonewright_runner_slots", "gauge")[0]?.asDouble, 4);
  const tasks = points("zonewright_task_duration_seconds", "histogram");
  const success = tasks.find((point) => attributesOf(point).result === "success") as JsonObject;
  const counts = success.bucketCounts as string[];
  assertEquals(counts.length, (success.explicitBounds as number[]).length + 1);
  assertEquals(counts.reduce((sum, count) => sum + Number(count), 0), 1);
  assertEquals(success.count, "1");
}

Deno.test("a collector that fails loses nothing that it takes later, and holds nobody up (from source)", async () => {
  await withCollector((collector) =>
    withFolder(async (folder) => {
      collector.answer = 503;
      const flags = ["--dev", "--otlp-endpoint", collector.url];
      const agent = await startAgentProcess(sourceProgram(), join(folder, "state"), flags);
      try {
        assertEquals((await agent.get("/stats")).status, 200);
        await until("the failure to be told", () => {
          return agent.log().includes("collector not reached") ? true : undefined;
        }, 30_000);
        collector.answer = 200;
      } finally {
        assertEquals(await agent.stop(), 0);
      }
      const names = spansOf(collector.received.get("/v1/traces")).map(({ name }) => name);
      assertEquals(names, ["GET /stats"]);
    })
  );
});

Deno.test("an agent whose environment has OTEL_DENO leaves it to the runtime (from source)", async () => {
  await withCollector((collector) =>
    withFolder(async (folder) => {
      const agent = await startAgentProcess(sourceProgram(), join(folder, "state"), ["--dev"], {
        OTEL_DENO: "true",
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_BSP_SCHEDULE_DELAY: "100",
        OTEL_SERVICE_NAME: "zonewright-of-a-test",
      });
      try {
        assertEquals((await agent.get("/stats?from=otlp")).status, 200);
        const spans = await until("a span of the request", () => {
          const text = JSON.stringify(collector.received.get("/v1/traces") ?? []);
          return text.includes("from=otlp") ? text : undefined;
        }, 60_000);
        assertEquals(spans.includes("zonewright-of-a-test"), true);
        assert(agent.log().includes("telemetry left to the runtime"));
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    })
  );
});
