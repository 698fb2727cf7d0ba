// The body of a stream of events: what ends it, and what it does with a reader that is too slow.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { OwnEvent } from "../../src/domain/event.ts";
import { openEventFeed } from "../../src/http/routes/events/feed.ts";
import { eventStream, startAt } from "../../src/http/routes/events/events.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { EVENTS_KEPT } from "../../src/store/event_store.ts";
import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { openClockedStore } from "../support/clocked_store.ts";
import { until, withFolder } from "../support/until.ts";
import { RUNNER, T0 } from "../support/job.ts";
import { LOST_ACCESS } from "../../src/http/caller.ts";
import type { Timers } from "../../src/runtime/timers.ts";
import { quickTimers } from "../support/timers.ts";

/** As long as an event may be, nearly. */
const NOTE: OwnEvent = {
  kind: "host",
  payload: { host_uuid: RUNNER, change: "started", detail: "x".repeat(1900) },
};
/** So many of them are more than may wait for a reader. */
const NOTES = 700;

/** Opens a stream over a new store and runs a function with both. */
async function withStream(
  run: (
    reader: ReadableStreamDefaultReader<Uint8Array>,
    note: () => Promise<void>,
    ended: string[],
    closing: AbortController,
  ) => Promise<void>,
  options: { timers?: Timers; allowed?: () => Promise<boolean> } = {},
  path = ":memory:",
): Promise<void> {
  const store = await openClockedStore(path);
  const closing = new AbortController();
  const feed = openEventFeed({ store, now: () => T0, host: "gz", log: silentLog });
  const ended: string[] = [];
  const stream = eventStream({
    feed,
    filter: {},
    start: { kind: "at", seq: 0 },
    showsParams: true,
    allowed: () => Promise.resolve(true),
    closing: closing.signal,
    taken: () => {},
    ended: (why) => ended.push(why),
    ...options,
  });
  try {
    await run(stream.getReader(), () => store.events.append(NOTE), ended, closing);
  } finally {
    closing.abort();
    await store.close();
  }
}

Deno.test("a reader that accepts nothing is cut when too much is buffered, and misses nothing", () =>
  withStream(async (reader, note, ended) => {
    await reader.read();
    // The first of these is taken by the request for more that this read makes.
    const second = reader.read();
    await note();
    await second;
    await until("the reader to be cut", async () => {
      await Promise.all(Array.from({ length: NOTES }, note));
      return ended.length > 0;
    });
    assertStringIncludes(ended[0] ?? "", "bytes wait for it");
    await assertRejects(() => reader.read(), Error, "Cannot continue the stream of events");
  }));

/** Reads a stream to its end. */
async function readAll(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    text += decoder.decode(read.value);
  }
  return text;
}

Deno.test("a reader that reconnects gets missed events at its own pace", () =>
  withStream(async (reader, note, ended) => {
    await Promise.all(Array.from({ length: NOTES }, note));
    let text = "";
    await until("all events", async () => {
      text += new TextDecoder().decode((await reader.read()).value);
      return text.includes(`id: ${NOTES}\nevent`);
    });
    const ids = [...text.matchAll(/^id: (\d+)\nevent: host$/gm)].map(([, id]) => Number(id));
    assertEquals(ids, Array.from({ length: NOTES }, (_, at) => at + 1));
    assertEquals(ended, []);
  }));

Deno.test("a reader whose next events were removed is cut, and is never sent a gap", () =>
  withFolder(async (folder) => {
    const path = join(folder, "store.db");
    await withStream(
      async (reader, note, ended) => {
        await reader.read();
        for (let made = 0; made < 3; made++) await note();
        const db = new Database(path);
        db.exec("DELETE FROM events WHERE seq <= 2");
        db.close();
        await assertRejects(() => reader.read(), Error, "those after 0 are no longer kept");
        assertEquals(ended.length, 1);
      },
      {},
      path,
    );
  }));

Deno.test("a stream sends the last events before the agent stops", () =>
  withStream(async (reader, note, ended, closing) => {
    await reader.read();
    const rest = readAll(reader);
    await note();
    closing.abort();
    assertStringIncludes(await rest, "id: 1\nevent: host");
    assertEquals(ended, ["the agent is stopping"]);
  }));

Deno.test("a stream ends in order when the token of its reader is revoked", async () => {
  let good = true;
  await withStream(async (reader, _note, ended) => {
    await reader.read();
    good = false;
    for (let read = await reader.read(); !read.done;) read = await reader.read();
    assertEquals(ended, [LOST_ACCESS]);
  }, { timers: quickTimers(1000), allowed: () => Promise.resolve(good) });
});

Deno.test("a heartbeat carries the position to continue from", () =>
  withStream(async (reader, note) => {
    await note();
    let text = "";
    await until("a sign of life behind the event", async () => {
      const { value } = await reader.read();
      text += new TextDecoder().decode(value);
      return text.includes(": heartbeat\nid: 1\n\n");
    });
    assert(text.indexOf("event: host") < text.indexOf(": heartbeat\nid: 1"));
  }, { timers: quickTimers(1000) }));

Deno.test("the newest events are kept up to a limit, and no id is reused", () =>
  withFolder(async (folder) => {
    const path = join(folder, "store.db");
    await (await openClockedStore(path)).close();
    const db = new Database(path);
    const total = EVENTS_KEPT + 5000;
    db.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${total})
      INSERT INTO events (kind, at, body) SELECT 'host', '${T0}', '{}' FROM n`);
    db.close();
    const store = await openClockedStore(path);
    const { first, last } = await store.events.bounds();
    assertEquals(last, total);
    const kept = last - first + 1;
    assert(kept >= EVENTS_KEPT && kept < EVENTS_KEPT + 2000, `${kept} are kept`);
    // Who has read all before the oldest one misses nothing; who has not is to read the lists again.
    assertEquals(startAt(String(first - 1), { first, last, prefix: "" }), {
      kind: "at",
      seq: first - 1,
    });
    for (const seq of [first - 2, 0]) {
      const reset = { kind: "reset", reason: "old", seq: last } as const;
      assertEquals(startAt(String(seq), { first, last, prefix: "" }), reset);
    }
    await store.events.append(NOTE);
    assertEquals((await store.events.bounds()).last, total + 1);
    await store.close();
  }));

Deno.test("an id of a host's own store is unknown to a shared database, and the reverse", () => {
  const bounds = { first: 1, last: 9 };
  const at = (id: string, prefix: string) => startAt(id, { ...bounds, prefix });
  for (const prefix of ["", "s"]) {
    assertEquals(at(`${prefix}5`, prefix), { kind: "at", seq: 5 });
    assertEquals(at("0", prefix), { kind: "at", seq: 0 });
    const other = prefix === "" ? "s5" : "5";
    assertEquals(at(other, prefix), { kind: "reset", reason: "unknown", seq: 9 });
    assertEquals(at(`${prefix}${prefix}`, prefix).kind, "reset");
  }
});

Deno.test("files and syncs of the index are events", async () => {
  const store = await openClockedStore();
  const file = {
    sha256: "a".repeat(64),
    name: "a.iso",
    path: null,
    size: 7,
    source: "url",
    origin: "https://example.com/a.iso",
    label: "a",
    level: "none",
    created_at: T0,
    last_used_at: T0,
    verified_at: T0,
  } as const;
  await store.media.keep(file);
  const sync = {
    started_at: T0,
    finished_at: T0,
    upstream: "u",
    outcome: "failed",
    added: 1,
    changed: 2,
    removed: 3,
    unchanged: 4,
    problems: [],
  } as const;
  await store.index.swap([], [], sync);
  const { events } = await store.events.after(0, 10);
  assertEquals(events.map((event) => "payload" in event ? event.payload : event.kind), [
    { change: "added", name: "a.iso", sha256: file.sha256, size: 7, done: null, error: null },
    { change: "sync_failed", outcome: "failed", added: 1, changed: 2, removed: 3, problems: 0 },
  ]);
  await store.close();
});
