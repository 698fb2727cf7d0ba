// What tasks may do with the image index: find an artifact, and have it downloaded and verified.

import type { Digest } from "../domain/digest.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import { canonicalJson } from "../domain/json.ts";
import { parseArtifactRef } from "../domain/media.ts";
import type { FoundArtifact } from "../mirror/find_artifact.ts";
import type { Medium, Mirror } from "../mirror/mirror.ts";
import type { Call, CapabilitiesOf } from "./capability.ts";
import type { FoundMedia } from "./found_media.ts";

const FIND_DEADLINE_MS = 60_000;
/** A download has no largest time of its own, only a least speed. */
const DOWNLOAD_DEADLINE_MS = 12 * 3_600_000;

/** The capabilities `images.*`. */
export function imagesCapabilities(mirror: Mirror, found: FoundMedia): CapabilitiesOf<"images"> {
  return {
    "images.find": {
      deadlineMs: FIND_DEADLINE_MS,
      perform: async (_call, [ref]) =>
        artifactJson(await mirror.findArtifact(parseArtifactRef(ref))),
    },
    "images.download": {
      deadlineMs: DOWNLOAD_DEADLINE_MS,
      async perform(call, [value]) {
        const ref = parseArtifactRef(value);
        const medium = await downloadArtifact(mirror, await mirror.findArtifact(ref), call);
        await found.remember(call.job_uuid, canonicalJson(value ?? null), medium);
        return mediumJson(medium);
      },
    },
  };
}

/** Downloads an artifact for a task that is told how far it is. */
export async function downloadArtifact(
  mirror: Mirror,
  artifact: FoundArtifact,
  { signal, progress }: Call,
  digest?: Digest,
): Promise<Medium> {
  const onProgress = (done: number, total: number | null) => progress("download", done, total);
  const pinned = digest === undefined ? {} : { digest };
  return await mirror.download(artifact, { signal, onProgress, ...pinned });
}

/** A medium as tasks see it. */
export function mediumJson({ source, path, name, size, sha256, label }: Medium): JsonObject {
  return { source, path, name, size, sha256, label };
}

/** What the index says of an artifact, and where it was found. */
function artifactJson(found: FoundArtifact): JsonValue {
  // It was parsed from JSON and holds nothing else; the round trip takes the readonly types off.
  return JSON.parse(JSON.stringify(found)) as JsonValue;
}
