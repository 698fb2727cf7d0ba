// The runner of the agent: its guests, the capabilities of their tasks, and the operator's policy about them.

import { openCapabilities } from "../capabilities/capabilities.ts";
import type { Config } from "../config/settings.ts";
import { openDecoders } from "../decoder/pool.ts";
import { openSourceChecks } from "../decoder/source_checks.ts";
import type { Admission } from "../domain/host.ts";
import { MS_PER_SECOND } from "../domain/instant.ts";
import type { HostGuard, Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { CONVENTIONS } from "../http/request/compat.ts";
import type { Meters } from "../metrics/meters.ts";
import type { Mirror } from "../mirror/mirror.ts";
import type { EarlyParts, SharedParts } from "./shared_parts.ts";
import type { Reloads } from "./settings_in_force.ts";
import { Runner } from "../runner/runner.ts";
import type { JobDeps } from "../runner/running_job.ts";
import { openGuestWatch } from "../sandbox/lease_watch.ts";
import { findGuestTools, type FindTools } from "../sandbox/guest_command.ts";
import { openGuestOwners } from "../sandbox/process.ts";
import { type GuestPool, openPool } from "../sandbox/pool.ts";
import type { StateDir } from "../state_dir/state_dir.ts";
import type { Store } from "../store/store.ts";
import { findGuestUser } from "../sandbox/user.ts";
import { policyOf } from "../config/policy.ts";
import type { Policy } from "../domain/policy.ts";

/** The parts on which tasks and the ends of jobs act. */
interface Rooms {
  readonly store: Store;
  readonly transport: Transport;
  /** Asks the runner before anything changes on the host; the runner may first have to ask who holds the jobs. */
  readonly guard?: HostGuard;
  readonly vmadm: Vmadm;
  readonly mirror: Mirror;
  /** Folders from which tasks may take media by path. */
  readonly mediaDirs: readonly string[];
  /** What the store lets the host claim; everything unless given. */
  readonly admission?: Admission;
  readonly refusal?: JobDeps["refusal"];
}

/** Starts the runner. Guests start while the agent listens; the first tasks wait for them. */
export async function openRunner(
  context: SharedParts,
  rooms: Rooms,
  state: StateDir,
  guests: Promise<GuestPool>,
): Promise<Runner> {
  const { config, limits, log, now, newUuid, meters } = context;
  const pool = await guests;
  const performFor = openCapabilities({
    ...rooms,
    policy: openPolicy(context),
    slots: config.slots.value,
    limits,
    log,
    now,
    mediaCounts: meters?.media,
  });
  const leaseMs = config.lease.value * MS_PER_SECOND;
  const runner = new Runner({
    store: rooms.store,
    ...state.runner,
    admission: rooms.admission ?? "open",
    leaseMs,
    slots: config.slots.value,
    ownerOf: openGuestOwners(),
    budget: context.budget,
    guests: pool,
    performFor,
    watch: rooms.store.shared ? openWatch(context, leaseMs) : undefined,
    meters,
    now,
    monotonicMs: () => performance.now(),
    newUuid,
    retryCountsFirst: CONVENTIONS[config.compat.value].retryCountsFirst,
    refusal: rooms.refusal,
    log,
  });
  if (rooms.guard !== undefined) rooms.guard.mayAct = () => runner.mayAct(false);
  measure(meters, pool, runner);
  await runner.start();
  return runner;
}

/** Opens the pool of guests. It mostly waits for the system, so other parts start beside it. */
export function openGuests(context: SharedParts, state: StateDir): Promise<GuestPool> {
  const { config, limits, log, self, user, listening, opened } = context;
  const opening = openPool({
    self,
    slots: config.slots.value,
    runtimeDir: state.path,
    budget: context.budget,
    log,
    limits,
    freshRealm: config.fresh_realm.value,
    checkSource: context.sources.runnable,
    findTools: context.findTools,
    ...(user === undefined ? {} : { user }),
    ...(listening === undefined ? {} : { spareAfter: listening }),
  });
  // openRunner() also gets a failure; this catches it in case openRunner() is never called.
  opened("guests", () => opening.then((pool) => pool.close(), () => {}));
  opening.catch(() => {});
  return opening;
}

/** Ends guests with tasks of free jobs when this agent has been silent for a lease. */
function openWatch(
  { log, opened }: Pick<SharedParts, "log" | "opened">,
  leaseMs: number,
): JobDeps["watch"] {
  const { watch, close } = openGuestWatch({ leaseMs, log });
  opened("watch over guests", close);
  return watch;
}

function measure(meters: Meters | undefined, pool: GuestPool, runner: Runner): void {
  if (meters === undefined) return;
  meters.now.guests = () => pool.counts();
  meters.now.slotsBusy = () => runner.busy;
}

/**
 * Adds the decoders and their user to the context. No decoder is started yet.
 * @param options `meters` counts their work, where given
 * @throws {AgentError} as findGuestUser()
 */
export async function withDecoders(
  context: EarlyParts,
  { meters, stateDir }: {
    readonly meters?: Pick<Meters, "decoders" | "now"> | undefined;
    readonly stateDir?: string;
  } = {},
): Promise<SharedParts> {
  const { config, self, log, opened } = context;
  const place = { self, os: Deno.build.os, root: Deno.uid() === 0, log };
  const user = await findGuestUser(config.guest_user.value, place);
  const shared = user === undefined ? {} : { user };
  let found: ReturnType<FindTools> | undefined;
  const findTools = () => found ??= findGuestTools();
  const decoders = openDecoders({
    self,
    log,
    findTools,
    slots: config.slots.value,
    ...shared,
    ...(stateDir === undefined ? {} : { stateDir }),
    ...(meters === undefined ? {} : { counts: meters.decoders }),
  });
  if (meters !== undefined) meters.now.decoders = () => decoders.pids().length;
  opened("decoders", () => decoders.close());
  return { ...context, decoders, findTools, sources: openSourceChecks(decoders), ...shared };
}

interface PolicyContext {
  readonly config: Config;
  readonly follow: Reloads["follow"];
}

/** The operator's policy: one object for requests and tasks, which changes with the configuration. */
export function openPolicy({ config, follow }: PolicyContext): Policy {
  const policy = policyOf(config.policy);
  follow(["policy"], (next) => void Object.assign(policy, policyOf(next.policy)));
  return policy;
}
