// Runs a workflow once without an agent: the store is in memory, the host is simulated, and everything else
// is what an agent runs, including guests and capabilities. It is wired like agent.ts, from the same parts,
// and leaves nothing behind.

import { join } from "@std/path";
import { agentLimits, type SharedParts } from "../agent/shared_parts.ts";
import { openGuests, openRunner, withDecoders } from "../agent/runner.ts";
import type { Config } from "../config/settings.ts";
import { type FlagValue, readConfig } from "../config/sources.ts";
import { openMemoryBudget } from "../domain/memory_budget.ts";
import { AgentError, invalidArgument } from "../domain/error.ts";
import { type Incarnation, type JobUuid, randomUuid, type RunnerId } from "../domain/id.ts";
import { systemNow } from "../domain/instant.ts";
import type { Job, NewJob } from "../domain/job/job.ts";
import type { LogLevel } from "../domain/job/log_line.ts";
import { parseJobRequest, type Resume } from "../domain/job/request.ts";
import { isFinal } from "../domain/job/state.ts";
import { jobOnWire } from "../domain/job/wire.ts";
import type { JsonObject } from "../domain/json.ts";
import type { Workflow } from "../domain/job/workflow.ts";
import { selfCommand } from "../runtime/executable.ts";
import type { Log } from "../metrics/log.ts";
import { Notifier } from "../runtime/notifier.ts";
import type { GuestPool } from "../sandbox/pool.ts";
import { openSqliteStore } from "../store/sqlite/sqlite_store.ts";
import type { Store } from "../store/store.ts";
import { openTrialHost, type TrialHost } from "./host.ts";
import { openReaders } from "../mirror/media/known_files.ts";
import { openIndex } from "../agent/mirror.ts";
import type { Mirror } from "../mirror/mirror.ts";

/** The workflow, params, settings and host of a trial. */
export interface TrialOptions {
  readonly workflow: Workflow;
  readonly params: JsonObject;
  readonly target: string | null;
  /** Settings of an agent that count here too: `media-dir`, `index`, `allow-http-index`. */
  readonly flags: Readonly<Record<string, FlagValue>>;
  /** Relative paths in flags are below this folder. */
  readonly cwd: string;
  /** Absolute folder of a simulated host that is kept; null for one that is removed. */
  readonly hostState: string | null;
  /** Takes what an agent would log, without what tasks log: that is in the info of their job. */
  readonly log: Log;
}

/** The job being tried, in its current state. */
export interface TrialLook {
  /** As GET /jobs/:job_uuid answers it. */
  readonly job: JsonObject;
  /** `ended` also means that its oncancel tasks, if they run, have ended. */
  readonly state: "under_way" | "waiting" | "ended";
}

/** A trial that runs, and what can be asked of it. */
export interface Trial {
  /** @throws {AgentError} `internal` when the job is queued for lack of a guest: an agent waits, a trial does not */
  look(): Promise<TrialLook>;
  /** Entries of the job's info, oldest first, without so many that were seen before. */
  info(after: number): Promise<JsonObject[]>;
  /** Waits until the job may have changed, at most so long. */
  changed(ms: number, signal: AbortSignal): Promise<void>;
  /** Reports the outcome of the task that set the job to waiting. */
  resume(resume: Resume): Promise<void>;
  /** The machines of the simulated host. */
  machines(): Promise<JsonObject[]>;
}

const FOLDER_PREFIX = "zonewright-try-";

/**
 * Runs a function with a trial, and removes everything when the function has ended or failed.
 * @throws {AgentError} `invalid_argument` for params, flags or folders that cannot be used; whatever the
 * function throws, or the error of removing everything
 */
export async function withTrial<T>(
  options: TrialOptions,
  run: (trial: Trial) => Promise<T>,
): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: FOLDER_PREFIX });
  const parts: { name: string; close: () => void | Promise<void> }[] = [];
  const opened: SharedParts["opened"] = (name, close) => void parts.push({ name, close });
  opened("folder", () => Deno.remove(folder, { recursive: true }));
  let result: T;
  let left: unknown;
  try {
    result = await run(await startTrial(options, folder, opened));
  } finally {
    for (const { name, close } of parts.reverse()) {
      try {
        await close();
      } catch (error) {
        left ??= error;
        options.log.error("part not closed", { part: name, error });
      }
    }
  }
  if (left !== undefined) throw left;
  return result;
}

async function startTrial(
  options: TrialOptions,
  folder: string,
  opened: SharedParts["opened"],
): Promise<Trial> {
  const config = await configOf(options, folder);
  const context = await withDecoders({
    // It has ended before anybody could change its mind.
    follow: () => {},
    config,
    limits: agentLimits(config),
    log: withoutTaskLines(options.log),
    now: systemNow,
    newUuid: randomUuid,
    self: selfCommand(),
    budget: openMemoryBudget(),
    opened,
  });
  const job = newJob(options, context);
  const store = await openSqliteStore(":memory:");
  opened("store", () => store.close());
  const host = await openTrialHost(context, folder, options.hostState);
  const mirror = openTrialIndex(context, store, folder);
  const notifier = new Notifier();
  store.events.follow(() => notifier.notify());
  const { transport, vmadm } = host;
  const mediaDirs = config.media_dir.value;
  const rooms = { store, transport, vmadm, mirror, mediaDirs };
  const life = { runner_id: randomUuid<RunnerId>(), incarnation: randomUuid<Incarnation>() };
  const state = { path: folder, runner: { life, earlier: [] }, release: () => {} };
  const guests = openGuests(context, state);
  const runner = await openRunner(context, rooms, state, guests);
  opened("runner", () => runner.stop(0));
  await store.jobs.create(job, 1);
  return openLooks({ uuid: job.uuid, config, store, host, guests: await guests, notifier });
}

/** The settings of a development agent in the folder, ignoring file and environment. */
async function configOf({ flags, cwd }: TrialOptions, folder: string): Promise<Config> {
  const config = readConfig({
    flags: { ...flags, dev: true, slots: "1", "state-dir": join(folder, "state") },
    env: {},
    cwd,
    os: Deno.build.os,
  });
  for (const path of config.media_dir.value) {
    const there = await Deno.stat(path).catch(() => undefined);
    if (there?.isDirectory) continue;
    const message =
      `Cannot use the media folder ${JSON.stringify(path)}: it does not exist, expected ` +
      "a folder";
    throw invalidArgument("media-dir", message);
  }
  return config;
}

/** The job as POST /jobs would make it. The workflow is not stored: `cb("retry")` ends the trial. */
function newJob(
  { workflow, params, target }: TrialOptions,
  { limits }: Pick<SharedParts, "limits">,
): NewJob {
  const body = { ...params, workflow: workflow.uuid, ...(target === null ? {} : { target }) };
  const request = parseJobRequest(body, limits);
  const reserved = Object.keys(params).find((name) => !Object.hasOwn(request.params, name));
  if (reserved !== undefined) {
    const message = `Cannot use ${
      JSON.stringify(reserved)
    } as a parameter: it is a field of POST /jobs`;
    throw invalidArgument(reserved, message);
  }
  if (workflow.chain.length === 0) {
    throw invalidArgument(
      "chain",
      "Cannot try the workflow: it has no tasks, expected one in its chain",
    );
  }
  return {
    uuid: randomUuid<JobUuid>(),
    workflow,
    target: request.target,
    params: request.params,
  };
}

interface Parts {
  readonly uuid: JobUuid;
  readonly config: Config;
  readonly store: Store;
  readonly host: TrialHost;
  readonly guests: Pick<GuestPool, "startProblem">;
  readonly notifier: Notifier;
}

function openLooks({ uuid, config, store, host, guests, notifier }: Parts): Trial {
  const gone = () =>
    new AgentError("internal", "Cannot read the job: it is missing from the trial's store");
  return {
    async look() {
      const job = await store.jobs.get(uuid);
      if (job === undefined) throw gone();
      if (job.claimable_at !== null && guests.startProblem !== undefined) {
        const message = `Cannot try the workflow: guests do not start: ${guests.startProblem}`;
        throw new AgentError("internal", message);
      }
      return { job: jobOnWire(job, config.compat.value, systemNow()), state: stateOf(job) };
    },
    async info(after) {
      const entries = await store.info.list(uuid, after);
      if (entries === undefined) throw gone();
      return entries;
    },
    changed: (ms, signal) => notifier.wait(ms, signal),
    async resume(resume) {
      const outcome = await store.jobs.resume(uuid, resume);
      if (outcome.kind !== "changed") {
        throw new AgentError(
          "conflict",
          "Cannot resume the job: it is not waiting, expected one that is",
        );
      }
    },
    machines: () => host.machines(),
  };
}

function stateOf(job: Job): TrialLook["state"] {
  if (job.execution === "waiting") return "waiting";
  // A canceled job is claimed, or to be claimed, while its oncancel tasks run.
  const rests = job.runner_id === null && job.claimable_at === null;
  return isFinal(job.execution) && rests ? "ended" : "under_way";
}

/** Drops the log lines of tasks: the info of the job has them too, and the trial prints that. */
function withoutTaskLines(log: Log): Log {
  const others = (level: LogLevel): Log["error"] => (message, fields) => {
    if (message !== "task logged") log[level](message, fields);
  };
  return {
    debug: others("debug"),
    info: others("info"),
    warn: others("warn"),
    error: others("error"),
    with: (fields) => withoutTaskLines(log.with(fields)),
  };
}

/**
 * A mirror that is opened by its first call and synced by the first that needs the index: most
 * workflows never ask for it.
 */
function openTrialIndex(
  context: SharedParts,
  store: Pick<Store, "index" | "media" | "images">,
  folder: string,
): Mirror {
  const closers: (() => void | Promise<void>)[] = [];
  const opened = (_: string, close: () => void | Promise<void>) => void closers.push(close);
  const closing = new AbortController();
  let opening: Promise<Mirror> | undefined;
  let syncing: Promise<Mirror> | undefined;
  const mirror = () =>
    opening ??= openIndex({ ...context, opened }, store, folder, context.config.media_dir.value);
  const synced = () => syncing ??= mirror().then((open) => syncedIndex(open, closing.signal));
  // Named now, so that it is closed after the runner, whose tasks work with it.
  context.opened("index", async () => {
    closing.abort();
    await Promise.allSettled([opening, syncing]);
    for (const close of closers.reverse()) await close();
  });
  return {
    upstream: context.config.index.value,
    syncing: false,
    progress: null,
    generation: 0,
    sync: async (request) => await (await mirror()).sync(request),
    preview: async (request) => await (await mirror()).preview(request),
    findArtifact: async (...args) => await (await synced()).findArtifact(...args),
    download: async (found, options) => await (await synced()).download(found, options),
    downloadUrl: async (...args) => await (await mirror()).downloadUrl(...args),
    expect: async (media, signal) =>
      await (await ("artifact" in media ? synced() : mirror())).expect(media, signal),
    files: {
      list: async () => await (await mirror()).files.list(),
      get: async (sha256) => await (await mirror()).files.get(sha256),
      verify: async (...args) => await (await mirror()).files.verify(...args),
      hash: async (...args) => await (await mirror()).files.hash(...args),
      note: async (...args) => await (await mirror()).files.note(...args),
      remove: async (sha256) => await (await mirror()).files.remove(sha256),
      copies: async () => await (await mirror()).files.copies(),
      gone: async (path) => await (await mirror()).files.gone(path),
      ...openReaders(),
    },
    discard: async (medium) => await (await mirror()).discard(medium),
  };
}

/** @throws {AgentError} `upstream` when the index cannot be had */
async function syncedIndex(mirror: Mirror, signal: AbortSignal): Promise<Mirror> {
  const { outcome, problems } = await mirror.sync({ signal });
  if (outcome !== "failed") return mirror;
  const why = problems[0]?.message ?? "unknown reason";
  throw new AgentError("upstream", `Cannot sync the index ${mirror.upstream}: ${why}`);
}
