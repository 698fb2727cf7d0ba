// The suite's part on the documents of the image index.

import { assertEquals } from "@std/assert";
import type { IndexDocument, IndexSync } from "../../src/store/store.ts";
import { T0 } from "../support/job.ts";
import type { Test } from "./store_case.ts";

const SYNC: IndexSync = {
  started_at: T0,
  finished_at: T0,
  upstream: "folder",
  outcome: "complete",
  added: 2,
  changed: 0,
  removed: 0,
  unchanged: 0,
  problems: [],
};

function documentOf(path: string, text: string): IndexDocument {
  return {
    path,
    body: new TextEncoder().encode(text),
    sha256: "0".repeat(64),
    etag: null,
    last_modified: null,
    fetched_at: T0,
  };
}

export function indexTests(test: Test): void {
  test("swap() puts, replaces and removes documents and records the sync", async (store) => {
    await store.index.swap([documentOf("a", "1"), documentOf("b", "é")], [], SYNC);
    await store.index.swap([documentOf("b", "2")], ["a"], { ...SYNC, added: 0 });
    assertEquals((await store.index.list()).map(({ path }) => path), ["b"]);
    assertEquals(new TextDecoder().decode((await store.index.get("b"))?.body), "2");
    assertEquals((await store.index.lastSync())?.added, 0);
  });
  test("a document comes back byte by byte, and one that is not there not at all", async (store) => {
    const body = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    const document = { ...documentOf("bytes", ""), body, etag: 'W/"x"', last_modified: "then" };
    await store.index.swap([document], [], SYNC);
    const found = await store.index.get("bytes");
    assertEquals(found && { ...found, body: Uint8Array.from(found.body) }, document);
    assertEquals(await store.index.get("other"), undefined);
  });
}
