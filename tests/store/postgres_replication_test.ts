// A database whose rows are also sent elsewhere by logical replication, such as for a move to a newer server.

import { assertEquals } from "@std/assert";
import { jobOf } from "../support/job.ts";
import { fleetTests } from "./postgres_fleet.ts";
import { create } from "./store_case.ts";

const fleetTest = fleetTests();

fleetTest("a database that publishes all its tables takes every change", async ({ one, db }) => {
  await db.write((tx) => tx.script("CREATE PUBLICATION everything FOR ALL TABLES"));
  const { uuid } = await create(one, jobOf(1));
  await one.jobs.cancel(uuid);
  // Numbers them, and removes all but the newest.
  const given = await db.write((tx) => tx.row("SELECT number_events(100, 1) > 1 AS several"));
  assertEquals(given, { several: true });
  const left = await db.read((tx) => tx.row("SELECT count(*)::int AS events FROM events"));
  assertEquals(left, { events: 1 });
});
