// A disk that fills up quickly: a small file system in memory, which only root may mount.

import { until } from "./until.ts";

const MOUNT = "/usr/bin/mount";
const UMOUNT = "/usr/bin/umount";

function mount(folder: string, options: string): boolean {
  const args = ["-t", "tmpfs", "-o", options, "tmpfs", folder];
  return new Deno.Command(MOUNT, { args }).outputSync().success;
}

/** Whether a small disk can be mounted here: root without this capability exists in containers. */
export function mayMount(): boolean {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return false;
  const folder = Deno.makeTempDirSync({ prefix: "zonewright-test-" });
  try {
    if (!mount(folder, "size=64k")) return false;
    return new Deno.Command(UMOUNT, { args: [folder] }).outputSync().success;
  } catch {
    return false;
  } finally {
    Deno.removeSync(folder);
  }
}

/** Runs a function while a disk of so many MiB, and so many files, is mounted on a folder. */
export async function withSmallDisk(
  folder: string,
  mebibytes: number,
  run: () => Promise<void>,
  files = 0,
): Promise<void> {
  const options = `size=${mebibytes}m,mode=755,nr_inodes=${files}`;
  if (!mount(folder, options)) throw new Error(`Cannot mount on ${folder}`);
  try {
    await run();
  } finally {
    // A file that the last call has let go may be open for an instant more.
    await until(
      `the disk on ${folder} to be free`,
      async () => (await new Deno.Command(UMOUNT, { args: [folder] }).output()).success,
    );
  }
}

/** Runs a function while that disk takes no change, as one on which the system has found errors. */
export async function withoutWrites(folder: string, run: () => Promise<void>): Promise<void> {
  const remount = (how: "ro" | "rw") => {
    const args = ["-o", `remount,${how}`, folder];
    const { success } = new Deno.Command(MOUNT, { args }).outputSync();
    if (!success) throw new Error(`Cannot make ${folder} ${how}`);
  };
  remount("ro");
  try {
    await run();
  } finally {
    remount("rw");
  }
}

/** Registers a test that needs a small disk; without the right to mount it is skipped by name. */
export function smallDiskTest(name: string, fn: () => Promise<void>): void {
  const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";
  Deno.test({ name: `${name} [needs mount as root]`, ignore: !required && !mayMount(), fn });
}
