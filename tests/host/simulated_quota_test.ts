// The quota of a simulated zone, as the agent meets it when it writes there.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { placeFile } from "../../src/host/zone/root.ts";
import { machineUuidOf, type SimulatedHost, withHost } from "../capabilities/simulated_host.ts";
import { namesIn } from "./zone.ts";

const UUID = machineUuidOf(1);
const GIB = 1024 ** 3;
const { signal } = new AbortController();

/** A machine; returns its zonepath. */
async function newMachine(host: SimulatedHost, properties: JsonObject): Promise<string> {
  await host.vmadm.create({ uuid: UUID, autoboot: false, ...properties });
  return String((await host.vmadm.get(UUID))?.zonepath);
}

/** Makes a file that has the size, and takes no room of this host. */
async function sparseFile(path: string, size: number): Promise<void> {
  await Deno.writeFile(path, new Uint8Array());
  await Deno.truncate(path, size);
}

async function assertFull(run: () => Promise<unknown>): Promise<string> {
  const error = await assertRejects(run, AgentError);
  assertEquals(error.code, "storage_full");
  return error.message;
}

Deno.test("a simulated zone accepts files up to its quota, which an update raises at once", async () => {
  await withHost(async (host) => {
    const { files } = host.transport;
    const zonepath = await newMachine(host, { brand: "bhyve" });
    const used = await files.freeBytes(`${zonepath}/root`);
    assert(used <= GIB && used > GIB - 1024 ** 2, String(used));
    await sparseFile(`${zonepath}/root/first.iso`, GIB - 100 * 1024);
    assert(await files.freeBytes(`${zonepath}/root`) <= 100 * 1024);

    const file = await files.create(`${zonepath}/second.part`);
    try {
      await file.write(new Uint8Array(64 * 1024));
      const message = await assertFull(() => file.write(new Uint8Array(64 * 1024)));
      assertStringIncludes(message, "Disk quota exceeded");
      await host.vmadm.update(UUID, { quota: 2 });
      await file.write(new Uint8Array(64 * 1024));
      assertEquals((await file.finish(0o444)).size, 128 * 1024);
    } finally {
      await file.close();
    }
  });
});

Deno.test("a full simulated zone accepts no new file; one without a quota accepts all", async () => {
  await withHost(async (host) => {
    const { files } = host.transport;
    const zonepath = await newMachine(host, { brand: "kvm" });
    await sparseFile(`${zonepath}/root/first.iso`, 11 * GIB);
    assertEquals(await files.freeBytes(`${zonepath}/root`), 0);
    await assertFull(() => files.create(`${zonepath}/second.part`));
    assertEquals(await namesIn(zonepath), ["root"]);
    await host.vmadm.update(UUID, { quota: 0 });
    const file = await files.create(`${zonepath}/second.part`);
    await file.write(new Uint8Array(64 * 1024));
    await file.close();
  });
});

Deno.test("a medium larger than the quota is refused before any byte is copied", async () => {
  await withHost(async (host) => {
    const zonepath = await newMachine(host, { brand: "bhyve" });
    const source = `${host.folder}/large.iso`;
    const size = 3 * GIB;
    await sparseFile(source, size);
    const message = await assertFull(() =>
      placeFile(host.transport, { zonepath, name: "large.iso", source, size })
    );
    assertStringIncludes(message, "it has 3 GiB and ");
    assertEquals(await namesIn(zonepath), ["root"]);
    assert(!(await namesIn(`${zonepath}/root`)).includes("large.iso"));
  });
});

Deno.test("a medium that exceeds the quota while it is copied fails, and leaves nothing", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await perform("vmadm.create", [{ uuid: UUID, brand: "bhyve" }], signal);
    const zonepath = String((await host.vmadm.get(UUID))?.zonepath);
    const medium = await perform("media.find", [{ path: host.iso }], signal);
    // The quota is raised to 2 GiB for the medium; what is there already was not foreseen.
    await sparseFile(`${zonepath}/root/driver.iso`, 2 * GIB - 1024);
    await assertFull(() => perform("media.place", [UUID, medium], signal));
    assertEquals((await host.vmadm.get(UUID))?.quota, 2);
    assertEquals(await namesIn(zonepath), ["root"]);
    await perform("vmadm.update", [UUID, { quota: 4 }], signal);
    await perform("media.place", [UUID, medium], signal);
  });
});
