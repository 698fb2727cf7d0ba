// What stands at a path of the cache or of an index in a folder, where nothing is nothing unusual.

/**
 * Looks at a path, at a link itself and not at what it points to.
 * @returns undefined when nothing is there
 */
export async function fileInfo(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.lstat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
