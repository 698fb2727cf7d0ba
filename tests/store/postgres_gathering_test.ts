// Which writes of an agent wait for others, before they go to the server of a database that hosts share.

import { assertEquals } from "@std/assert";
import { WaitingWrites } from "../../src/store/postgres/write_groups.ts";
import { withDeadline } from "../support/until.ts";

const KIND = {};
const WRITE = { kind: KIND, bytes: () => 1 };

Deno.test("a write waits a bounded time, however long the commit before it took", async () => {
  for (const write of [WRITE, { ...WRITE, pace: "patient" } as const]) {
    const writes = new WaitingWrites<typeof write>();
    // Sixteen were answered after an hour, such as the wait for a standby.
    writes.committed(16, 3_600_000);
    writes.add(write);
    const taken = await withDeadline(writes.next(), 60_000, () => "the write to be taken");
    assertEquals(taken, [write]);
  }
});
