// OTLP is the runtime's own: spans and figures of every request, sent to a collector. Only from
// source, since a compiled binary has it on or off from its build; see docs/operations.md.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { sourceProgram, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";

Deno.test("an agent whose environment has OTEL_DENO sends its spans to the collector (from source)", async () => {
  const received = new Map<string, string>();
  const collector = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const { pathname } = new URL(request.url);
      received.set(pathname, (received.get(pathname) ?? "") + await request.text());
      return Response.json({});
    },
  );
  try {
    await withFolder(async (folder) => {
      const agent = await startAgentProcess(sourceProgram(), join(folder, "state"), ["--dev"], {
        OTEL_DENO: "true",
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.addr.port}`,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_BSP_SCHEDULE_DELAY: "100",
        OTEL_SERVICE_NAME: "zonewright-of-a-test",
      });
      try {
        assertEquals((await agent.get("/stats?from=otlp")).status, 200);
        const spans = await until("a span of the request", () => {
          const text = received.get("/v1/traces");
          return text?.includes("from=otlp") ? text : undefined;
        }, 60_000);
        assertEquals(spans.includes("zonewright-of-a-test"), true);
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    });
  } finally {
    await collector.shutdown();
  }
});
