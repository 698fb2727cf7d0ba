// The digest by which the params of jobs with a target are compared, key order apart.

import type { NewJob } from "../../domain/job.ts";
import { canonicalJson } from "../../domain/json.ts";

/** Lower-case hex SHA-256 of the canonical params; null for a job without a target. */
export async function paramsDigest({ target, params }: NewJob): Promise<string | null> {
  if (target === null) return null;
  const bytes = new TextEncoder().encode(canonicalJson(params));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
