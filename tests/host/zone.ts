// A zones folder with one zone, and a medium beside it, for tests that copy into a zone.

import { assertEquals } from "@std/assert";
import { sshTransport } from "../../src/host/ssh/transport.ts";
import { localTransport, type Transport } from "../../src/host/transport.ts";
import type { Placement } from "../../src/host/zone/root.ts";
import { withFolder } from "../support/until.ts";
import { sshTest, withSshServer } from "./ssh_server.ts";
import { newMark } from "./test_host.ts";

export interface TestZone {
  /** Folder that holds everything, `zones` among it. */
  readonly folder: string;
  readonly transport: Transport;
  /** The same way with another folder of zones. */
  readonly transportTo: (zonesRoot: string) => Transport;
  readonly zonepath: string;
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

/** Registers a test with a zone of its own, for a host that is this one and for one behind ssh. */
export function zoneTest(name: string, test: (zone: TestZone) => Promise<void>): void {
  Deno.test(`${name} (local)`, () => withZone(test));
  sshTest(`${name} (ssh)`, () => withFarZone(test));
}

/** Runs a test with a zone of this host. */
export async function withZone(test: (zone: TestZone) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const transportTo = (zonesRoot: string) =>
      localTransport({ vmadm: "/usr/sbin/vmadm", zonesRoot });
    const zone = await makeZone(folder, transportTo);
    await test(zone);
    await assertNothingLeft(zone);
  });
}

/** Runs a test with a zone of a host behind ssh. */
export async function withFarZone(test: (zone: TestZone) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const opened: { close(): Promise<void> }[] = [];
    await withFolder((beside) =>
      withSshServer(beside, async ({ host }) => {
        const transportTo = (zonesRoot: string) => {
          const folder = `${host.folder}-${opened.length}`;
          const vmadm = "/usr/sbin/vmadm";
          const transport = sshTransport({ host: { ...host, folder }, vmadm, zonesRoot, newMark });
          opened.push(transport);
          return transport;
        };
        try {
          const zone = await makeZone(folder, transportTo);
          await test(zone);
          await assertNothingLeft(zone);
        } finally {
          for (const transport of opened) await transport.close();
        }
      })
    );
  });
}

/** Fails when a copy that is no longer under way lies beside the zone's root. */
async function assertNothingLeft({ zonepath }: TestZone): Promise<void> {
  const names = await namesIn(zonepath).catch(() => []);
  assertEquals(names.filter((name) => name.startsWith(".zonewright-")), []);
}

async function makeZone(
  folder: string,
  transportTo: (zonesRoot: string) => Transport,
): Promise<TestZone> {
  const zonesRoot = `${folder}/zones`;
  const zonepath = `${zonesRoot}/54f1cc77-68f1-42ab-acac-5c4f64f5d6e0`;
  const bytes = new Uint8Array(MEDIUM_BYTES);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = i * 31 + (i >> 12);
  await Deno.mkdir(`${zonepath}/root`, { recursive: true });
  await Deno.writeFile(`${folder}/medium.iso`, bytes);
  return {
    folder,
    transport: transportTo(zonesRoot),
    transportTo,
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
  };
}

/** The names in a folder, sorted. */
export async function namesIn(folder: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(folder))).map((entry) => entry.name).sort();
}

/** Makes a FIFO, which blocks a program that opens it carelessly. */
export async function makeFifo(path: string): Promise<void> {
  await new Deno.Command("/usr/bin/mkfifo", { args: [path] }).output();
}
