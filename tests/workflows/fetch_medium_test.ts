import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { startSampleUpstream } from "../../src/simulator/outside/upstream.ts";
import type { Job } from "../../src/domain/job/job.ts";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { FETCH_MEDIUM_WORKFLOW } from "../../src/machines/media_jobs.ts";
import { openIndexServer } from "../mirror/index_server.ts";
import { hashed } from "../mirror/vendor_file.ts";
import { withFolder } from "../support/until.ts";
import { type Provisioning, withProvisioning } from "./provisioning.ts";

const ISO_BYTES = 1024 * 1024;
const PACKED = fromFileUrl(new URL("../fixtures/packed/", import.meta.url));
const BODY: JsonObject = JSON.parse(JSON.stringify(FETCH_MEDIUM_WORKFLOW.definition));

type Fetch = (media: JsonObject) => Promise<Job>;

/** Runs with jobs of the workflow, and the address of the sample upstream. */
async function withFetch(
  run: (fetch: Fetch, provisioning: Provisioning, url: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (cacheDir) => {
    const upstream = startSampleUpstream({ cacheDir, log: silentLog, isoBytes: ISO_BYTES });
    try {
      await withProvisioning(async (provisioning) => {
        await provisioning.host.mirror.sync();
        const fetch: Fetch = (media) => provisioning.runWorkflow(BODY, { media });
        await run(fetch, provisioning, upstream.url);
      }, { upstream: upstream.url });
    } finally {
      await upstream.close();
    }
  });
}

/** The medium that a job has found. */
function mediumOf(job: Job): JsonObject {
  assertEquals([job.execution, job.chain_results.map(({ error }) => error)], ["succeeded", [""]]);
  const result = job.chain_results[0]?.result;
  assert(isJsonObject(result));
  return result;
}

function errorOf(job: Job): string {
  assertEquals(job.execution, "failed");
  return JSON.stringify(job.chain_results.at(-1)?.error);
}

Deno.test("fetch-medium brings an artifact here, reports its progress, and reads it again", async () => {
  await withFetch(async (fetch, { host }) => {
    const artifact = { distro: "zonewright-sample", release: "latest", format: "iso" };
    const job = await fetch({ artifact });
    const medium = mediumOf(job);
    assertEquals([medium.source, medium.size], ["artifact", ISO_BYTES]);
    assertEquals((await host.store.media.get(String(medium.sha256)))?.level, "index");
    const info = await host.store.info.list(job.uuid) ?? [];
    const phases = info.map(({ progress }) => isJsonObject(progress) ? progress.phase : undefined);
    assert(phases.includes("download"), JSON.stringify(info));
    const again = mediumOf(await fetch({ known: `sha256:${medium.sha256}` }));
    assertEquals({ ...again }, { ...medium });
    // Damaged, it is found out and removed.
    await Deno.chmod(String(medium.path), 0o600);
    await Deno.writeFile(String(medium.path), new Uint8Array(ISO_BYTES));
    assertStringIncludes(
      errorOf(await fetch({ known: `sha256:${medium.sha256}` })),
      "its sha256 is",
    );
    assertEquals(await host.store.media.list(), []);
  });
});

Deno.test("fetch-medium refuses params that name no medium, and says what it found", async () => {
  await withProvisioning(async ({ runWorkflow }) => {
    const cases: readonly (readonly [params: JsonObject, found: string])[] = [
      [{}, "missing"],
      [{ media: null }, "null"],
      [{ media: "install.iso" }, '"install.iso"'],
      [{ media: 7 }, "7"],
    ];
    for (const [params, found] of cases) {
      const { execution, chain_results: [result] } = await runWorkflow(BODY, params);
      const words = `params.media is ${found}, expected an object that names it`;
      assertEquals([execution, result?.error], ["failed", `Cannot fetch a medium: ${words}`]);
    }
  });
});

Deno.test("fetch-medium takes what no machine boots, and it is never placed", async () => {
  await withFetch(async (fetch, { host }) => {
    await Deno.writeTextFile(`${host.mediaDir}/disk.qcow2`, "QFI");
    const medium = mediumOf(await fetch({ path: "disk.qcow2" }));
    assertEquals([medium.source, medium.name], ["path", "disk.qcow2"]);
    const [file] = await host.store.media.list();
    assertEquals([file?.path, file?.level], [`${host.mediaDir}/disk.qcow2`, "none"]);
  });
});

Deno.test("fetch-medium unpacks the file of an address once its digest was verified", async () => {
  await withFetch(async (_, { host }) => {
    const body = await Deno.readFile(`${PACKED}plain.xz`);
    await using server = openIndexServer(new Map([["disk.raw.xz", { body }]]));
    await withProvisioning(async ({ runWorkflow }) => {
      const digest = `sha256:${await hashed("SHA-256", body)}`;
      const url = `${server.url}/disk.raw.xz`;
      const media = { url, digest, compression: "xz" };
      const medium = mediumOf(await runWorkflow(BODY, { media }));
      const plain = await Deno.readFile(`${PACKED}plain.bin`);
      assertEquals([medium.name, medium.sha256], ["disk.raw", await hashed("SHA-256", plain)]);
      assertEquals(await Deno.readFile(String(medium.path)), plain);
      const unverified = await runWorkflow(BODY, { media: { url: `${url}?x`, check: "none" } });
      assertStringIncludes(errorOf(unverified), "digest is missing");
    }, { upstream: server.url });
    assertEquals(await host.store.media.list(), []);
  });
});

Deno.test("fetch-medium asks no host that neither the index nor the operator names", async () => {
  await withFetch(async (fetch) => {
    const digest = `sha256:${"0".repeat(64)}`;
    const job = await fetch({ url: "http://169.254.169.254/latest/meta-data", digest });
    assertStringIncludes(errorOf(job), "it is not a host of the index");
  });
});
