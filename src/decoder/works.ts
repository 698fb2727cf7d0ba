// What a decoder does, by the name of the work. Each is loaded when the first piece of it comes: a
// decoder starts with nothing but its framing.

import type { Work, WorkName } from "./work_limits.ts";

/** Loads a kind of work. */
export const LOAD_WORK: Readonly<Record<WorkName, () => Promise<Work>>> = {
  hashes: async () => (await import("./hashes_work.ts")).hashesWork,
  checksums: async () => (await import("./checksums_work.ts")).checksumsWork,
  signature: async () => (await import("./signature_work.ts")).signatureWork,
  file_signature: async () => (await import("./signature_work.ts")).fileSignatureWork,
  index: async () => (await import("./index_work.ts")).indexWork,
  unpack: async () => (await import("./unpack_work.ts")).unpackWork,
  hash: async () => (await import("./hash_work.ts")).hashWork,
  task_sources: async () => (await import("./task_sources_work.ts")).taskSourcesWork,
};
