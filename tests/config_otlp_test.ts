// Settings of the collector, and limits that must fit together.

import { assertEquals, assertThrows } from "@std/assert";
import { type ConfigSources, readConfig } from "../src/config/sources.ts";
import { AgentError } from "../src/domain/error.ts";

const SOURCES: ConfigSources = { flags: {}, env: {}, cwd: "/work", os: "linux" };
const OTEL = "OTEL_EXPORTER_OTLP_ENDPOINT";

function endpoint(sources: Partial<ConfigSources>): [string | null, string] {
  const { value, origin } = readConfig({ ...SOURCES, ...sources }).otlp_endpoint;
  return [value, "name" in origin ? origin.name : origin.kind];
}

function errorsOf(sources: Partial<ConfigSources>): string[] {
  const error = assertThrows(() => readConfig({ ...SOURCES, ...sources }), AgentError);
  return error.errors.map(({ message }) => message);
}

Deno.test("readConfig() takes the collector of the usual variable, unless it is told another", () => {
  assertEquals(endpoint({}), [null, "default"]);
  assertEquals(endpoint({ env: { [OTEL]: "" } }), [null, "default"]);
  const env = { [OTEL]: "http://127.0.0.1:4318/" };
  assertEquals(endpoint({ env }), ["http://127.0.0.1:4318", OTEL]);
  const file = { path: "/etc/z.toml", text: 'otlp_endpoint = "https://file.example.org"' };
  assertEquals(endpoint({ env, file })[1], OTEL);
  const own = { ...env, ZONEWRIGHT_OTLP_ENDPOINT: "https://own.example.org/otlp/" };
  assertEquals(endpoint({ env: own, file }), [
    "https://own.example.org/otlp",
    "ZONEWRIGHT_OTLP_ENDPOINT",
  ]);
  const flags = { "otlp-endpoint": "http://[::1]:4318" };
  assertEquals(endpoint({ env: own, flags }), ["http://[::1]:4318", "--otlp-endpoint"]);
});

Deno.test("readConfig() refuses a collector beyond this host without TLS, and what is no address", () => {
  assertEquals(errorsOf({ env: { [OTEL]: "http://collector:4318" } }), [
    `${OTEL}: "http://collector:4318" has no TLS: expected https, or http of a loopback address`,
  ]);
  for (const wrong of ["", "localhost:4318", "grpc://x"]) {
    assertEquals(errorsOf({ flags: { "otlp-endpoint": wrong } }), [
      `--otlp-endpoint: ${JSON.stringify(wrong)} is no URL of a collector, such as ` +
      `"http://127.0.0.1:4318"`,
    ]);
  }
});

Deno.test("readConfig() repeats no secret that stands in the address of a collector", () => {
  for (
    const wrong of ["https://a@c", "https://:hush@c", "https://c/?key=hush", "https://c/#hush"]
  ) {
    assertEquals(errorsOf({ env: { [OTEL]: wrong } }), [
      `${OTEL}: c: expected a URL without user, password, query and fragment: a token stands in ` +
      "otlp_headers_file",
    ]);
  }
});

Deno.test("readConfig() refuses limits that let in what the next cannot carry", () => {
  assertEquals(errorsOf({ flags: { "params-chars-max": "5000000" } }), [
    "--params-chars-max: 5000000 does not fit job_left_chars_max: expected at most 4194304, " +
    "which that is",
  ]);
  const text = "[limits]\njob_chars_max = 2_000_000";
  assertEquals(errorsOf({ file: { path: "/z.toml", text } }), [
    "/z.toml: job_chars_max: 2000000 does not fit job_left_chars_max: expected at least 4194304, " +
    "which that is",
  ]);
  assertEquals(errorsOf({ flags: { "task-log-chars-max": "20000" } }), [
    "--task-log-chars-max: 20000 does not fit task_info_chars_max: expected at most 16384, " +
    "which that is",
  ]);
  const flags = { "result-chars-max": "8388608", "job-chars-max": "16777216" };
  assertEquals(readConfig({ ...SOURCES, flags }).limits.result_chars_max.value, 8_388_608);
});
