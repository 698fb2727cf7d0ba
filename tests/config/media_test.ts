import { assertEquals, assertThrows } from "@std/assert";
import { readConfig } from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";

const SOURCES = { flags: {}, env: {}, cwd: "/here", os: "linux" };

function read(flags: Record<string, string | readonly string[]>) {
  return readConfig({ ...SOURCES, flags });
}

Deno.test("the settings of media have their documented defaults", () => {
  const { cache_max, download_rate, download_host, check_min, key_dir } = read({});
  assertEquals([cache_max.value, download_rate.value], [64 * 1024 ** 3, 0]);
  assertEquals([download_host.value, check_min.value, key_dir.value], [[], "index", null]);
});

Deno.test("a size is read in bytes or with a unit; off means no limit", () => {
  const sizes = { "1048576": 1_048_576, "20MiB": 20 * 1024 ** 2, "2TiB": 2 * 1024 ** 4, off: 0 };
  for (const [text, bytes] of Object.entries(sizes)) {
    assertEquals(read({ "cache-max": text }).cache_max.value, bytes);
    assertEquals(read({ "download-rate": text }).download_rate.value, bytes);
  }
  for (const text of ["-1", "1.5GiB", "64GB", "64 GiB", "", "9007199254740993", "many"]) {
    const error = assertThrows(() => read({ "cache-max": text }), AgentError);
    assertEquals(error.errors[0]?.message.includes("is not a size such as"), true, text);
  }
});

Deno.test("the least check is one of the levels, and hosts may have ports", () => {
  assertEquals(read({ "check-min": "signature" }).check_min.value, "signature");
  assertThrows(() => read({ "check-min": "gpg" }), AgentError);
  const hosts = ["cache.internal", "127.0.0.1:8443"];
  assertEquals(read({ "download-host": hosts }).download_host.value, hosts);
  assertThrows(() => read({ "download-host": ["https://a.example/"] }), AgentError);
  assertEquals(read({ "key-dir": "keys" }).key_dir.value, "/here/keys");
});
