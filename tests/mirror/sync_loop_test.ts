import { assert, assertEquals } from "@std/assert";
import { silentLog } from "../../src/metrics/log.ts";
import { nextSyncMs, syncRegularly } from "../../src/agent/mirror.ts";
import { until } from "../support/until.ts";
import { withMirror } from "./test_mirror.ts";

Deno.test("nextSyncMs() moves the interval by a tenth at most, and waits as long as is asked", () => {
  const times = (random: number) => ({ intervalSeconds: 3600, random: () => random });
  assertEquals(nextSyncMs(times(0.5), 0), 3_600_000);
  assertEquals(nextSyncMs(times(0), 0), 3_240_000);
  assert(nextSyncMs(times(0.999), 0) < 3_960_000);
  assertEquals(nextSyncMs(times(0.5), 7200), 7_200_000);
  assertEquals(nextSyncMs(times(0.5), 60), 3_600_000);
});

Deno.test("syncRegularly() syncs at start, again after a failure, and stops", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.faults.set("v1/index.json", Array(3).fill({ kind: "status", status: 500 }));
    const syncing = syncRegularly(mirror, 0.02, silentLog, () => 0);
    await until("the second sync", () => mirror.generation >= 2);
    await syncing.stop();
    const { generation } = mirror;
    assert(server.countOf("v1/openapi.json") > 0);
    assertEquals([mirror.syncing, mirror.generation], [false, generation]);
  });
});

Deno.test("syncRegularly() without an interval syncs once, and without an upstream never", async () => {
  await withMirror(async ({ mirror, again }) => {
    const once = syncRegularly(mirror, 0, silentLog);
    await until("the sync", () => mirror.generation === 1);
    await once.stop();
    await syncRegularly(again({ upstream: null }), 1, silentLog).stop();
    assertEquals(mirror.generation, 1);
  });
});
