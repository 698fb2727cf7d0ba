// A zones folder with one zone, and a medium beside it, for tests that copy into a zone.

import { localTransport, type Transport } from "../../src/host/transport.ts";
import type { Placement } from "../../src/host/zone_root.ts";
import { withFolder } from "../support/until.ts";

export interface TestZone {
  /** Folder that holds everything, `zones` among it. */
  readonly folder: string;
  readonly transport: Transport;
  readonly zonepath: string;
  /** The zone's root. */
  readonly root: string;
  /** A placement that succeeds, for tests to break. */
  readonly placement: Placement;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Bytes of the test medium: two full parts and a bit, none like the other. */
const MEDIUM_BYTES = 2 * 1024 * 1024 + 4321;

/** Hexadecimal digest by the platform's own implementation. */
export async function digestOf(
  algorithm: "SHA-256" | "SHA-512",
  bytes: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest(algorithm, bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Runs a test with a zone of its own. */
export async function withZone(test: (zone: TestZone) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const zonesRoot = `${folder}/zones`;
    const zonepath = `${zonesRoot}/54f1cc77-68f1-42ab-acac-5c4f64f5d6e0`;
    const bytes = new Uint8Array(MEDIUM_BYTES);
    for (let i = 0; i < bytes.length; i += 1) bytes[i] = i * 31 + (i >> 12);
    await Deno.mkdir(`${zonepath}/root`, { recursive: true });
    await Deno.writeFile(`${folder}/medium.iso`, bytes);
    await test({
      folder,
      transport: localTransport({ vmadm: "/usr/sbin/vmadm", zonesRoot }),
      zonepath,
      root: `${zonepath}/root`,
      bytes,
      placement: {
        zonepath,
        name: "install.iso",
        source: `${folder}/medium.iso`,
        size: bytes.length,
        sha256: await digestOf("SHA-256", bytes),
      },
    });
  });
}

/** The names in a folder, sorted. */
export async function namesIn(folder: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(folder))).map((entry) => entry.name).sort();
}

/** Makes a FIFO, which blocks whoever opens it carelessly. */
export async function makeFifo(path: string): Promise<void> {
  await new Deno.Command("/usr/bin/mkfifo", { args: [path] }).output();
}
