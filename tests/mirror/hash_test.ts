import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { type Hashing, hashInto, openHashing } from "../../src/mirror/media/hash.ts";
import { openTestDecoders } from "../support/decoders.ts";
import { until, withFolder } from "../support/until.ts";
import { hashed } from "./vendor_file.ts";

const BYTES = new Uint8Array(700_000).map((_, n) => n % 251);

async function withHashing(
  run: (hashing: Hashing, pids: () => number[]) => Promise<void>,
): Promise<void> {
  const decoders = openTestDecoders();
  try {
    await run(openHashing(decoders), () => decoders.pids());
  } finally {
    await decoders.close();
  }
}

Deno.test("hashInto() hashes a file of several parts and says how far it is", async () => {
  await withHashing((hashing) =>
    withFolder(async (folder) => {
      const path = join(folder, "file");
      await Deno.writeFile(path, BYTES);
      const seen: number[] = [];
      const hasher = hashing.open(["sha512"]);
      await hashInto(hasher, path, { onProgress: (done) => seen.push(done) });
      assertEquals(hasher.size, 700_000);
      assertEquals(await hasher.finish(), {
        sha256: await hashed("SHA-256", BYTES),
        sha512: await hashed("SHA-512", BYTES),
      });
      assertEquals(seen.at(-1), 700_000);
    })
  );
});

Deno.test("interleaved hashers each hash their own file, in one decoder", async () => {
  await withHashing(async (hashing) => {
    const files = [BYTES, BYTES.subarray(0, 300_000), new Uint8Array()];
    const hashers = files.map(() => hashing.open());
    const given_up = hashing.open();
    for (let at = 0; at < BYTES.byteLength; at += 100_000) {
      for (const [n, file] of files.entries()) {
        await hashers[n]?.update(file.subarray(at, at + 100_000));
      }
      await given_up.update(BYTES);
    }
    given_up[Symbol.dispose]();
    const found = await Promise.all(hashers.map((hasher) => hasher.finish()));
    const wanted = await Promise.all(files.map((file) => hashed("SHA-256", file)));
    assertEquals(found, wanted.map((sha256) => ({ sha256 })));
    // A part may be used again as soon as it was taken, and a later file begins another piece of work.
    const part = BYTES.slice(0, 1000);
    const later = hashing.open();
    await later.update(part);
    part.fill(0);
    assertEquals((await later.finish()).sha256, await hashed("SHA-256", BYTES.subarray(0, 1000)));
  });
});

Deno.test("a hasher whose decoder was killed fails with the reason, and the next one has a new decoder", async () => {
  await withHashing(async (hashing, pids) => {
    const hasher = hashing.open();
    await hasher.update(BYTES);
    await until("the decoder", () => pids().length > 0);
    const ending = hasher.finish();
    for (const pid of pids()) Deno.kill(pid, "SIGKILL");
    const outcome = await ending.catch((error) => error);
    // What it had answered before it was killed is the right answer.
    if (outcome instanceof AgentError) assertEquals(outcome.code, "internal");
    else assertEquals(outcome, { sha256: await hashed("SHA-256", BYTES) });
    const next = hashing.open();
    await next.update(BYTES);
    assertEquals((await next.finish()).sha256, await hashed("SHA-256", BYTES));
  });
});

Deno.test("hashInto() stops when the caller aborts, and refuses a missing file", async () => {
  await withHashing((hashing) =>
    withFolder(async (folder) => {
      const path = join(folder, "file");
      await Deno.writeTextFile(path, "x");
      const giveUp = new AbortController();
      giveUp.abort(new Error("enough"));
      const hasher = hashing.open();
      const { signal } = giveUp;
      await assertRejects(() => hashInto(hasher, path, { signal }), Error, "enough");
      await assertRejects(() => hashInto(hasher, join(folder, "none")), Deno.errors.NotFound);
      hasher[Symbol.dispose]();
    })
  );
});
