// A program that downloads one file and says its digest. Its test kills it meanwhile.

import { silentLog } from "../../src/metrics/log.ts";
import { openMirror } from "../../src/mirror/mirror.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { openTestDecoders } from "../support/decoders.ts";

const [path = "", url = "", value = "", cacheDir = ""] = Deno.args;
const store = await openSqliteStore(path);
const decoders = openTestDecoders();
const mirror = openMirror({
  store: store.index,
  media: store.media,
  images: store.images,
  decoders,
  upstream: url,
  allowHttp: true,
  cacheDir,
  log: silentLog,
  now: () => new Date().toISOString(),
  userAgent: "zonewright-test/1",
});
const say = async (text: string) => {
  await Deno.stdout.write(new TextEncoder().encode(`${text}\n`));
};
const digest = { algorithm: "sha256", value } as const;
const medium = await mirror.downloadUrl(url, digest);
await say(`done ${medium.sha256}`);
await decoders.close();
await store.close();
