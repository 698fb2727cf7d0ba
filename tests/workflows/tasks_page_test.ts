import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { startSampleUpstream } from "../../src/demo/upstream.ts";
import { parseJobRequest } from "../../src/domain/job_request.ts";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { parseMachineRequest } from "../../src/domain/machine.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { silentLog } from "../../src/log.ts";
import { CAPABILITIES } from "../../src/sandbox/protocol.ts";
import { PROVISION_MACHINE } from "../../src/workflows/provision_machine/workflow.ts";
import { machineUuidOf } from "../capabilities/simulated_host.ts";
import { withFolder } from "../support/until.ts";
import { withProvisioning } from "./provisioning.ts";

const UUID = machineUuidOf(1);
const PAGE = fromFileUrl(new URL("../../docs/tasks.md", import.meta.url));

/** The JSON examples of the page, in order. */
async function examples(): Promise<JsonObject[]> {
  const page = await Deno.readTextFile(PAGE);
  return Array.from(page.matchAll(/```json\n(.*?)```/gs), ([, text = ""]) => JSON.parse(text));
}

Deno.test("docs/tasks.md names every capability", async () => {
  const page = await Deno.readTextFile(PAGE);
  for (const name of CAPABILITIES) assert(page.includes(`\`${name}`), name);
});

Deno.test("docs/tasks.md shows a request for the built-in workflow that is accepted", async () => {
  const example = (await examples()).find(({ workflow }) => workflow !== undefined);
  const { workflow_uuid, params } = parseJobRequest(example, {
    targetCharsMax: 100,
    paramsCharsMax: 10_000,
    callbackHosts: [],
  });
  assertEquals(workflow_uuid, PROVISION_MACHINE.uuid);
  assertEquals(parseMachineRequest(params, DEFAULT_POLICY).boot, "cd");
});

Deno.test("every example of docs/tasks.md runs as it stands", async () => {
  await withFolder(async (cacheDir) => {
    const upstream = await startSampleUpstream({ cacheDir, log: silentLog, isoBytes: 1024 * 1024 });
    try {
      await withProvisioning(async ({ host, runWorkflow }) => {
        await host.mirror.sync();
        const artifact = { distro: "zonewright-sample", release: "latest" };
        const results = new Map<string, unknown>();
        for (const example of await examples()) {
          if (!Array.isArray(example.chain)) continue;
          const params = {
            whom: "you",
            uuid: UUID,
            path: host.iso,
            file: "/install.iso",
            artifact,
          };
          const job = await runWorkflow(example, params);
          const errors = job.chain_results.map(({ error }) => error).filter((error) =>
            error !== ""
          );
          assertEquals([job.execution, errors], ["succeeded", errors.filter((e) => e === "wait")]);
          results.set(job.name, job.chain_results.at(-1)?.result);
        }
        const booted = results.get("boot-medium");
        assert(isJsonObject(booted));
        assertEquals(booted.now, booted.address);
        results.delete("boot-medium");
        assertEquals(Object.fromEntries(results), {
          "hello": "Hello you",
          "small-machine": { quota: 12, role: "test" },
          "machine-report": { stopped: 1 },
          "eject-medium": { removed: true },
          "mirror-image": { build: "20261101", size: 1024 * 1024 },
        });
        await host.assertHolds(UUID);
      }, { upstream: upstream.url });
    } finally {
      await upstream.close();
    }
  });
});
