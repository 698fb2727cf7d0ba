// An agent without a runner for tests of the HTTP room: the real application on a real port with a
// real store. What a runner would do is done by calling the store.

import { assertEquals } from "@std/assert";
import { type JobUuid, randomUuid, type TaskUuid } from "../../src/domain/id.ts";
import { phaseOf, type TaskResult } from "../../src/domain/job/job.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { createApp } from "../../src/http/app.ts";
import type { Hono } from "hono";
import type { HttpEnv, ServedAgent } from "../../src/http/served_agent.ts";
import type { MachineReader } from "../../src/http/machine_access.ts";
import { listen } from "../../src/http/server.ts";
import { type Log, openLog } from "../../src/metrics/log.ts";
import { Notifiers } from "../../src/runtime/notifier.ts";
import { openCache } from "../../src/mirror/media/cache.ts";
import { openHashing } from "../../src/mirror/media/hash.ts";
import { GRACE_MS, LISTENING } from "../support/listening.ts";
import { openTestDecoders } from "../support/decoders.ts";
import { type KnownFiles, openKnownFiles } from "../../src/mirror/media/known_files.ts";
import type { TaskEvent } from "../../src/domain/job/state.ts";
import type { Hold, TaskRecord } from "../../src/store/run_store.ts";
import type { Store } from "../../src/store/store.ts";
import { FETCH_MEDIUM_WORKFLOW } from "../../src/machines/media_jobs.ts";
import { PROVISION_MACHINE } from "../../src/machines/workflows/provision_machine.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { RUNNER, T0, uuidOf } from "../support/job.ts";
import { sourceChecksHere } from "../support/parsed_workflow.ts";
import { claimJobs, openClockedStore } from "../support/clocked_store.ts";
import { type Now, systemNow } from "../../src/domain/instant.ts";
import { systemFreeBytes } from "../../src/mirror/media/disk.ts";
import { type MediaLibrary, openLibrary } from "../../src/mirror/media/library.ts";
import { openUploads, type UploadLimits } from "../../src/mirror/media/uploads.ts";
import { lockFile } from "../../src/state_dir/state_dir.ts";

export const JSON_TYPE = { "content-type": "application/json" };
export const BODY = "function (job, cb) { cb(); }";
export const PROVISION = PROVISION_MACHINE.uuid;
export const FETCH_MEDIUM = FETCH_MEDIUM_WORKFLOW.uuid;

/** A response that was read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON, or undefined when it is empty. */
  readonly body: unknown;
}

export interface HttpAgent {
  readonly url: string;
  readonly port: number;
  readonly store: Store;
  /** The instant that the agent takes for the present. */
  clock: { now: string };
  /** Lines of the log as objects. */
  readonly log: JsonObject[];
  /** What the runner would hear: of the store, and of requests. */
  readonly hints: string[];
  readonly closing: AbortController;
  /** What the application was made of. */
  readonly context: ServedAgent;
  /** Sends a request, with a JSON content type when there is a body; texts are sent as they are. */
  call(method: string, path: string, body?: unknown, headers?: HeadersInit): Promise<Answer>;
}

/** The files that the store knows; there is no folder behind them. */
export function filesOf({ media }: Store, log: Log, now: Now = () => T0): KnownFiles {
  const folder = "/nowhere";
  const cache = openCache({ folder, media, bytesMax: Number.POSITIVE_INFINITY, now, log });
  const hashing = openHashing(openTestDecoders());
  return openKnownFiles({ media, cache, hashing, now, log });
}

/** A library of one folder for uploads; without one, nothing can be uploaded. */
export function libraryOf(
  store: Store,
  log: Log,
  { folder = "/dev/null/uploads", mediaDirs = [], limits = {}, files }: {
    folder?: string;
    mediaDirs?: readonly string[];
    limits?: Partial<UploadLimits>;
    files?: KnownFiles;
  } = {},
): MediaLibrary {
  const uploads = openUploads({
    folder,
    lock: async (path) => await lockFile(path) !== undefined,
    limits: {
      uploadBytesMax: 1024 ** 3,
      uploadsMax: 4,
      uploadStallSeconds: 30,
      uploadRateMin: 0,
      ...limits,
    },
    hashing: openHashing(openTestDecoders()),
    freeBytes: systemFreeBytes,
    now: systemNow,
    log,
  });
  return openLibrary({
    files: files ?? filesOf(store, log, systemNow),
    media: store.media,
    uploads,
    mediaDirs: [...mediaDirs, folder],
    uploadDir: folder,
    cacheBytesMax: 1024 ** 3,
    log,
  });
}

export const NO_MACHINES: MachineReader = {
  get: () => Promise.resolve(null),
  list: () => Promise.resolve([]),
  infoVnc: () => Promise.resolve(null),
  vncConsole: () => Promise.resolve(null),
  connectVnc: () => Promise.reject(new Error("there is no console")),
};

/** What the machine routes are given besides their host: every medium is there, and boots. */
export const MACHINE_DEPS: Omit<ServedAgent["machines"], "vmadm"> = {
  policy: DEFAULT_POLICY,
  host: "gz-7",
  payloadChecks: [],
  media: { expect: () => Promise.resolve({ name: "install.iso", size: 1024 }) },
};

/** What a test's agent has instead of the usual parts, and more routes. */
export type AgentChanges = Partial<ServedAgent> & { readonly routes?: readonly Hono<HttpEnv>[] };

/** Runs a function with an agent that listens, and closes it whatever happens. */
export async function withHttpAgent(
  run: (agent: HttpAgent) => Promise<void>,
  { routes, ...changes }: AgentChanges = {},
  uploadDir?: string,
): Promise<void> {
  const clock = { now: T0 };
  const store = await openClockedStore(":memory:", clock);
  const lines: JsonObject[] = [];
  const hints: string[] = [];
  const closing = new AbortController();
  const log = openLog({
    level: "debug",
    format: "json",
    // Lines are what JSON.stringify made of an object.
    write: (line) => lines.push(JSON.parse(line) as JsonObject),
    now: () => clock.now,
  });
  const notifiers = new Notifiers<JobUuid>();
  store.jobs.follow((notice) => {
    if (notice.kind === "canceled") hints.push(`cancel ${notice.job_uuid}`);
    else if (notice.kind !== "changed") hints.push(notice.kind);
    else if (notice.job_uuid !== undefined) notifiers.notify(notice.job_uuid);
  });
  const context: ServedAgent = {
    store,
    budget: openMemoryBudget(),
    changes: notifiers,
    now: () => clock.now,
    newUuid: randomUuid,
    limits: DEFAULT_HTTP_LIMITS,
    checkSources: sourceChecksHere().acceptable,
    wording: "document",
    log,
    machines: { ...MACHINE_DEPS, vmadm: NO_MACHINES },
    hostUuid: RUNNER,
    mediaFiles: filesOf(store, log),
    library: libraryOf(store, log, uploadDir === undefined ? {} : { folder: uploadDir }),
    allowedHosts: [],
    closing: closing.signal,
    ...changes,
  };
  const tcp = { hostname: "127.0.0.1", port: 0 };
  const server = await listen(createApp(context, routes), {
    ...LISTENING,
    tcp,
    log,
  });
  const port = server.port ?? 0;
  const url = `http://127.0.0.1:${port}`;
  try {
    const call = (method: string, path: string, body?: unknown, headers?: HeadersInit) =>
      callAt(url, method, path, body, headers);
    await run({ url, port, store, clock, log: lines, hints, closing, context, call });
  } finally {
    closing.abort();
    await server.shutdown(GRACE_MS);
    await store.close();
  }
}

async function callAt(
  url: string,
  method: string,
  path: string,
  body?: unknown,
  headers?: HeadersInit,
): Promise<Answer> {
  const response = await fetch(url + path, {
    method,
    headers: { ...(body === undefined ? {} : JSON_TYPE), ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const { status } = response;
  return { status, headers: response.headers, text, body: text === "" ? undefined : parse(text) };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A body that is known to be an object. */
export function objectOf(answer: Answer): JsonObject {
  assertEquals(answer.headers.get("content-type"), "application/json");
  // Tests compare its fields at once, which refuses any other value.
  return answer.body as JsonObject;
}

export function listOf(answer: Answer): JsonObject[] {
  assertEquals(Array.isArray(answer.body), true);
  return answer.body as JsonObject[];
}

/** Asserts the shape of an error and its words; returns its message. */
export function assertRefused(answer: Answer, status: number, code: string): string {
  assertEquals([answer.status, objectOf(answer).code], [status, code]);
  const { message, request_id, error_code } = objectOf(answer);
  assertEquals([typeof message, typeof error_code], ["string", "string"]);
  assertEquals(request_id, answer.headers.get("x-request-id"));
  return String(message);
}

/** The fields that an error names. */
export function fieldsOf(answer: Answer): string[] {
  const { errors } = objectOf(answer);
  return Array.isArray(errors) ? errors.map((error) => String((error as JsonObject).field)) : [];
}

/** Creates a workflow and returns its uuid. */
export async function newWorkflow(agent: HttpAgent, fields: JsonObject = {}): Promise<string> {
  const workflow = { name: "sample", chain: [{ name: "first", body: BODY }], ...fields };
  const answer = await agent.call("POST", "/workflows", workflow);
  assertEquals(answer.status, 201);
  return String(objectOf(answer).uuid);
}

/** Creates a workflow and a job of it, and returns the job's uuid. */
export async function newJob(agent: HttpAgent, fields: JsonObject = {}): Promise<JobUuid> {
  const workflow = fields.workflow ?? await newWorkflow(agent);
  const answer = await agent.call("POST", "/jobs", { workflow, ...fields });
  assertEquals(answer.status, 201);
  return objectOf(answer).uuid as JobUuid;
}

/** Does what a runner does: claims every due job. */
export async function claimAll(agent: HttpAgent): Promise<void> {
  await claimJobs(agent.store, RUNNER, 100);
}

/** Names a claimed job and its latest claim, with what its tasks have left in it. */
export async function holdOf(
  { store }: HttpAgent,
  job_uuid: JobUuid,
): Promise<Hold & Pick<TaskRecord, "position" | "params" | "props">> {
  const job = await store.jobs.get(job_uuid);
  const { lease = 0, phase = "chain", params = {}, props = {} } = job ?? {};
  const position = job === undefined ? 0 : phaseOf(job).results.length;
  return { job_uuid, runner_id: RUNNER, lease, phase, position, params, props };
}

/** Does what a runner does at the end of a task of a claimed job. */
export async function endTask(
  agent: HttpAgent,
  uuid: JobUuid,
  event: TaskEvent,
  entry: Partial<TaskResult> = {},
  params: JsonObject = {},
): Promise<void> {
  const now = agent.clock.now;
  const job = await agent.store.jobs.get(uuid);
  const recorded = await agent.store.jobs.recordTask({
    ...await holdOf(agent, uuid),
    entry: {
      result: "OK",
      error: "",
      name: "first",
      started_at: now,
      finished_at: now,
      attempts: 1,
      ...entry,
    },
    params,
    props: job?.props ?? {},
    elapsed_ms: 10,
    event,
  });
  assertEquals(recorded, true);
}

/** A job in the given execution, by the way that leads there. */
export async function jobIn(
  agent: HttpAgent,
  execution: "queued" | "running" | "waiting" | "succeeded" | "failed" | "canceled",
): Promise<JobUuid> {
  const uuid = await newJob(agent);
  if (execution === "queued") return uuid;
  if (execution === "canceled") {
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    return uuid;
  }
  await claimAll(agent);
  if (execution === "waiting") {
    await endTask(agent, uuid, { kind: "cb_wait" }, { error: "wait" });
  } else if (execution !== "running") {
    const error = execution === "failed" ? "boom" : "";
    await endTask(
      agent,
      uuid,
      execution === "succeeded" ? { kind: "succeed" } : { kind: "fail", onerror: false },
      { error },
    );
  }
  return uuid;
}

export const NO_UUID = uuidOf<JobUuid | TaskUuid>(404);
