// Placing media into zones whose tree was made by somebody who wants the agent to write elsewhere,
// to block, or to run out of space.

import { assertEquals, assertRejects } from "@std/assert";
import type { ErrorCode } from "../../src/domain/error.ts";
import { placeFile, removeFile } from "../../src/host/zone/root.ts";
import { makeFifo, namesIn, type TestZone, zoneTest } from "./zone.ts";
import { refused } from "./refused.ts";

const CANARY = "canary";

/** Refuses both to place and to remove, and leaves the folder outside as it was. */
async function refusedWith(zone: TestZone, zonepath: string, code: ErrorCode, text = "") {
  const { transport, placement } = zone;
  await refused(() => placeFile(transport, { ...placement, zonepath }), code, text);
  if (code !== "not_found") {
    await refused(() => removeFile(transport, { ...placement, zonepath }), code, text);
  }
}

zoneTest(
  "placeFile() and removeFile() refuse anything but a plain media name",
  async ({ transport, placement, root }) => {
    const names = [
      "",
      ".",
      "..",
      ".hidden.iso",
      "-rf.iso",
      "../install.iso",
      "a/b.iso",
      "/a.iso",
      "a,b.iso",
      "a=b.iso",
      "a b.iso",
      "a\nb.iso",
      "a.iso\n",
      "a\0b.iso",
      "$(id).iso",
      "é.iso",
      "a".repeat(129),
    ];
    for (const name of names) {
      await refused(() => placeFile(transport, { ...placement, name }), "invalid_argument");
      await refused(() => removeFile(transport, { ...placement, name }), "invalid_argument");
    }
    assertEquals(await namesIn(root), []);
  },
);

zoneTest(
  "placeFile() accepts the longest allowed name",
  async ({ transport, placement, root }) => {
    const name = `${"a".repeat(124)}.iso`;
    assertEquals((await placeFile(transport, { ...placement, name })).file, `/${name}`);
    assertEquals(await namesIn(root), [name]);
  },
);

zoneTest("placeFile() refuses a zonepath that is not below the zones", async (zone) => {
  const { folder } = zone;
  await Deno.mkdir(`${folder}/outside/root`, { recursive: true });
  await Deno.mkdir(`${folder}/zones-evil/root`, { recursive: true });
  const outside = [
    `${folder}/outside`,
    `${folder}/zones-evil`,
    `${folder}/zones`,
    `${folder}/zones/`,
    `${folder}/zones/../outside`,
    `${folder}/zones/./x`,
    `${folder}/zones//x`,
    `${folder}/zones/.hidden`,
    `${folder}/zones/-x`,
    `${folder}/zones/a\nb`,
    "/",
    "",
    "zones/x",
  ];
  for (const zonepath of outside) await refusedWith(zone, zonepath, "forbidden");
  assertEquals(await namesIn(`${folder}/outside/root`), []);
});

zoneTest("placeFile() refuses a missing zone or root", async (zone) => {
  await refusedWith(zone, `${zone.folder}/zones/nothing`, "not_found", "does not exist");
  await Deno.mkdir(`${zone.folder}/zones/rootless`);
  await refusedWith(zone, `${zone.folder}/zones/rootless`, "not_found", "does not exist");
});

zoneTest("placeFile() refuses a link at every component of the path", async (zone) => {
  const { folder, placement } = zone;
  await Deno.mkdir(`${folder}/outside/root`, { recursive: true });
  // The zone itself, a folder above it, and its root.
  await Deno.symlink(`${folder}/outside`, `${folder}/zones/linked`);
  await refusedWith(zone, `${folder}/zones/linked`, "forbidden", "is a symbolic link");
  await Deno.mkdir(`${folder}/outside/inner/root`, { recursive: true });
  await refusedWith(zone, `${folder}/zones/linked/inner`, "forbidden", "is a symbolic link");
  await Deno.mkdir(`${folder}/zones/rootlink`);
  await Deno.symlink(`${folder}/outside/root`, `${folder}/zones/rootlink/root`);
  await refusedWith(zone, `${folder}/zones/rootlink`, "forbidden", "is a symbolic link");
  // The folder of all zones.
  await Deno.symlink(`${folder}/zones`, `${folder}/zones-link`);
  const zonesRoot = `${folder}/zones-link`;
  const transport = zone.transportTo(zonesRoot);
  const zonepath = zone.zonepath.replace("/zones/", "/zones-link/");
  await refused(() => placeFile(transport, { ...placement, zonepath }), "forbidden", "link");
  assertEquals(await namesIn(`${folder}/outside/root`), []);
  assertEquals(await namesIn(zone.root), []);
});

zoneTest("placeFile() refuses a file or a FIFO where a folder should be", async (zone) => {
  const { folder } = zone;
  await Deno.writeTextFile(`${folder}/zones/file`, "");
  await refusedWith(zone, `${folder}/zones/file`, "forbidden", "is not a folder");
  await makeFifo(`${folder}/zones/fifo`);
  await refusedWith(zone, `${folder}/zones/fifo`, "forbidden", "is not a folder");
  await Deno.mkdir(`${folder}/zones/fiforoot`);
  await makeFifo(`${folder}/zones/fiforoot/root`);
  await refusedWith(zone, `${folder}/zones/fiforoot`, "forbidden", "is not a folder");
});

zoneTest(
  "placeFile() refuses links, FIFOs and folders that have the file's name",
  async ({ transport, placement, root, folder }) => {
    const target = `${folder}/target`;
    await Deno.writeTextFile(target, CANARY, { mode: 0o600 });
    const file = `${root}/install.iso`;
    const plants: [string, () => Promise<void>][] = [
      ["a symbolic link", () => Deno.symlink(target, file)],
      ["a symbolic link", () => Deno.symlink(`${folder}/dangling`, file)],
      ["a symbolic link", () => Deno.symlink(folder, file)],
      ["a special file", () => makeFifo(file)],
      ["a folder", () => Deno.mkdir(file)],
    ];
    for (const [found, plant] of plants) {
      await plant();
      await refused(() => placeFile(transport, placement), "conflict", found);
      await Deno.remove(file);
      assertEquals(await namesIn(root), []);
    }
    assertEquals(await Deno.readTextFile(target), CANARY);
    assertEquals(((await Deno.lstat(target)).mode ?? 0) & 0o777, 0o600);
    await assertRejects(() => Deno.lstat(`${folder}/dangling`), Deno.errors.NotFound);
  },
);

zoneTest(
  "placeFile() replaces a hard link without changing the file's other name",
  async ({ transport, placement, root, folder, bytes }) => {
    await Deno.writeTextFile(`${folder}/target`, CANARY);
    await Deno.link(`${folder}/target`, `${root}/install.iso`);
    await placeFile(transport, placement);
    assertEquals(await Deno.readTextFile(`${folder}/target`), CANARY);
    assertEquals(await Deno.readFile(`${root}/install.iso`), bytes);
  },
);

zoneTest(
  "placeFile() removes links and FIFOs that have the temporary name",
  async ({ transport, placement, root, zonepath, folder }) => {
    const temporary = `${zonepath}/.zonewright-install.iso.part`;
    await Deno.writeTextFile(`${folder}/target`, CANARY);
    const plants = [
      () => Deno.symlink(`${folder}/target`, temporary),
      () => makeFifo(temporary),
      () => Deno.link(`${folder}/target`, temporary),
    ];
    for (const plant of plants) {
      await plant();
      await placeFile(transport, placement);
      assertEquals(await namesIn(root), ["install.iso"]);
      await Deno.remove(`${root}/install.iso`);
    }
    assertEquals(await Deno.readTextFile(`${folder}/target`), CANARY);
    await Deno.mkdir(temporary);
    await refused(() => placeFile(transport, placement), "conflict", "it is a folder");
    await Deno.remove(temporary);
  },
);

zoneTest(
  "placeFile() checks the free space before it writes",
  async ({ transport, placement, root, folder }) => {
    // A file with a hole: far more bytes than the disk has, at no cost.
    const source = `${folder}/huge.iso`;
    const size = await transport.files.freeBytes(root) * 2;
    await Deno.writeTextFile(source, "");
    await Deno.truncate(source, Math.min(size, 2 ** 43));
    const { sha256: _, ...rest } = placement;
    const huge = { ...rest, source, size: (await Deno.lstat(source)).size };
    await refused(() => placeFile(transport, huge), "storage_full", " are free there");
    assertEquals(await namesIn(root), []);
  },
);

zoneTest("the end of a log is read from a regular file of that folder only", async (zone) => {
  const { transport: { files }, root, zonepath, folder } = zone;
  const temporary = `${zonepath}/.zonewright-vm.log.part`;
  const tail = (name = "vm.log", bytes = 4) =>
    files.tailWithin({ folder: `${root}/tmp`, name, bytes, temporary });
  assertEquals(await tail(), null);
  await Deno.mkdir(`${root}/tmp`);
  assertEquals(await tail(), null);
  await Deno.writeTextFile(`${folder}/secret`, CANARY);
  await Deno.symlink(`${folder}/secret`, `${root}/tmp/vm.log`);
  assertEquals(await tail(), null);
  await makeFifo(`${root}/tmp/fifo`);
  assertEquals(await tail("fifo"), null);
  await Deno.mkdir(`${root}/tmp/dir`);
  assertEquals(await tail("dir"), null);
  await Deno.writeTextFile(`${root}/tmp/plain`, "one two");
  // What an attempt that was cut off left is in the way of none.
  await Deno.writeTextFile(temporary, "old");
  assertEquals(await tail("plain"), " two");
  assertEquals(await tail("plain", 100), "one two");
  await Deno.rename(`${root}/tmp`, `${root}/real`);
  await Deno.symlink(`${root}/real`, `${root}/tmp`);
  await refused(() => tail("plain"), "conflict", "leads elsewhere");
});
