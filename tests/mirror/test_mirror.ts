// A mirror with a real store and a folder of its own, whose waits are noted and not waited.

import { join } from "@std/path";
import type { Decoders } from "../../src/decoder/pool.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { type Mirror, type MirrorDependencies, openMirror } from "../../src/mirror/mirror.ts";
import { withoutEqualReports } from "../../src/mirror/sync/sync.ts";
import type { TimeLimits } from "../../src/mirror/web/time_limits.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { openTestDecoders } from "../support/decoders.ts";
import { withFolder } from "../support/until.ts";
import { fixtureFiles, type IndexServer, openIndexServer } from "./index_server.ts";

/** The token of an index that wants none. */
export const NO_TOKEN = () => Promise.resolve(undefined);

/** Long enough for a busy machine; tests of the limits themselves set their own. */
const PATIENT: TimeLimits = {
  answerMs: 20_000,
  idleMs: 20_000,
  documentMs: 120_000,
  stallMs: 20_000,
};

export interface TestMirror {
  readonly mirror: Mirror;
  readonly store: Store;
  readonly server: IndexServer;
  readonly decoders: Decoders;
  readonly cacheDir: string;
  /** Milliseconds of the waits between tries. */
  readonly waits: number[];
  /** The clock; a test may set it. */
  readonly clock: { now: string };
  /** Another mirror on the same store and cache, as after a restart. */
  again(changes?: Partial<MirrorDependencies>): Mirror;
}

/** Runs a test with a mirror of the small tree. */
export async function withMirror(
  run: (test: TestMirror) => Promise<void>,
  changes: Partial<MirrorDependencies> = {},
): Promise<void> {
  await withFolder(async (folder) => {
    await using server = openIndexServer(await fixtureFiles());
    const opened = await openSqliteStore(":memory:");
    const store = { ...opened, index: withoutEqualReports(opened.index) };
    const waits: number[] = [];
    const clock = { now: "2026-11-20T12:00:00.000Z" };
    const cacheDir = join(folder, "cache");
    const decoders = openTestDecoders();
    const deps: MirrorDependencies = {
      store: store.index,
      media: store.media,
      images: store.images,
      decoders,
      upstream: server.url,
      indexToken: NO_TOKEN,
      allowHttp: true,
      cacheDir,
      log: silentLog,
      now: () => clock.now,
      userAgent: "zonewright-test/1",
      times: PATIENT,
      wait: (ms, signal) => {
        signal?.throwIfAborted();
        waits.push(ms);
        return Promise.resolve();
      },
      random: () => 1,
      ...changes,
    };
    const again = (more: Partial<MirrorDependencies> = {}) => openMirror({ ...deps, ...more });
    try {
      await run({ mirror: again(), store, server, decoders, cacheDir, waits, clock, again });
    } finally {
      await decoders.close();
      await store.close();
    }
  });
}

/** Changes a JSON document of the server and gives it a new entity tag. */
export function edit(server: IndexServer, path: string, change: (value: JsonObject) => void): void {
  const file = server.files.get(path);
  if (file === undefined) throw new Error(`No such document: ${path}`);
  const value = JSON.parse(new TextDecoder().decode(file.body));
  change(value);
  replace(server, path, JSON.stringify(value));
}

/** Replaces a document of the server and gives it a new entity tag. */
export function replace(server: IndexServer, path: string, text: string | Uint8Array): void {
  const body = typeof text === "string" ? new TextEncoder().encode(text) : text;
  const tag = crypto.randomUUID();
  server.files.set(path, { body, etag: `"${tag}"` });
}

/** What the store has, by path, as text. */
export async function storedTree(store: Store): Promise<Map<string, string>> {
  const tree = new Map<string, string>();
  for (const { path } of await store.index.list()) {
    const document = await store.index.get(path);
    tree.set(path, new TextDecoder().decode(document?.body));
  }
  return tree;
}
