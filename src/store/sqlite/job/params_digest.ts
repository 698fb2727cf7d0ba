// The digest by which the params of jobs with a target are compared, key order apart.

import type { NewJob } from "../../../domain/job/job.ts";
import { canonicalJson } from "../../../domain/json.ts";
import { sha256Hex } from "../../../domain/sha256.ts";

/** Lower-case hex SHA-256 of the canonical params; null for a job without a target. */
export async function paramsDigest({ target, params }: NewJob): Promise<string | null> {
  if (target === null) return null;
  return await sha256Hex(new TextEncoder().encode(canonicalJson(params)));
}
