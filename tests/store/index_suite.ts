// The suite's part on the documents of the image index.

import { assertEquals } from "@std/assert";
import type { IndexDocument, IndexSync } from "../../src/store/store.ts";
import { T0 } from "../support/job.ts";
import type { Test } from "./store_case.ts";

/** The report of a sync that added two documents. */
export const SYNC: IndexSync = {
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

/** A document of the index. */
export function documentOf(path: string, text: string): IndexDocument {
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
  test("a large document is returned byte for byte, compressed or not", async (store) => {
    const text = JSON.stringify(Array.from({ length: 5000 }, (_, n) => ({ n, text: "\u00e9" })));
    const noise = crypto.getRandomValues(new Uint8Array(4096));
    const documents = [documentOf("text", text), { ...documentOf("noise", ""), body: noise }];
    await store.index.swap(documents, [], SYNC);
    for (const { path, body } of documents) {
      const found = await store.index.get(path);
      assertEquals(found && Uint8Array.from(found.body), Uint8Array.from(body));
      assertEquals(Object.keys(found ?? {}).sort(), Object.keys(documentOf("", "")).sort());
    }
  });
  test("pins are kept by release and artifact until they are removed", async (store) => {
    const pin = (release: string, artifact: string, text: string) => ({
      distro: "a",
      release,
      artifact,
      pin: text,
    });
    const put = [pin("1", "x", "1"), pin("1", "y", "2"), pin("2", "x", "3")];
    await store.index.swap([], [], SYNC, { put, remove: [] });
    await store.index.swap([], [], SYNC, {
      put: [pin("1", "y", "4")],
      remove: [{ distro: "a", release: "1", artifact: "x" }],
    });
    assertEquals(await store.index.pins("a", "1"), [pin("1", "y", "4")]);
    assertEquals(await store.index.pins("a", "2"), [pin("2", "x", "3")]);
    assertEquals(await store.index.pins("b", "1"), []);
  });
  test("a document is returned byte for byte, and a missing one as none", async (store) => {
    const body = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    const document = { ...documentOf("bytes", ""), body, etag: 'W/"x"', last_modified: "then" };
    await store.index.swap([document], [], SYNC);
    const found = await store.index.get("bytes");
    assertEquals(found && { ...found, body: Uint8Array.from(found.body) }, document);
    assertEquals(await store.index.get("other"), undefined);
  });
}
