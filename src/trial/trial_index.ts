// The image index of a trial: most workflows never ask for it, so it is opened and synced when a
// task does for the first time.

import { openIndex } from "../agent/mirror.ts";
import type { Ground } from "../agent/runner.ts";
import { AgentError } from "../domain/error.ts";
import type { Mirror } from "../mirror/mirror.ts";
import type { Store } from "../store/store.ts";

/** A mirror that is opened by its first call and synced by the first that needs the index. */
export function openTrialIndex(
  ground: Ground,
  store: Pick<Store, "index" | "media" | "images">,
  folder: string,
): Mirror {
  const closers: (() => void | Promise<void>)[] = [];
  const opened = (_: string, close: () => void | Promise<void>) => void closers.push(close);
  const closing = new AbortController();
  let opening: Promise<Mirror> | undefined;
  let syncing: Promise<Mirror> | undefined;
  const mirror = () => opening ??= openIndex({ ...ground, opened }, store, folder);
  const synced = () => syncing ??= mirror().then((open) => syncedIndex(open, closing.signal));
  // Named now, so that it is closed after the runner, whose tasks work with it.
  ground.opened("index", async () => {
    closing.abort();
    await Promise.allSettled([opening, syncing]);
    for (const close of closers.reverse()) await close();
  });
  return {
    upstream: ground.config.index.value,
    syncing: false,
    progress: null,
    generation: 0,
    sync: async (request) => await (await mirror()).sync(request),
    preview: async (request) => await (await mirror()).preview(request),
    findArtifact: async (ref) => await (await synced()).findArtifact(ref),
    download: async (found, options) => await (await synced()).download(found, options),
    downloadUrl: async (...args) => await (await mirror()).downloadUrl(...args),
    files: {
      list: async () => await (await mirror()).files.list(),
      get: async (sha256) => await (await mirror()).files.get(sha256),
      verify: async (...args) => await (await mirror()).files.verify(...args),
      hash: async (...args) => await (await mirror()).files.hash(...args),
      note: async (...args) => await (await mirror()).files.note(...args),
      remove: async (sha256) => await (await mirror()).files.remove(sha256),
    },
    discard: async (medium) => await (await mirror()).discard(medium),
  };
}

/** @throws {AgentError} `upstream` when the index cannot be had */
async function syncedIndex(mirror: Mirror, signal: AbortSignal): Promise<Mirror> {
  const { outcome, problems } = await mirror.sync({ signal });
  if (outcome !== "failed") return mirror;
  const why = problems[0]?.message ?? "no reason is known";
  throw new AgentError("upstream", `Cannot sync the index ${mirror.upstream}: ${why}`);
}
