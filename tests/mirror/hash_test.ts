import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { hashInto, openHasher } from "../../src/mirror/hash.ts";
import { withFolder } from "../support/until.ts";

Deno.test("hashInto() hashes a file of several parts and tells how far it is", async () => {
  await withFolder(async (folder) => {
    const path = join(folder, "file");
    const bytes = new Uint8Array(700_000).map((_, n) => n % 251);
    await Deno.writeFile(path, bytes);
    const seen: number[] = [];
    const hasher = await openHasher(["sha512"]);
    await hashInto(hasher, path, { onProgress: (done) => seen.push(done) });
    const hash = async (name: string) =>
      Array.from(
        new Uint8Array(await crypto.subtle.digest(name, bytes)),
        (byte) => byte.toString(16).padStart(2, "0"),
      ).join("");
    assertEquals(hasher.size, 700_000);
    assertEquals(hasher.finish(), {
      sha256: await hash("SHA-256"),
      sha512: await hash("SHA-512"),
    });
    assertEquals(seen.at(-1), 700_000);
  });
});

Deno.test("hashInto() stops when the caller gives up, and knows no missing file", async () => {
  await withFolder(async (folder) => {
    const path = join(folder, "file");
    await Deno.writeTextFile(path, "x");
    const giveUp = new AbortController();
    giveUp.abort(new Error("enough"));
    const hasher = await openHasher();
    const { signal } = giveUp;
    await assertRejects(() => hashInto(hasher, path, { signal }), Error, "enough");
    await assertRejects(() => hashInto(hasher, join(folder, "none")), Deno.errors.NotFound);
  });
});
