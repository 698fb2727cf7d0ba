// What `zonewright version` says of the sources of a build.

/** The commit, and whether the sources differ from it; null for sources without a history. */
export async function gitState(
  root: string,
): Promise<{ readonly commit: string | null; readonly changed: boolean }> {
  const git = async (...args: string[]) => {
    const { success, stdout } = await new Deno.Command("git", { args, cwd: root, stderr: "null" })
      .output();
    return success ? new TextDecoder().decode(stdout).trim() : undefined;
  };
  // Sources that were unpacked from an archive have no history.
  const commit = await git("rev-parse", "HEAD").catch(() => undefined);
  const changed = commit === undefined ? "" : await git("status", "--porcelain");
  return { commit: commit ?? null, changed: changed !== "" };
}
