import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { openSyncAhead } from "../../src/host/host_files.ts";

const MIB = 1024 * 1024;

/** A disk whose syncs end when the test lets them. */
function openDisk() {
  const syncs: PromiseWithResolvers<void>[] = [];
  return {
    syncs,
    sync: () => {
      const sync = Promise.withResolvers<void>();
      syncs.push(sync);
      return sync.promise;
    },
  };
}

Deno.test("a long file is synced while it is written, one sync at a time", async () => {
  const { syncs, sync } = openDisk();
  const ahead = openSyncAhead(sync, "linux");
  for (let part = 0; part < 31; part += 1) ahead.wrote(MIB);
  assertEquals(syncs.length, 0);
  ahead.wrote(MIB);
  assertEquals(syncs.length, 1);
  for (let part = 0; part < 100; part += 1) ahead.wrote(MIB);
  assertEquals(syncs.length, 1);
  syncs[0]?.resolve();
  await ahead.ended();
  ahead.wrote(1);
  assertEquals(syncs.length, 2);
  syncs[1]?.resolve();
  await ahead.ended();
});

Deno.test("a short file is not synced early, and no file where the system does so itself", async () => {
  const { syncs, sync } = openDisk();
  const short = openSyncAhead(sync, "linux");
  short.wrote(31 * MIB);
  await short.ended();
  const elsewhere = openSyncAhead(sync, "illumos");
  elsewhere.wrote(512 * MIB);
  await elsewhere.ended();
  assertEquals(syncs.length, 0);
});

Deno.test("a failed sync is reported at the next write and at the end", async () => {
  const { syncs, sync } = openDisk();
  const ahead = openSyncAhead(sync, "linux");
  ahead.wrote(32 * MIB);
  const ended = ahead.ended();
  syncs[0]?.reject(new Error("ENOSPC"));
  await assertRejects(() => ended, Error, "ENOSPC");
  assertThrows(() => ahead.wrote(1), Error, "ENOSPC");
  await assertRejects(() => ahead.ended(), Error, "ENOSPC");
});
