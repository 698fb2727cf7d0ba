// What a decoder does, by the name of the work. Each is loaded when the first piece of it comes: a
// decoder starts with nothing but its framing.

import type { Work, WorkName } from "./work_limits.ts";

/** Loads a kind of work. */
export const LOAD_WORK: Readonly<Record<WorkName, () => Promise<Work>>> = {
  hashes: async () => (await import("./works/hashes.ts")).hashesWork,
  checksums: async () => (await import("./works/checksums.ts")).checksumsWork,
  signature: async () => (await import("./works/signature.ts")).signatureWork,
  file_signature: async () => (await import("./works/signature.ts")).fileSignatureWork,
  index: async () => (await import("./works/index_documents.ts")).indexWork,
  unpack: async () => (await import("./works/unpack.ts")).unpackWork,
  hash: async () => (await import("./works/hash.ts")).hashWork,
  task_sources: async () => (await import("./works/task_sources.ts")).taskSourcesWork,
};
