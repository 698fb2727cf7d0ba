import { assert, assertEquals } from "@std/assert";
import { isJsonObject } from "../../src/domain/json.ts";
import { startSampleUpstream } from "../../src/simulator/outside/upstream.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { machineUuidOf } from "../capabilities/simulated_host.ts";
import { withFolder } from "../support/until.ts";
import { assertConsole, paramsFor, type Provisioning, withProvisioning } from "./provisioning.ts";
import { isoBytes } from "../support/medium.ts";

const UUID = machineUuidOf(1);
const ISO_BYTES = 1024 * 1024;
const SAMPLE = { distro: "zonewright-sample", release: "latest" };

/** Runs with an agent whose index is the one of the sample upstream. */
async function withIndex(
  run: (provisioning: Provisioning, url: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (cacheDir) => {
    const upstream = startSampleUpstream({ cacheDir, log: silentLog, isoBytes: ISO_BYTES });
    try {
      await withProvisioning(async (provisioning) => {
        await provisioning.host.mirror.sync();
        await run(provisioning, upstream.url);
      }, { upstream: upstream.url });
    } finally {
      await upstream.close();
    }
  });
}

Deno.test("a machine boots from an artifact of the index, and its download is recorded", async () => {
  await withIndex(async ({ host, provision }) => {
    const job = await provision({ ...paramsFor(host, UUID), media: { artifact: SAMPLE } });
    assertEquals(job.chain_results.map(({ error }) => error), ["", "", "", "", "", ""]);
    await assertConsole(job);
    const info = await host.store.info.list(job.uuid) ?? [];
    const progress = info.map((entry) => entry.progress).filter(isJsonObject);
    const phases = new Set(progress.map(({ phase }) => phase));
    assert(phases.has("download") && phases.has("copy"), [...phases].join(" "));
    for (const phase of ["download", "copy"]) {
      const last = progress.filter((entry) => entry.phase === phase).at(-1);
      const { rate, ...reported } = last ?? {};
      assertEquals(reported, { phase, done: ISO_BYTES, total: ISO_BYTES });
      assert(rate === null || Number(rate) >= 0, `${rate}`);
    }
    await host.assertHolds(UUID);
  });
});

Deno.test("a disk image among the artifacts is booted as a disk, whatever boot was requested", async () => {
  await withIndex(async ({ host, provision }) => {
    const media = { artifact: { ...SAMPLE, format: "raw", variant: "disk" } };
    const job = await provision({ ...paramsFor(host, UUID), media, boot: "cd" });
    assertEquals(job.execution, "succeeded");
    const guest = JSON.parse((await host.simulate("guest", UUID)).stdout);
    assertEquals(guest.files.map(({ media }: { media: string }) => media), ["disk"]);
  });
});

Deno.test("a damaged file of the cache fails one machine, and is downloaded again for the next", async () => {
  await withIndex(async ({ host, provision }) => {
    const params = { ...paramsFor(host, UUID), media: { artifact: SAMPLE } };
    const found = await host.mirror.findArtifact(SAMPLE);
    // Where it is damaged decides which task finds out; in both cases it is gone from the cache.
    for (
      const [bytes, task] of [
        [new Uint8Array(ISO_BYTES).fill(9), "fetch_medium"],
        [isoBytes(ISO_BYTES), "place_medium"],
      ] as const
    ) {
      const { path } = await host.mirror.download(found);
      await Deno.chmod(path, 0o600);
      await Deno.writeFile(path, bytes);
      const failed = await provision(params);
      assertEquals(failed.chain_results.at(-1)?.name, task);
      const error = JSON.stringify(failed.chain_results.at(-1)?.error);
      assert(error.includes("its sha256 is"), error);
      await host.assertHolds();
    }
    assertEquals((await provision(params)).execution, "succeeded");
    await host.assertHolds(UUID);
  });
});

Deno.test("a bhyve machine refuses the image of a disk before it is made", async () => {
  await withIndex(async ({ host, provision }) => {
    const media = { artifact: { ...SAMPLE, format: "raw", variant: "disk" } };
    const job = await provision({ ...paramsFor(host, UUID, { brand: "bhyve" }), media });
    assertEquals([job.execution, job.chain_results.at(-1)?.name], ["failed", "fetch_medium"]);
    await host.assertHolds();
  });
});

Deno.test("an artifact that is not in the index fails with the choices there are", async () => {
  await withIndex(async ({ host, provision }) => {
    const media = { artifact: { ...SAMPLE, release: "9.9" } };
    const job = await provision({ ...paramsFor(host, UUID), media });
    const error = JSON.stringify(job.chain_results.at(-1)?.error);
    assert(error.includes("the choices are") && error.includes("2.0"), error);
    await host.assertHolds();
  });
});

Deno.test("a medium of an address is placed only with its digest", async () => {
  await withIndex(async ({ host, provision }, url) => {
    const found = await host.mirror.findArtifact(SAMPLE);
    const published = found.artifact.integrity?.digests.find((one) => one.algorithm === "sha256");
    const address = found.artifact.locations[0]?.url ?? "";
    assert(address.startsWith(url));
    const wrong = { url: address, digest: `sha256:${"0".repeat(64)}` };
    const failed = await provision({ ...paramsFor(host, UUID), media: wrong });
    assertEquals([failed.execution, failed.chain_results.length], ["failed", 2]);
    await host.assertHolds();
    const right = { url: address, digest: `sha256:${published?.value}` };
    const job = await provision({ ...paramsFor(host, UUID), media: right });
    assertEquals(job.execution, "succeeded");
  });
});
