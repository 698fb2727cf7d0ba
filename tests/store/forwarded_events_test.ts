// The events of a host's own file on their way into the database that hosts share.

import { assertEquals } from "@std/assert";
import { messageOf } from "../../src/domain/error.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { forwardEvents } from "../../src/store/postgres/postgres_store.ts";
import { until } from "../support/until.ts";
import { fileOf } from "./media_suite.ts";

Deno.test("events that arrive during a write are written after it", async () => {
  const [local, shared] = await Promise.all([
    openSqliteStore(":memory:"),
    openSqliteStore(":memory:"),
  ]);
  const written = Promise.withResolvers<void>();
  let begun = 0;
  const { append, follow } = shared.events;
  const forwarding = forwardEvents(local.events, {
    follow,
    async append(event) {
      begun += 1;
      await written.promise;
      return await append(event);
    },
  }, () => {});
  try {
    await local.media.keep(fileOf(1));
    await until("the first to be written", () => begun === 1);
    await local.media.keep(fileOf(2));
    written.resolve();
    const told = async () => (await shared.events.after(0, 10)).events.length;
    await until("the second", async () => await told() === 2, 10_000);
  } finally {
    await forwarding.stop();
    await Promise.all([local.close(), shared.close()]);
  }
});

Deno.test("events that cannot be written are reported once, and written later", async () => {
  const [local, shared] = await Promise.all([
    openSqliteStore(":memory:"),
    openSqliteStore(":memory:"),
  ]);
  const failures: unknown[] = [];
  let refused = 0;
  const { append, follow } = shared.events;
  const forwarding = forwardEvents(local.events, {
    follow,
    async append(event) {
      if (refused < 2) {
        refused += 1;
        throw new Error("a row that is not accepted");
      }
      return await append(event);
    },
  }, (error) => failures.push(error));
  try {
    for (let number = 1; number <= 3; number++) {
      await local.media.keep(fileOf(number));
      await until("the look", () => refused >= Math.min(number, 2), 10_000);
    }
    const count = async () => (await shared.events.after(0, 10)).events.length;
    await until("all three", async () => await count() === 3, 10_000);
    assertEquals(failures.map(messageOf), ["a row that is not accepted"]);
  } finally {
    await forwarding.stop();
    await Promise.all([local.close(), shared.close()]);
  }
});
