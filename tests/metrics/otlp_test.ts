// What an exporter does with a collector that takes nothing, late or not at all.

import { assertEquals } from "@std/assert";
import { openOtlp, type OtlpOptions, WAITING_MAX } from "../../src/metrics/otlp.ts";
import type { Span } from "../../src/metrics/otlp_document.ts";
import { type Collector, openCollector, spansOf } from "../support/collector.ts";
import { until } from "../support/until.ts";

interface Told {
  readonly message: string;
  readonly fields: Record<string, unknown>;
}

async function withExporter(
  run: (
    collector: Collector,
    open: (options?: Partial<OtlpOptions>) => ReturnType<typeof openOtlp>,
    told: readonly Told[],
  ) => Promise<void>,
): Promise<void> {
  const collector = openCollector();
  const told: Told[] = [];
  const tell = (message: string, fields: Record<string, unknown>) =>
    void told.push({ message, fields });
  const open = (options: Partial<OtlpOptions> = {}) =>
    openOtlp({
      endpoint: collector.url,
      headers: {},
      fetch,
      figures: () => Promise.resolve([]),
      nowMs: () => 1_700_000_000_000.25,
      log: { info: tell, warn: tell },
      version: "1.2.3",
      resource: { "service.name": "test", ratio: 0.5, on: true, count: 3 },
      ...options,
    });
  try {
    await run(collector, open, told);
  } finally {
    await collector.close();
  }
}

function span(name: string): Span {
  return {
    traceId: "0af7651916cd43dd8448eb211c80319c",
    spanId: "b7ad6b7169203331",
    name,
    kind: "internal",
    startMs: 1_700_000_000_000.25,
    endMs: 1_700_000_000_001,
    attributes: {},
    failed: false,
  };
}

Deno.test("an exporter writes what the protocol wants", async () => {
  await withExporter(async (collector, open) => {
    const otlp = open();
    otlp.add(() => [span("one")]);
    otlp.add(() => Promise.resolve([]));
    await otlp.stop();
    assertEquals(collector.received.get("/v1/traces"), [{
      resourceSpans: [{
        resource: {
          attributes: [
            { key: "service.name", value: { stringValue: "test" } },
            { key: "ratio", value: { doubleValue: 0.5 } },
            { key: "on", value: { boolValue: true } },
            { key: "count", value: { intValue: "3" } },
          ],
        },
        scopeSpans: [{
          scope: { name: "zonewright", version: "1.2.3" },
          spans: [{
            traceId: "0af7651916cd43dd8448eb211c80319c",
            spanId: "b7ad6b7169203331",
            name: "one",
            kind: 1,
            startTimeUnixNano: "1700000000000250000",
            endTimeUnixNano: "1700000000001000000",
            attributes: [],
            status: {},
          }],
        }],
      }],
    }]);
    assertEquals(collector.received.get("/v1/metrics")?.length, 1);
    otlp.add(() => [span("too late")]);
    await otlp.stop();
    assertEquals(spansOf(collector.received.get("/v1/traces")).length, 1);
  });
});

Deno.test("many spans do not wait for their time, and all arrive once", async () => {
  await withExporter(async (collector, open) => {
    const otlp = open();
    for (let count = 0; count < 2000; count++) otlp.add(() => [span(`${count}`)]);
    await until("the first to arrive", () => collector.received.has("/v1/traces"));
    await otlp.stop();
    const names = spansOf(collector.received.get("/v1/traces")).map(({ name }) => Number(name));
    assertEquals(names, Array.from({ length: 2000 }, (_, at) => at));
  });
});

Deno.test("what a collector does not take waits up to a bound, and the rest is told of", async () => {
  await withExporter(async (collector, open, told) => {
    collector.answer = 503;
    const otlp = open();
    for (let count = 0; count < WAITING_MAX + 10; count++) otlp.add(() => [span(`${count}`)]);
    await until("the failure to be told", () => told.length > 0);
    collector.answer = 200;
    await otlp.stop();
    const spans = spansOf(collector.received.get("/v1/traces"));
    assertEquals(spans[0]?.name, "0");
    const messages = told.map(({ message }) => message);
    assertEquals(messages, [
      "collector not reached",
      "collector answers again",
      "spans lost: the collector did not take them",
    ]);
    assertEquals(spans.length + Number(told[2]?.fields.spans), WAITING_MAX + 10);
  });
});

Deno.test("spans that a collector refuses are not sent again; nobody waits for one that is silent", async () => {
  await withExporter(async (collector, open, told) => {
    collector.answer = 400;
    const refused = open();
    refused.add(() => [span("bad")]);
    await refused.stop();
    assertEquals(told.map(({ fields }) => [fields.path, fields.why ?? fields.spans]), [
      ["/v1/traces", "it answered 400"],
      ["/v1/metrics", "it answered 400"],
      [undefined, 1],
    ]);
  });
  await withExporter(async (_collector, open, told) => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const silent = open({ endpoint: `http://127.0.0.1:${listener.addr.port}` });
    silent.add(() => [span("unheard")]);
    const beganMs = performance.now();
    await silent.stop();
    assertEquals(performance.now() - beganMs < 10_000, true);
    listener.close();
    assertEquals(told.at(-1)?.fields.spans, 1);
  });
});

Deno.test("of several makers about the same thing the last one is sent, and one that fails is left out", async () => {
  await withExporter(async (collector, open, told) => {
    const otlp = open();
    otlp.add(() => [span("canceled")], "job");
    otlp.add(() => Promise.reject(new TypeError("gone")), "other");
    otlp.add(() => [span("undone")], "job");
    await otlp.stop();
    const names = spansOf(collector.received.get("/v1/traces")).map(({ name }) => name);
    assertEquals(names, ["undone"]);
    assertEquals(told.map(({ message }) => message), ["spans not made for the collector"]);
  });
});

Deno.test("spans are made one after the other, and no more than are sent together", async () => {
  await withExporter(async (collector, open) => {
    collector.answer = 503;
    const otlp = open();
    let making = 0;
    let most = 0;
    const made = new Set<number>();
    for (let count = 0; count < 600; count++) {
      otlp.add(async () => {
        most = Math.max(most, ++making);
        await Promise.resolve();
        making -= 1;
        made.add(count);
        return Array.from({ length: 100 }, () => span(`${count}`));
      });
    }
    await otlp.stop();
    assertEquals([most, made.size], [1, 41]);
  });
});

Deno.test("a collector that takes no figures is told of once, whatever it takes of spans", async () => {
  await withExporter(async (collector, open, told) => {
    let refused = 0;
    const noFigures: typeof fetch = (url, init) => {
      if (!`${url}`.endsWith("/v1/metrics")) return fetch(url, init);
      refused += 1;
      return Promise.resolve(new Response(null, { status: 404 }));
    };
    const otlp = open({ fetch: noFigures, figuresEveryMs: 5 });
    const arrived = () => spansOf(collector.received.get("/v1/traces")).length;
    for (const round of [1, 2, 3]) {
      await until("figures to be refused", () => refused >= 2 * round);
      // As many as do not wait for their time.
      for (let count = 0; count < 512; count++) otlp.add(() => [span(`${count}`)]);
      await until("the spans to arrive", () => arrived() === 512 * round);
    }
    await otlp.stop();
    assertEquals(told.map(({ fields }) => fields.path), ["/v1/metrics"]);
  });
});
