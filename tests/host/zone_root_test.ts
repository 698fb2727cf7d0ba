// Placing media into zones: what succeeds, and what is refused for what it is or says.

import { assert, assertEquals } from "@std/assert";
import { placeFile, removeFile } from "../../src/host/zone/root.ts";
import { digestOf, makeFifo, namesIn, withZone, zoneTest } from "./zone.ts";
import { inOwnProcess } from "../support/own_process.ts";
import { refused } from "./refused.ts";

zoneTest(
  "placeFile() copies the file, readable for all and writable for nobody",
  async ({ transport, placement, root, bytes }) => {
    const placed = await placeFile(transport, placement);
    assertEquals(placed, {
      file: "/install.iso",
      size: bytes.length,
      sha256: placement.sha256 ?? "",
    });
    assertEquals(await Deno.readFile(`${root}/install.iso`), bytes);
    const info = await Deno.lstat(`${root}/install.iso`);
    assertEquals((info.mode ?? 0) & 0o7777, 0o444);
    assertEquals(info.nlink, 1);
    assertEquals(await namesIn(root), ["install.iso"]);
  },
);

Deno.test("placeFile() sets the mode whatever the umask of the agent is", () =>
  withZone(async ({ placement, root, folder }) => {
    const place = { vmadm: "/usr/sbin/vmadm", zonesRoot: `${folder}/zones` };
    await inOwnProcess(`
      import { localTransport } from "./src/host/transport.ts";
      import { placeFile } from "./src/host/zone/root.ts";
      Deno.umask(0o077);
      await placeFile(localTransport(${JSON.stringify(place)}), ${JSON.stringify(placement)});`);
    assertEquals(((await Deno.lstat(`${root}/install.iso`)).mode ?? 0) & 0o7777, 0o444);
  }));

zoneTest(
  "placeFile() places an empty file, and one of exactly one part",
  async ({ transport, placement, root, folder }) => {
    for (const size of [0, 1024 * 1024]) {
      const source = `${folder}/${size}`;
      await Deno.writeFile(source, new Uint8Array(size));
      const { sha256: _, ...rest } = placement;
      const placed = await placeFile(transport, { ...rest, source, size, name: `${size}.iso` });
      assertEquals(placed.sha256, await digestOf("SHA-256", new Uint8Array(size)));
      assertEquals((await Deno.lstat(`${root}/${size}.iso`)).size, size);
    }
  },
);

zoneTest(
  "placeFile() compares sha512, and digests in upper case",
  async ({ transport, placement, bytes, root }) => {
    const { sha256, ...rest } = placement;
    const sha512 = (await digestOf("SHA-512", bytes)).toUpperCase();
    assertEquals((await placeFile(transport, { ...rest, sha512 })).sha256, sha256);
    await removeFile(transport, placement);
    const wrong = { ...placement, sha512: "0".repeat(128) };
    await refused(() => placeFile(transport, wrong), "digest_mismatch", "its sha512 is");
    assertEquals(await namesIn(root), []);
  },
);

zoneTest(
  "placeFile() leaves nothing behind when the digest differs",
  async ({ transport, placement, root }) => {
    const wrong = { ...placement, sha256: "0".repeat(64) };
    await refused(() => placeFile(transport, wrong), "digest_mismatch", String(placement.sha256));
    assertEquals(await namesIn(root), []);
  },
);

zoneTest("placeFile() refuses a source of another size", async ({ transport, placement, root }) => {
  for (const size of [placement.size - 1, placement.size + 1, 0]) {
    const wrong = { ...placement, size };
    await refused(() => placeFile(transport, wrong), "digest_mismatch", `expected ${size}`);
  }
  assertEquals(await namesIn(root), []);
});

zoneTest(
  "placeFile() refuses a source that changes while it is read",
  async ({ transport, placement, root }) => {
    const { sha256: _, ...rest } = placement;
    for (const size of [placement.size + 4_000_000, 1_500_000]) {
      const onProgress = (done: number) => {
        if (done <= 1024 * 1024) Deno.truncateSync(placement.source, size);
      };
      const changing = { ...rest, size: Deno.statSync(placement.source).size, onProgress };
      await refused(() => placeFile(transport, changing), "digest_mismatch", "was changed");
      assertEquals(await namesIn(root), []);
    }
  },
);

zoneTest(
  "placeFile() refuses a source that is missing or not a regular file",
  async ({ transport, placement, folder, root }) => {
    await refused(
      () => placeFile(transport, { ...placement, source: `${folder}/nothing` }),
      "not_found",
      "does not exist",
    );
    await Deno.symlink("medium.iso", `${folder}/link.iso`);
    await makeFifo(`${folder}/fifo.iso`);
    await Deno.mkdir(`${folder}/folder.iso`);
    for (const name of ["link.iso", "fifo.iso", "folder.iso"]) {
      const source = `${folder}/${name}`;
      await refused(
        () => placeFile(transport, { ...placement, source }),
        "invalid_argument",
        "is not a regular file",
      );
    }
    await refused(
      () => placeFile(transport, { ...placement, source: "/dev/zero" }),
      "invalid_argument",
    );
    assertEquals(await namesIn(root), []);
  },
);

zoneTest(
  "placeFile() accepts an existing file with the right digest",
  async ({ transport, placement, root }) => {
    await placeFile(transport, placement);
    const before = await Deno.lstat(`${root}/install.iso`);
    const reported: [number, number][] = [];
    const again = await placeFile(transport, {
      ...placement,
      source: "/nowhere/medium.iso",
      onProgress: (...bytes) => reported.push(bytes),
    });
    assertEquals(again.sha256, placement.sha256);
    assertEquals((await Deno.lstat(`${root}/install.iso`)).ino, before.ino);
    assertEquals(reported, [[placement.size, placement.size]]);
  },
);

zoneTest(
  "placeFile() replaces a regular file with another digest",
  async ({ transport, placement, root, bytes }) => {
    const file = `${root}/install.iso`;
    const flipped = bytes.with(70_000, bytes[70_000]! ^ 1);
    for (const content of [new Uint8Array([1]), flipped]) {
      await Deno.remove(file).catch(() => {});
      await Deno.writeFile(file, content, { mode: 0o444 });
      await placeFile(transport, placement);
      assertEquals(await Deno.readFile(file), bytes);
    }
  },
);

zoneTest(
  "placeFile() replaces a file with the right bytes that others may write",
  async ({ transport, placement, root, bytes }) => {
    const file = `${root}/install.iso`;
    await Deno.writeFile(file, bytes);
    await placeFile(transport, placement);
    await Deno.link(file, `${root}/second_name`);
    const before = await Deno.lstat(file);
    await placeFile(transport, placement);
    const after = await Deno.lstat(file);
    assert(before.ino !== after.ino);
    assertEquals([after.nlink, (after.mode ?? 0) & 0o777], [1, 0o444]);
  },
);

zoneTest(
  "placeFile() removes what a crash left of the same file",
  async ({ zonepath, transport, placement, root }) => {
    await Deno.writeTextFile(`${zonepath}/.zonewright-install.iso.part`, "half");
    await placeFile(transport, placement);
    assertEquals(await namesIn(root), ["install.iso"]);
  },
);

zoneTest("placeFile() reports its progress, the end last", async ({ transport, placement }) => {
  const reported: number[] = [];
  const { size } = placement;
  await placeFile(transport, { ...placement, onProgress: (done) => reported.push(done) });
  assertEquals(reported.at(-1), size);
  assert(reported.length <= 4);
  assertEquals(reported, reported.toSorted((a, b) => a - b));
});

zoneTest(
  "placeFile() leaves nothing behind when the caller aborts",
  async ({ transport, placement, root }) => {
    const giveUp = new AbortController();
    const copying = { ...placement, signal: giveUp.signal, onProgress: () => giveUp.abort() };
    await refused(() => placeFile(transport, copying), "aborted", "it was canceled");
    assertEquals(await namesIn(root), []);
    await refused(() => placeFile(transport, copying), "aborted");
  },
);

zoneTest(
  "placeFile() called twice at once places the file once",
  async ({ transport, placement, root, bytes }) => {
    const placed = await Promise.all([
      placeFile(transport, placement),
      placeFile(transport, placement),
      placeFile(transport, { ...placement, name: "other.iso" }),
    ]);
    assertEquals(placed.map(({ file }) => file), ["/install.iso", "/install.iso", "/other.iso"]);
    assertEquals(await namesIn(root), ["install.iso", "other.iso"]);
    assertEquals(await Deno.readFile(`${root}/install.iso`), bytes);
  },
);

zoneTest(
  "removeFile() removes the file and reports whether it existed",
  async ({ zonepath, transport, placement, root }) => {
    await placeFile(transport, placement);
    await Deno.writeTextFile(`${zonepath}/.zonewright-install.iso.part`, "half");
    assertEquals(await removeFile(transport, placement), true);
    assertEquals(await namesIn(root), []);
    assertEquals(await removeFile(transport, placement), false);
  },
);

zoneTest(
  "removeFile() finds nothing in a zone that is gone",
  async ({ transport, placement, zonepath }) => {
    await Deno.remove(zonepath, { recursive: true });
    assertEquals(await removeFile(transport, placement), false);
  },
);

zoneTest(
  "removeFile() removes a link, not its target",
  async ({ transport, placement, root, folder }) => {
    await Deno.symlink(`${folder}/medium.iso`, `${root}/install.iso`);
    assertEquals(await removeFile(transport, placement), true);
    assertEquals((await Deno.lstat(`${folder}/medium.iso`)).size, placement.size);
    assertEquals(await namesIn(root), []);
  },
);

zoneTest("removeFile() refuses a folder", async ({ transport, placement, root }) => {
  await Deno.mkdir(`${root}/install.iso`);
  await refused(() => removeFile(transport, placement), "conflict", "it is a folder");
  assertEquals(await namesIn(root), ["install.iso"]);
});
