// Digests of files on a host that is reached by ssh, computed there.

import type { DigestAlgorithm } from "../../domain/digest.ts";
import { AgentError } from "../../domain/error.ts";
import type { Digests } from "../digests.ts";
import type { RunProgram } from "../folder_script.ts";

/** Reading an image of many gigabytes from a slow disk. */
const DIGEST_MS_MAX = 2 * 3_600_000;

/** What DIGEST_SCRIPT ends with when the name is no plain file's. */
const NO_FILE_CODE = 4;

/**
 * Prints digests of one plain file with one name in the order they are asked for. It enters the folder
 * and makes sure that no link led it elsewhere, so that the name alone is left to be looked at.
 */
const DIGEST_SCRIPT = `
cd -P -- "$1" && [ "$(pwd -P)" = "$1" ] || exit 3
[ -n "$(find "./$2" -prune -type f -links 1 2>/dev/null)" ] || exit 4
name=$2
shift 2
for algorithm; do
  if command -v "\${algorithm}sum" >/dev/null; then "\${algorithm}sum" <"./$name"
  else digest -a "$algorithm" <"./$name"
  fi || exit 5
done
`;

/**
 * Digests of a plain file that has no other name; null when something else is there.
 * @throws {AgentError} `host` when they could not be computed; `aborted`
 */
export async function farDigests(
  run: RunProgram,
  path: string,
  algorithms: readonly DigestAlgorithm[],
  signal: AbortSignal | undefined,
): Promise<Digests | null> {
  const slash = path.lastIndexOf("/");
  const args = ["-c", DIGEST_SCRIPT, "zonewright", path.slice(0, slash), path.slice(slash + 1)];
  const { code, stdout, stderr } = await run("/bin/sh", [...args, ...algorithms], {
    deadlineMs: DIGEST_MS_MAX,
    ...(signal === undefined ? {} : { signal }),
  });
  if (code === NO_FILE_CODE) return null;
  const found = stdout.split("\n").map((line) => /^[0-9a-f]{64,128}(?=\s|$)/.exec(line)?.[0]);
  const digests = algorithms.map((algorithm, at) => [algorithm, found[at]] as const);
  if (code === 0 && digests.every(([, digest]) => digest !== undefined)) {
    return Object.fromEntries(digests);
  }
  const said = stderr.trim().slice(0, 400) || `exit code ${code}`;
  throw new AgentError("host", `Cannot digest ${JSON.stringify(path)} on the host: ${said}`);
}
