// A program that syncs once whenever it reads a line, and says so. Its test kills it meanwhile.

import { silentLog } from "../../src/metrics/log.ts";
import { openMirror } from "../../src/mirror/mirror.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { openTestDecoders } from "../support/decoders.ts";

const [path = "", upstream = "", cacheDir = ""] = Deno.args;
const store = await openSqliteStore(path);
const decoders = openTestDecoders();
const mirror = openMirror({
  store: store.index,
  media: store.media,
  images: store.images,
  decoders,
  upstream,
  allowHttp: true,
  cacheDir,
  log: silentLog,
  now: () => new Date().toISOString(),
  userAgent: "zonewright-test/1",
});
const say = async (text: string) => {
  await Deno.stdout.write(new TextEncoder().encode(`${text}\n`));
};
await say("ready");
for await (const _line of Deno.stdin.readable) {
  await say((await mirror.sync()).outcome);
}
await decoders.close();
