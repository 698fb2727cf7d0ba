// An agent in which everything that the examples of its description name is there, so that each
// example is a request that succeeds: the sample index, the example's machine on the simulated host,
// and the example's workflow and job in the state that an operation needs.

import { systemNow } from "../../src/domain/instant.ts";
import { openDocumentCache } from "../../src/http/answer/document_cache.ts";
import { assertEquals } from "@std/assert";
import { type SampleFiles, sampleFiles } from "../../src/simulator/outside/sample_file.ts";
import { sampleIndex } from "../../src/simulator/outside/sample_index.ts";
import {
  type HostUuid,
  type JobUuid,
  type MachineUuid,
  randomUuid,
  type WorkflowUuid,
} from "../../src/domain/id.ts";
import type { Wording } from "../../src/domain/job/wire.ts";
import type { Workflow } from "../../src/domain/job/workflow.ts";
import { parseWorkflow } from "../support/parsed_workflow.ts";
import { runCommand } from "../../src/host/program.ts";
import { simulatedTransport } from "../../src/host/transport.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import { waitForVnc } from "../../src/host/vmadm/vnc.ts";
import type { Hono } from "hono";
import type { HttpEnv, ServedAgent } from "../../src/http/served_agent.ts";
import { metricsRoutes, readinessRoutes } from "../../src/http/routes/monitoring.ts";
import { indexSyncRoutes } from "../../src/http/routes/index/mirror.ts";
import { imageSearchRoutes } from "../../src/http/routes/index/images.ts";
import { indexTreeRoutes } from "../../src/http/routes/index/documents.ts";
import { HOST_UUID } from "../../src/http/openapi/hosts.ts";
import {
  DESCRIPTION,
  JOB_REQUEST,
  JOB_UUID,
  MACHINE_UUID,
  STOPPED_UUID,
} from "../../src/http/openapi/schemas.ts";
import { WORKFLOW, WORKFLOW_UUID } from "../../src/http/openapi/workflows.ts";
import { MEDIUM_SHA256 } from "../../src/http/openapi/media.ts";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { meterFamilies, openMeters } from "../../src/metrics/meters.ts";
import { MACHINE_LIFE } from "../../src/machines/workflows/machine_life.ts";
import type { TaskEvent } from "../../src/domain/job/state.ts";
import type { MediaFile } from "../../src/store/media_store.ts";
import { DEFAULT_HTTP_LIMITS, NO_LIMIT } from "../support/limits.ts";
import { withMirror } from "../mirror/test_mirror.ts";
import { jobOf, T0, taskOf } from "../support/job.ts";
import { hostRoutes } from "../../src/http/routes/host.ts";
import type { Store } from "../../src/store/store.ts";
import { register } from "../store/host_suite.ts";
import { recordOf, run as runJob } from "../store/store_case.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { agentRoutes } from "../../src/http/routes/agent.ts";
import { AGENT_SOURCES, hostSources } from "./host_sources.ts";
import { withFolder } from "../support/until.ts";
import {
  claimAll,
  endTask,
  FETCH_MEDIUM,
  holdOf,
  type HttpAgent,
  MACHINE_DEPS,
  PROVISION,
  withHttpAgent,
} from "./http_agent.ts";
import { READ, tokenOf } from "./token_agent.ts";
import { join } from "@std/path";
import { isoBytes } from "../support/medium.ts";
import { selfOfRun } from "../support/agent_process.ts";

const DEADLINE_MS = 90_000;
// The size of the medium is of no interest here: nothing is downloaded.
const FILES: SampleFiles = await sampleFiles({ isoBytes: 1 << 20 });

/** The example's medium: a file of the operator, so that no bytes are needed for it. */
const MEDIUM: MediaFile = {
  sha256: MEDIUM_SHA256,
  name: "installer.iso",
  path: "/media/installer.iso",
  size: 1 << 20,
  source: "path",
  origin: "/media/installer.iso",
  label: "file /media/installer.iso",
  level: "index",
  created_at: T0,
  last_used_at: T0,
  verified_at: T0,
};

/** What the agents of one test share, since it takes long to make. */
export interface World {
  /** The routes of the index, whose mirror has been synced. */
  readonly routes: readonly Hono<HttpEnv>[];
  readonly machines: ServedAgent["machines"];
  /** Settles when no sync is under way. */
  settled(): Promise<void>;
}

/** Runs a test in a world with the sample index and the example's machine, running. */
export async function withWorld(run: (world: World) => Promise<void>): Promise<void> {
  await withIndex((routes, settled) =>
    withFolder(async (stateDir) => {
      const self = selfOfRun();
      const vmadm = openVmadm(simulatedTransport({ self, stateDir }));
      const uuid = MACHINE_UUID as MachineUuid;
      try {
        await vmadm.create({ ...DESCRIPTION, uuid });
        await vmadm.boot(uuid, {});
        await waitForVnc(vmadm, uuid, { deadlineMs: DEADLINE_MS });
        await vmadm.create({ brand: "kvm", ram: 256, autoboot: false, uuid: STOPPED_UUID });
        const machines = { ...MACHINE_DEPS, vmadm };
        await run({ routes, machines, settled });
      } finally {
        const args = [...self.args, "simulate", "--state", stateDir, "stop-all"];
        const options = { deadlineMs: DEADLINE_MS, env: { ...self.env } };
        assertEquals((await runCommand(self.program, args, options)).code, 0);
      }
    })
  );
}

/** Runs a test with the routes of the index, synced with the sample index. */
export async function withIndex(
  run: (routes: readonly Hono<HttpEnv>[], settled: () => Promise<void>) => Promise<void>,
): Promise<void> {
  await withMirror(async ({ mirror, store, server, clock }) => {
    server.files.clear();
    const documents = sampleIndex({ baseUrl: "https://images.example.com", files: FILES });
    for (const [path, body] of documents) server.files.set(path, { body });
    server.files.set("v1/images.json", { body: new TextEncoder().encode('{"images":[]}') });
    await mirror.sync();
    const budget = openMemoryBudget();
    const routes = [
      indexTreeRoutes({
        now: () => clock.now,
        budget,
        log: silentLog,
        cache: openDocumentCache(store.index, () => mirror.generation, budget),
      }),
      imageSearchRoutes(store),
      indexSyncRoutes({
        mirror,
        index: store.index,
        limits: DEFAULT_HTTP_LIMITS,
        log: silentLog,
        now: systemNow,
      }),
      metricsRoutes(() => Promise.resolve(meterFamilies(openMeters()))),
      readinessRoutes(() => Promise.resolve({ ready: true, checks: {} })),
      await exampleHost(store),
      agentRoutes(AGENT_SOURCES),
    ];
    // A sync that is under way is joined.
    await run(routes, async () => void await mirror.sync());
  });
}

/** A host with a failed job, and something to warn of. */
async function exampleHost(store: Store): Promise<Hono<HttpEnv>> {
  const job = await runJob(store, jobOf(4711));
  await store.jobs.recordTask(recordOf(job, { kind: "fail", onerror: false }));
  return hostRoutes(hostSources(store, { settingsWaiting: () => ["slots"] }));
}

/** Operations on a file that was uploaded. */
const LIBRARY_FILE_NEEDED = ["media_library", "media_library_file", "media_library_remove"];

/** Runs a test with an agent of that world and the rows that an operation's examples name. */
export async function withExample(
  world: Partial<World>,
  wording: Wording,
  operation: string,
  run: (agent: HttpAgent) => Promise<void>,
): Promise<void> {
  const { routes = [], machines } = world;
  const limits = { ...DEFAULT_HTTP_LIMITS, callbackHosts: ["hooks.example.com"] };
  // The example of a sign-in shows this one.
  const tokens = [await tokenOf("console", "admin", READ)];
  const access = {
    requiresToken: () => false,
    tokens: () => Promise.resolve(tokens),
    nowMs: () => 0,
  };
  const changes = {
    access,
    wording,
    routes,
    limits,
    hostUuid: HOST_UUID as HostUuid,
    ...(machines === undefined ? {} : { machines }),
  };
  await withFolder(async (uploads) => {
    await withHttpAgent(
      async (agent) => {
        const { workflows, jobs, info, media } = agent.store;
        await register(agent.store, lifeOf(HOST_UUID as HostUuid));
        await media.keep(MEDIUM);
        if (LIBRARY_FILE_NEEDED.includes(operation)) {
          await Deno.writeFile(join(uploads, "installer-13.iso"), isoBytes(40_960));
        }
        const provision = { name: "provision-machine", chain: [taskOf("first")], onerror: [] };
        await workflows.putBuiltin({ uuid: PROVISION, ...provision });
        await workflows.putBuiltin({ ...provision, uuid: FETCH_MEDIUM, name: "fetch-medium" });
        for (const { uuid, definition } of Object.values(MACHINE_LIFE)) {
          const life = parseWorkflow(definition, uuid, randomUuid, DEFAULT_HTTP_LIMITS);
          await workflows.putBuiltin(life);
        }
        const workflow = exampleWorkflow();
        // With compat no two workflows have one name.
        if (operation !== "workflow_create") await workflows.create(workflow, { max: NO_LIMIT });
        // A job of a machine would hold it.
        if (operation !== "job_create" && !operation.startsWith("machine_")) {
          const uuid = JOB_UUID as JobUuid;
          const target = String(JOB_REQUEST.target);
          const params = { machine: MACHINE_UUID };
          await jobs.create({ uuid, workflow, target, params }, NO_LIMIT);
          await info.append(uuid, { message: "seen" }, T0, NO_LIMIT);
          await bringTo(agent, operation, uuid);
        }
        // A stream of events ends with the agent, and no sooner.
        if (operation === "events") agent.closing.abort();
        await run(agent);
      },
      changes,
      uploads,
    );
  });
}

/** The workflow of the examples as it is kept. */
function exampleWorkflow(): Workflow {
  return parseWorkflow(WORKFLOW, WORKFLOW_UUID as WorkflowUuid, randomUuid, DEFAULT_HTTP_LIMITS);
}

/** Where an operation needs the example's job, when not queued. */
const NEEDED: Readonly<Record<string, TaskEvent>> = {
  job_get: { kind: "succeed" },
  job_wait: { kind: "succeed" },
  job_resume: { kind: "cb_wait" },
  job_retry: { kind: "fail", onerror: false },
  jobs_retry: { kind: "fail", onerror: false },
  leftover_list: { kind: "fail", onerror: false },
  leftover_drop: { kind: "fail", onerror: false },
};

/** Claims the example's job, whose first attempt fails. */
async function failAttempt(agent: HttpAgent, uuid: JobUuid): Promise<void> {
  await claimAll(agent);
  const attempt = {
    task: "stop",
    index: 0,
    attempt: 1,
    fallback: false,
    error: "the guest does not answer",
    started_at: T0,
    finished_at: T0,
    wait_seconds: 0,
  };
  const hold = await holdOf(agent, uuid);
  const rest = { attempt, failures: 0, elapsed_ms: 0 };
  assertEquals(await agent.store.jobs.recordAttempt({ ...hold, ...rest }), true);
}

/** Brings the example's job to where an operation succeeds, and shows the most. */
async function bringTo(agent: HttpAgent, operation: string, uuid: JobUuid): Promise<void> {
  if (operation === "job_summary_get") return await failAttempt(agent, uuid);
  const next = NEEDED[operation];
  if (next === undefined) return;
  await claimAll(agent);
  if (operation.startsWith("leftover_")) {
    await agent.store.machineClaims.take(
      { uuid: MACHINE_UUID as MachineUuid, host: "simulated", job_uuid: uuid },
    );
  }
  // A task keeps the params that the job has.
  await endTask(agent, uuid, next, {}, { machine: MACHINE_UUID });
}
