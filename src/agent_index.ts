// The image index of the agent: its mirror, with the sample upstream behind it when a development
// agent was given no other.

import { join } from "@std/path";
import type { Ground } from "./agent_runner.ts";
import { type Mirror, openMirror } from "./mirror/mirror.ts";
import type { Store } from "./store/store.ts";
import { VERSION } from "./version.ts";

/** Opens the mirror. @throws {AgentError} `invalid_argument` for an upstream that may not be used */
export async function openIndex(
  { config, log, now, opened }: Ground,
  store: Pick<Store, "index" | "media" | "images">,
  stateDir: string,
): Promise<Mirror> {
  let upstream = config.index.value;
  const sample = config.dev.value && upstream === null;
  if (sample) {
    const { startSampleUpstream } = await import("./demo/upstream.ts");
    const started = await startSampleUpstream({ cacheDir: join(stateDir, "sample"), log });
    opened("sample upstream", () => started.close());
    upstream = started.url;
  }
  return openMirror({
    store: store.index,
    media: store.media,
    images: store.images,
    upstream,
    // The sample is served by this process, on a loopback address.
    allowHttp: config.allow_http_index.value || sample,
    cacheDir: join(stateDir, "media"),
    cacheBytesMax: config.cache_max.value || Number.POSITIVE_INFINITY,
    bytesPerSecond: config.download_rate.value,
    allowedHosts: config.download_hosts.value,
    checkMin: config.check_min.value,
    keyDir: config.key_dir.value,
    log,
    now,
    userAgent: `zonewright/${VERSION}`,
  });
}
