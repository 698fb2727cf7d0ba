import { assertEquals, assertThrows } from "@std/assert";
import { expositionText, Histogram } from "../../src/metrics/exposition.ts";
import { RequestMeter } from "../../src/metrics/meters.ts";
import { readExposition, valueOf } from "./exposition_reader.ts";

Deno.test("a value of a label cannot forge a line", () => {
  const text = expositionText([{
    name: "zonewright_sample",
    type: "gauge",
    help: "One\nline.",
    samples: [{ labels: { word: 'a"} 1\nb\\' }, value: 2 }],
  }]);
  assertEquals(
    text,
    "# HELP zonewright_sample One\\nline.\n# TYPE zonewright_sample gauge\n" +
      'zonewright_sample{word="a\\"} 1\\nb\\\\"} 2\n',
  );
  assertEquals(readExposition(text).length, 1);
});

Deno.test("a histogram counts a duration in every bucket from its bound on", () => {
  const times = new Histogram([0.1, 1]);
  for (const seconds of [0.05, 0.1, 0.5, 7]) times.observe(seconds);
  assertEquals(times.samples({ route: "/x" }).map(({ suffix, value }) => [suffix, value]), [
    ["_bucket", 2],
    ["_bucket", 3],
    ["_bucket", 4],
    ["_sum", 7.65],
    ["_count", 4],
  ]);
});

Deno.test("a request with a made-up method opens no series of its own", () => {
  const meter = new RequestMeter();
  for (const method of ["BREW", "WHEN", "GET"]) meter.answered(method, "none", 405, 0.001);
  const families = readExposition(expositionText(meter.families()));
  const of = (method: string) =>
    valueOf(families, "http_requests_total", { route: "none", method, code: "405" });
  assertEquals([of("BREW"), of("other"), of("GET")], [undefined, 2, 1]);
});

Deno.test("the reader of these tests refuses text that breaks the exposition format", () => {
  const head = "# HELP zonewright_x_total X.\n# TYPE zonewright_x_total counter\n";
  for (
    const text of [
      "zonewright_x_total 1\n",
      `${head}zonewright_x_total 1`,
      `${head}zonewright_x_total{a=b} 1\n`,
      `${head}zonewright_x_total one\n`,
      `${head}zonewright_x_total 1\nzonewright_x_total 2\n`,
      head.replaceAll("_total", "_ms"),
      head.replace("counter", "gauge"),
    ]
  ) {
    assertThrows(() => readExposition(text));
  }
});
