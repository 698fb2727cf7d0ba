// The store of the agent: the file in its state folder, or that file and a database that agents share.

import { join } from "@std/path";
import { policyOf, takingOf } from "../config/policy.ts";
import type { Config } from "../config/settings.ts";
import { AgentError, invalidArgument, isAway, undefinedWhileAway } from "../domain/error.ts";
import type { OwnEvent } from "../domain/event.ts";
import { type Admission, admissionOf } from "../domain/host.ts";
import { type HostUuid, type NewUuid, type WorkflowUuid } from "../domain/id.ts";
import { DAY_SECONDS, MS_PER_SECOND, systemNow } from "../domain/instant.ts";
import { refusalOf, type TakenJobs, takesAll, type Taking } from "../domain/taking.ts";
import { readWorkflow, type Workflow, type WorkflowLimits } from "../domain/job/workflow.ts";
import { FETCH_MEDIUM_WORKFLOW } from "../machines/media_jobs.ts";
import { MACHINE_LIFE } from "../machines/workflows/machine_life.ts";
import { PROVISION_MACHINE } from "../machines/workflows/provision_machine.ts";
import type { Log } from "../metrics/log.ts";
import type { Meters } from "../metrics/meters.ts";
import { withoutEqualReports } from "../mirror/sync/sync.ts";
import { VERSION } from "../runtime/executable.ts";
import type { JobDeps } from "../runner/running_job.ts";
import { watchForDeath } from "../runtime/failpoint.ts";
import { untilDone } from "../runtime/run.ts";
import { removeUnfinishedRestore } from "../state_dir/database_restore.ts";
import { type HostKey, openHostKey } from "../state_dir/host_key.ts";
import { readSecretFile } from "../state_dir/secret_file.ts";
import { DATABASE_NAME, type StateDir } from "../state_dir/state_dir.ts";
import { requireJobsHere } from "../state_dir/transfer_mark.ts";
import { countedStore } from "./monitoring.ts";
import type { ListedHost } from "../store/host_store.ts";
import type { SharedCondition } from "../store/postgres/condition.ts";
import type { Migrated } from "../store/postgres/migrations.ts";
import type { StoreRoles } from "../store/postgres/roles.ts";
import type { ServerOptions } from "../store/postgres/server.ts";
import { openSqliteStore } from "../store/sqlite/sqlite_store.ts";
import type { LocalStore, Store } from "../store/store.ts";
import { CAPABILITIES } from "../wall/protocol.ts";
import type { Emit, SharedParts } from "./shared_parts.ts";
import { hostName } from "./host.ts";
import { withFollowers } from "./watches.ts";

/**
 * Opens the store, with counted writes, its built-in workflows and a count of the readers of its events, and
 * registers the host. `key` signs calls to other agents of the store.
 * @throws {AgentError} as registerHost()
 */
export async function openWatchedStore(
  context: SharedParts,
  state: StateDir,
  meters: Meters,
  broken: (error: unknown) => void,
): Promise<
  {
    readonly store: Store;
    readonly followed: () => boolean;
    readonly admission: Admission;
    readonly own: OwnHost;
    readonly key: HostKey | undefined;
    readonly refusal: JobDeps["refusal"];
  }
> {
  const builtin = builtinWorkflows();
  const taken = openTaking(context, builtin);
  const counted = countedStore(await openStore(context, state, { broken, taken }), meters);
  const { events, followed } = withFollowers(counted.events);
  const store = withOwnWorkflows({ ...counted, events }, builtin);
  // Only agents of a shared store call each other.
  const key = store.machineReports === null ? undefined : await openHostKey(state.path);
  const { runner_id: uuid } = state.runner.life;
  const own = { uuid, name: hostName(context.config.host.value), generation: 0 };
  const join = async () => {
    const known = { publicKey: key?.publicKey ?? null, taking: taken.taking };
    const host = await registerHost(context, store, state, known);
    own.generation = host.generation;
    await store.workflows.putBuiltin(...builtin.values());
    return admissionOf(host);
  };
  const joinAgain = openJoining(context, join, broken);
  const admission = await undefinedWhileAway(join());
  if (admission === undefined) joinAgain();
  // Other agents refuse jobs by the policy that is registered.
  if (store.shared) context.follow(["policy"], joinAgain);
  const refusal = refusalBy(taken, own);
  const joined = withRegistration(store, joinAgain);
  return { store: joined, followed, admission: admission ?? "open", own, key, refusal };
}

/** Which jobs the host accepts, by the current configuration. */
function openTaking(
  { config, follow }: Pick<SharedParts, "config" | "follow">,
  builtin: ReadonlyMap<string, Workflow>,
): TakenJobs {
  const taking = takingOf(config.policy);
  follow(["policy"], (next) => void Object.assign(taking, takingOf(next.policy)));
  return { taking, own: (uuid) => builtin.get(uuid) };
}

function refusalBy({ taking, own }: TakenJobs, { name }: OwnHost): JobDeps["refusal"] {
  return (job) =>
    takesAll(taking) ? undefined : refusalOf(taking, job, own(job.workflow_uuid))
      .then((words) => words && `Cannot run the job: host ${name} ${words}`);
}

/** Registers the host again when the store reports that it does not know it. */
function withRegistration(store: Store, joinAgain: () => void): Store {
  const renew: Store["jobs"]["renew"] = async (...call) => {
    const outcome = await store.jobs.renew(...call);
    if (outcome.kind === "renewed" && outcome.unregistered === true) joinAgain();
    return outcome;
  };
  return { ...store, jobs: { ...store.jobs, renew } };
}

/** This host as registered in its store. */
export interface OwnHost {
  readonly uuid: HostUuid;
  readonly name: string;
  /** Starts of its agent; 0 before it has registered. */
  readonly generation: number;
}

/**
 * Joins the shared store: at the first start, once the store is back after an outage, and when a restored database
 * does not know the host. The runner then asks what it may claim.
 * @param broken called when another live agent has the host's uuid, or the tables cannot be used
 * @returns starts to join, unless that is under way
 */
function openJoining(
  { log, opened }: SharedParts,
  join: () => Promise<unknown>,
  broken: (error: unknown) => void,
): () => void {
  const closing = new AbortController();
  let joining: Promise<unknown> | undefined;
  const joinUntilDone = () =>
    untilDone(join, {
      firstMs: JOIN_AGAIN_MS,
      longestMs: JOIN_AGAIN_MS,
      signal: () => closing.signal,
      onFailure(error) {
        if (isAway(error)) return;
        log.error("host not registered", { error });
        const isFinal = error instanceof AgentError &&
          (error.code === "conflict" || error.code === "other_schema");
        if (isFinal) broken(error);
      },
    });
  opened("host registration", async () => {
    closing.abort();
    await joining;
  });
  return () => {
    joining ??= joinUntilDone().finally(() => joining = undefined);
  };
}

/** Milliseconds between two attempts to join. */
const JOIN_AGAIN_MS = 1_000;

/**
 * Opens the store in the state folder.
 * @param broken called when its disk has failed or the shared tables became unusable: the agent must end
 */
async function openStore(
  context: SharedParts,
  state: StateDir,
  { broken, taken }: SharedPart,
): Promise<Store> {
  const { config, log, opened } = context;
  const committing = watchForDeath(config.failpoint.value, { dev: config.dev.value });
  const path = join(state.path, DATABASE_NAME);
  removeUnfinishedRestore(path);
  const stored = config.store.value;
  const url = stored.kind === "postgres" ? stored.url : undefined;
  await requireJobsHere(state.path, state.runner.life.runner_id, url);
  const file = await openSqliteStore(path, {
    broken,
    ...(committing === undefined ? {} : { committing, migrating: committing }),
  });
  opened("store", () => file.close());
  const kept = config.store.value.kind === "sqlite"
    ? file
    : await openSharedStore(context, file, state.runner.life.runner_id, { broken, taken });
  const emit = openEmitter(kept, log);
  const ended = (payload: Extract<OwnEvent, { kind: "index" }>["payload"]) =>
    void emit({ kind: "index", payload });
  return { ...kept, index: withoutEqualReports(kept.index, ended) };
}

/** What only a shared store needs. */
interface SharedPart {
  readonly broken: (error: unknown) => void;
  readonly taken: TakenJobs;
}

/** Opens the shared database. Its driver is loaded only here. */
async function openSharedStore(
  { config, limits, log, opened }: SharedParts,
  local: LocalStore,
  host: string,
  { broken, taken }: SharedPart,
): Promise<Store> {
  const { openPostgresStore } = await import("../store/postgres/postgres_store.ts");
  const { journalBytesMax } = limits;
  const shared = await openPostgresStore(local, {
    ...await sharedServer(config),
    ...{ host, taken, journalBytesMax, log },
    unusable: broken,
  });
  opened("shared store", () => shared.close());
  return shared;
}

/**
 * Creates or updates the tables of the shared database, as the user in its address.
 * @throws {AgentError} `invalid_argument` when the store is not shared
 */
export async function migrateSharedStore(config: Config, roles: StoreRoles): Promise<Migrated> {
  const { migrateSharedDatabase } = await import("../store/postgres/migrations.ts");
  return await migrateSharedDatabase(await sharedServer(config), roles);
}

/** Registers the host of this agent. @throws {AgentError} `conflict` while another live agent has its uuid */
async function registerHost(
  { config, log }: Pick<SharedParts, "config" | "log">,
  { hosts }: Pick<Store, "hosts">,
  { runner: { life, earlier } }: Pick<StateDir, "runner">,
  { publicKey, taking }: { readonly publicKey: string | null; readonly taking: Taking },
): Promise<ListedHost> {
  const { lease, slots, host, policy } = config;
  const outcome = await hosts.register({
    uuid: life.runner_id,
    incarnation: life.incarnation,
    earlier,
    lease_ms: lease.value * MS_PER_SECOND,
    facts: {
      name: hostName(host.value),
      version: VERSION,
      capabilities: [...new Set(CAPABILITIES.map((name) => name.split(".", 1)[0] ?? name))],
      slots: slots.value,
      brands: policyOf(policy).brands,
      address: config.address.value,
      public_key: publicKey,
      ...taking,
    },
  });
  const { uuid, name, version, seen_at, generation } = outcome.host;
  if (outcome.kind === "held") {
    throw new AgentError(
      "conflict",
      `Cannot register host ${uuid}: an agent with this uuid already runs, on ${name} (version ` +
        `${version}), last heard from at ${seen_at}, expected one agent for each state folder`,
    );
  }
  const admission = admissionOf(outcome.host);
  log.info("host registered", { host: uuid, name, generation, admission });
  return outcome.host;
}

/** Makes a reader of the shared database's condition. @returns undefined when the store is not shared */
export function sharedConditionReader(
  config: Config,
): (() => Promise<SharedCondition>) | undefined {
  if (config.store.value.kind === "sqlite") return undefined;
  return async () => {
    const { readCondition } = await import("../store/postgres/condition.ts");
    return await readCondition(await sharedServer(config), systemNow);
  };
}

/**
 * The address, password and certificates of the shared database.
 * @throws {AgentError} `invalid_argument` when the store is not shared
 */
export async function sharedServer(
  { store, store_notices, store_password_file, store_ca_file, store_deadline }: Config,
): Promise<ServerOptions> {
  if (store.value.kind !== "postgres") {
    throw invalidArgument(
      "store",
      "Cannot use the store: it is a file of this host, expected a store postgres://",
    );
  }
  const password = store_password_file.value;
  const noticesUrl = store_notices.value;
  const ca = store_ca_file.value;
  return {
    url: store.value.url,
    deadlineMs: store_deadline.value * MS_PER_SECOND,
    ...(noticesUrl === null ? {} : { noticesUrl }),
    ...(password === null ? {} : { password: await readSecretFile(password) }),
    ...(ca === null ? {} : { ca: await Deno.readTextFile(ca) }),
  };
}

/**
 * Limits of the built-in workflows. The operator's limits are for callers' workflows; the jobs of
 * built-in ones obey the limits on results and calls like all others.
 */
const BUILTIN_LIMITS: WorkflowLimits = {
  tasksMax: 16,
  sourceCharsMax: 16 * 1024,
  retryMax: 16,
  timeoutSecondsMax: DAY_SECONDS,
};

/** The built-in workflows of this version, by their uuids. */
function builtinWorkflows(): ReadonlyMap<string, Workflow> {
  const sources = [PROVISION_MACHINE, FETCH_MEDIUM_WORKFLOW, ...Object.values(MACHINE_LIFE)];
  // Their sources need no check: a test reads them.
  return new Map(sources.map(({ uuid, definition }) => [
    uuid,
    readWorkflow(definition, uuid, numberedUuids(uuid), BUILTIN_LIMITS).accept([]),
  ]));
}

/**
 * Makes uuids of tasks from the workflow's uuid and their number. They are equal at every start and in every agent,
 * so that stored workflows stay as they are.
 */
function numberedUuids(workflow: WorkflowUuid): NewUuid {
  let last = 0;
  return <T extends string>() => {
    last += 1;
    return `${workflow.slice(0, -NODE_DIGITS)}${String(last).padStart(NODE_DIGITS, "0")}` as T;
  };
}

/** Digits of the last field of a uuid. */
const NODE_DIGITS = 12;

/** Reads built-in workflows from this version, even if an agent of another version has written its own since. */
function withOwnWorkflows(store: Store, own: ReadonlyMap<string, Workflow>): Store {
  const get: Store["workflows"]["get"] = async (uuid) => {
    const stored = await store.workflows.get(uuid);
    const workflow = own.get(uuid);
    return stored === undefined || workflow === undefined ? stored : { ...stored, workflow };
  };
  return { ...store, workflows: { ...store.workflows, get } };
}

/** Stores events about the agent; one that cannot be written is logged. */
export function openEmitter({ events }: Pick<Store, "events">, log: Log): Emit {
  return (event) =>
    events.append(event)
      .catch((error: unknown) => log.warn("event not written", { kind: event.kind, error }));
}
