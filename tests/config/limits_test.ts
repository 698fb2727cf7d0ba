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
    '/z.toml: unknown key "otlp_endpoint", expected the name of a setting',
  ]);
});

Deno.test("readConfig() refuses limits above what a task can return, and removed limits", () => {
  assertEquals(errorsOf({ flags: { "params-chars-max": "5000000" } }), [
    '--params-chars-max: "5000000" is not an integer from 256 to 4194304',
  ]);
  const text = "[limits]\njob_chars_max = 2_000_000";
  assertEquals(errorsOf({ file: { path: "/z.toml", text } }), [
    '/z.toml [limits]: unknown key "job_chars_max": did you mean "source_chars_max"?',
  ]);
});
