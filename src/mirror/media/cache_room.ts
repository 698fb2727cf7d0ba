// The bound on the size of the cache. Room is made by taking away what was used longest ago, never
// what an unfinished job uses. Downloads under way have their room reserved, so that two that fit one
// by one do not pass the bound together.

import { AgentError } from "../../domain/error.ts";
import type { MediaFile, MediaStore } from "../../store/media_store.ts";

/** Room in the cache. */
export interface CacheRoom {
  /**
   * Keeps so many bytes for a file that is on its way. Disposal gives them back.
   * @throws {AgentError} `storage_full` when so many cannot be had
   */
  reserve(bytes: number, what: string): Promise<Disposable>;
}

/** What the room is made in. */
export interface CacheRoomDependencies {
  readonly media: MediaStore;
  /** Infinite for no bound. */
  readonly bytesMax: number;
  /** Removes the bytes of a file that is no longer known. */
  readonly evict: (file: MediaFile) => Promise<void>;
}

/** Opens it. */
export function openCacheRoom({ media, bytesMax, evict }: CacheRoomDependencies): CacheRoom {
  let reserved = 0;
  let last: Promise<unknown> = Promise.resolve();
  const makeRoom = async (bytes: number, what: string) => {
    if (bytes > bytesMax) {
      const message = `Cannot ${what}: it has ${bytes} bytes, the cache may have ${bytesMax}`;
      throw new AgentError("storage_full", message);
    }
    let held = await media.bytes();
    const fits = () => held + reserved + bytes <= bytesMax;
    if (fits()) return;
    for (const file of await media.unused()) {
      // A job may have begun to use it since it was listed.
      if (await media.remove(file.sha256) !== "removed") continue;
      await evict(file);
      held -= file.size;
      if (fits()) return;
    }
    const message = `Cannot ${what}: ${held + reserved} bytes of the cache are in use, ` +
      `${bytes} more would be over its ${bytesMax}`;
    throw new AgentError("storage_full", message);
  };
  return {
    async reserve(bytes, what) {
      const mine = last.then(async () => {
        await makeRoom(bytes, what);
        reserved += bytes;
      });
      last = mine.catch(() => {});
      await mine;
      let given = false;
      return {
        [Symbol.dispose]() {
          if (!given) reserved -= bytes;
          given = true;
        },
      };
    },
  };
}
