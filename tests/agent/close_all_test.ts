// Closing the parts of an agent: in reverse order, whatever one of them does.

import { assertEquals } from "@std/assert";
import { closeAll } from "../../src/agent/shared_parts.ts";
import type { Log } from "../../src/metrics/log.ts";
import { silentLog } from "../../src/metrics/log.ts";

Deno.test("closeAll() goes on after a part that fails, and after one that never closes", async () => {
  const closed: string[] = [];
  const left: unknown[] = [];
  const log: Log = { ...silentLog, error: (_message, fields) => void left.push(fields?.part) };
  const part = (name: string, close: () => void | Promise<void>) => ({ name, close });
  await closeAll(
    [
      part("store", () => void closed.push("store")),
      part("pool", () => new Promise(() => {})),
      part("mirror", () => Promise.reject(new Error("no disk"))),
      part("http", async () => void closed.push(await Promise.resolve("http"))),
    ],
    log,
    20,
  );
  assertEquals(closed, ["http", "store"]);
  assertEquals(left, ["mirror", "pool"]);
});
