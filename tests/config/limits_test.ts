// Limits that must fit together, and settings that are gone.

import { assertEquals, assertThrows } from "@std/assert";
import { type ConfigSources, readConfig } from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";

const SOURCES: ConfigSources = { flags: {}, env: {}, cwd: "/work", os: "linux" };

function errorsOf(sources: Partial<ConfigSources>): string[] {
  const error = assertThrows(() => readConfig({ ...SOURCES, ...sources }), AgentError);
  return error.errors.map(({ message }) => message);
}

Deno.test("readConfig() refuses otlp_endpoint as an unknown key", () => {
  const text = 'otlp_endpoint = "http://127.0.0.1:4318"';
  assertEquals(errorsOf({ file: { path: "/z.toml", text } }), [
    '/z.toml: unknown key "otlp_endpoint"',
  ]);
});

Deno.test("readConfig() refuses limits that let in what the next cannot carry", () => {
  assertEquals(errorsOf({ flags: { "params-chars-max": "5000000" } }), [
    "--params-chars-max: 5000000 does not fit job_left_chars_max: expected at most 4194304",
  ]);
  const text = "[limits]\njob_chars_max = 2_000_000";
  assertEquals(errorsOf({ file: { path: "/z.toml", text } }), [
    "/z.toml: job_chars_max: 2000000 does not fit job_left_chars_max: expected at least 4194304",
  ]);
  assertEquals(errorsOf({ flags: { "task-log-chars-max": "20000" } }), [
    "--task-log-chars-max: 20000 does not fit task_info_chars_max: expected at most 16384",
  ]);
  const flags = { "result-chars-max": "8388608", "job-chars-max": "16777216" };
  assertEquals(readConfig({ ...SOURCES, flags }).limits.result_chars_max.value, 8_388_608);
});
