// The media folders of the agent, which follow the configuration, and the library of their files.

import { join } from "@std/path";
import type { Config } from "../config/settings.ts";
import { HOUR_MS } from "../domain/instant.ts";
import { systemFreeBytes } from "../mirror/media/free_space.ts";
import { openHashing } from "../mirror/media/hash.ts";
import { type MediaLibrary, openLibrary } from "../mirror/media/library.ts";
import { openUploads } from "../mirror/media/uploads.ts";
import type { Mirror } from "../mirror/mirror.ts";
import type { Store } from "../store/store.ts";
import type { AgentContext, Emit } from "./context.ts";

/**
 * Milliseconds between two cleanups of unfinished uploads. They are removed a day after their last byte, even
 * when there are no other uploads.
 */
const SWEEP_MS = HOUR_MS;

/** Where media are taken from. */
interface AgentMediaFolders {
  /** In the order in which a name is searched, the upload folder last. It changes with the configuration. */
  readonly all: readonly string[];
  readonly upload: string;
}

/** The configured folders, and the one for uploads. */
export function openMediaFolders(
  { config, follow }: Pick<AgentContext, "config" | "follow">,
  stateDir: string,
): AgentMediaFolders {
  const upload = config.upload_dir.value ?? join(stateDir, "uploads");
  const foldersOf = ({ media_dir }: Config) => [
    ...media_dir.value.filter((folder) => folder !== upload),
    upload,
  ];
  const all = foldersOf(config);
  follow(["media_dir"], (next) => void all.splice(0, all.length, ...foldersOf(next)));
  return { all, upload };
}

/** The library of these folders and of the cache. */
export function openAgentLibrary(
  { config, limits, log, now, opened, decoders }: AgentContext,
  store: Pick<Store, "media">,
  { files }: Mirror,
  folders: AgentMediaFolders,
  emit: Emit,
): MediaLibrary {
  const uploads = openUploads({
    folder: folders.upload,
    limits: { ...limits, uploadBytesMax: config.upload_max.value },
    hashing: openHashing(decoders),
    freeBytes: systemFreeBytes,
    now,
    log,
    emit: (payload) => void emit({ kind: "media", payload }),
  });
  const sweep = () => {
    uploads.sweep().catch((error) => log.warn("unfinished uploads not looked over", { error }));
  };
  sweep();
  const sweeping = setInterval(sweep, SWEEP_MS);
  opened("uploads", () => clearInterval(sweeping));
  return openLibrary({
    files,
    media: store.media,
    uploads,
    mediaDirs: folders.all,
    uploadDir: folders.upload,
    cacheBytesMax: config.cache_max.value || Number.POSITIVE_INFINITY,
    log,
  });
}
