// The mirror of a program that its test kills: on a store in a file, so that something is left.

import { silentLog } from "../../src/metrics/log.ts";
import { type Mirror, openMirror } from "../../src/mirror/mirror.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { TIME_LIMITS } from "../../src/mirror/web/time_limits.ts";
import { openTestDecoders } from "../support/decoders.ts";
import { NO_TOKEN } from "./test_mirror.ts";

interface ProgramMirror {
  readonly mirror: Mirror;
  /** Writes a line to the test. */
  say(text: string): Promise<void>;
  close(): Promise<void>;
}

export async function openProgramMirror(
  { path, upstream, cacheDir }: { path: string; upstream: string; cacheDir: string },
): Promise<ProgramMirror> {
  const store = await openSqliteStore(path);
  const decoders = openTestDecoders();
  const mirror = openMirror({
    store: store.index,
    media: store.media,
    images: store.images,
    decoders,
    upstream,
    indexToken: NO_TOKEN,
    allowHttp: true,
    cacheDir,
    log: silentLog,
    now: () => new Date().toISOString(),
    times: TIME_LIMITS,
    userAgent: "zonewright-test/1",
  });
  return {
    mirror,
    say: async (text) => void await Deno.stdout.write(new TextEncoder().encode(`${text}\n`)),
    close: async () => {
      await decoders.close();
      await store.close();
    },
  };
}
