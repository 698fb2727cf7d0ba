// The hosts of a store. A shared store has one host per agent; the store of one host contains only itself. Whether a
// host is alive is decided by the store's clock; JobStore.renew() is its heartbeat.

import { AgentError, unreachable } from "../domain/error.ts";
import {
  HOST_CHARS_MAX,
  type HostFacts,
  type HostState,
  hostState,
  type RegisteredHost,
} from "../domain/host.ts";
import type { HostUuid, Incarnation, JobUuid } from "../domain/id.ts";
import { type Instant, msBetween } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";

/** A host with its state at the time of the answer. */
export interface ListedHost extends RegisteredHost {
  readonly state: HostState;
  /** Milliseconds since its last heartbeat, by the store's clock. */
  readonly silent_ms: number;
}

/** Adds the state to a host. @param now the time of the store */
export function listedHost(host: RegisteredHost, now: Instant): ListedHost {
  const silent_ms = Math.max(msBetween(host.seen_at, now), 0);
  return { ...host, state: hostState(host, now), silent_ms };
}

/** How many jobs a host has. */
export interface HostJobs {
  /** Jobs that a runner of the host holds, including canceled ones in their `oncancel` chain. */
  readonly running: number;
  /** Jobs that wait for a slot of the host or for their start time. */
  readonly queued: number;
}

/** What an agent registers at its start. */
export interface HostRegistration {
  /** The uuid of the host, which is also the id of its runner. */
  readonly uuid: HostUuid;
  /** The life of the runner that registers. */
  readonly incarnation: Incarnation;
  /** Earlier lives of the runner that have certainly ended. */
  readonly earlier: readonly Incarnation[];
  readonly facts: HostFacts;
  /** How long the host counts as alive after a heartbeat, milliseconds. */
  readonly lease_ms: number;
}

/** Outcome of a registration. */
export type RegisterOutcome =
  | { readonly kind: "registered"; readonly host: ListedHost }
  /** An agent with this uuid sent a heartbeat within its lease; nothing was written. */
  | { readonly kind: "held"; readonly host: ListedHost };

/** The result of looking up a host by uuid or name. */
export type FoundHost =
  | { readonly kind: "found"; readonly host: ListedHost }
  | { readonly kind: "not_found" }
  /** Several hosts have the name. */
  | { readonly kind: "ambiguous"; readonly uuids: readonly HostUuid[] };

/** Outcome of forgetting a host. */
export type ForgetOutcome =
  /** `failed_jobs` is the number of its jobs that fail as `host_lost`. */
  | { readonly kind: "forgotten"; readonly host: ListedHost; readonly failed_jobs: number }
  /** Its agent sent a heartbeat within its lease; nothing was written. */
  | { readonly kind: "heard"; readonly host: ListedHost }
  | { readonly kind: "not_found" };

/** Registered hosts. Every call may be repeated after its answer was lost. */
export interface HostStore {
  /** Writes the facts about a host. Its generation increases with each life of its agent. */
  register(registration: HostRegistration): Promise<RegisterOutcome>;
  /** Ordered by name. */
  list(): Promise<ListedHost[]>;
  /** @param name a uuid or a name; see hostNamed() */
  find(name: string): Promise<FoundHost>;
  /** Job numbers of the hosts that have jobs. Once a host is cordoned, its `running` does not increase. */
  jobs(): Promise<ReadonlyMap<HostUuid, HostJobs>>;
  /** Cordons a host: it claims no new jobs, and its running jobs continue. Undefined for an unknown host. */
  cordon(uuid: HostUuid): Promise<ListedHost | undefined>;
  /** Lets a host claim again, even after it was forgotten. Undefined for an unknown host. */
  uncordon(uuid: HostUuid): Promise<ListedHost | undefined>;
  /**
   * Gives up a host: its unfinished jobs fail as `host_lost`, which frees their targets, locks and machines. If the
   * host returns, it runs nothing until uncordon() admits it.
   */
  forget(uuid: HostUuid): Promise<ForgetOutcome>;
}

/** Why no host can run a job; `host` is the name or uuid in the job. */
export interface NoHost {
  readonly kind: "no_host";
  readonly host: string;
  readonly reason: "unknown" | "ambiguous" | "forgotten" | NotTaken;
}

/** The host's policy refuses the job; in an error, `words` follow the name of the host. */
interface NotTaken {
  readonly words: string;
}

/** What happened to jobs of the store, mostly by other agents. */
export type JobNotice =
  /** A job became ready for the runner of this host; `made` is the new job, as ready() would return it. */
  | { readonly kind: "queued"; readonly made?: Job }
  /** A new job becomes due on this host in `ms` milliseconds. */
  | { readonly kind: "delayed"; readonly ms: number }
  /** A job that a runner may hold was canceled. */
  | { readonly kind: "canceled"; readonly job_uuid: JobUuid }
  /** This host was cordoned, admitted or forgotten; renew() returns which. */
  | { readonly kind: "host" }
  /** A job of this host with a callback has ended. */
  | { readonly kind: "callback" }
  /** A job has ended or started to wait; without `job_uuid`, any of them may have. */
  | { readonly kind: "changed"; readonly job_uuid?: JobUuid };

/** Finds a host by uuid or by name. A forgotten host is found only if no other host has its name. */
export function hostNamed(hosts: readonly ListedHost[], name: string): FoundHost {
  const folded = name.toLowerCase();
  const exact = hosts.find(({ uuid }) => uuid === folded);
  if (exact !== undefined) return { kind: "found", host: exact };
  const all = hosts.filter((host) => host.name === name);
  const kept = all.filter(({ forgotten }) => !forgotten);
  const named = kept.length > 0 ? kept : all;
  const [host] = named;
  if (host === undefined) return { kind: "not_found" };
  return named.length === 1
    ? { kind: "found", host }
    : { kind: "ambiguous", uuids: named.map(({ uuid }) => uuid) };
}

/** A name as errors quote it. It is cut, because a path may contain a name of any length. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, HOST_CHARS_MAX));
}

/** Finds the host that a path names. @throws {AgentError} `not_found`; `invalid_argument` if several have the name */
export async function hostNamedBy(
  name: string,
  { hosts }: { readonly hosts: Pick<HostStore, "find"> },
): Promise<ListedHost> {
  const found = await hosts.find(name);
  switch (found.kind) {
    case "found":
      return found.host;
    case "not_found":
      throw new AgentError(
        "not_found",
        `Cannot find host ${
          quoted(name)
        }: no host has this uuid or name; zonewright host list shows them`,
      );
    case "ambiguous": {
      const { uuids } = found;
      const errors = uuids.map((message) => ({ field: "host", code: "Invalid" as const, message }));
      const message = `Cannot choose host ${quoted(name)}: ${uuids.length} hosts have this name, ` +
        `expected one of the uuids ${uuids.join(", ")}`;
      throw new AgentError("invalid_argument", message, { errors, about: { kind: "host", name } });
    }
    default:
      return unreachable(found);
  }
}

/**
 * Finds the host that a field of a request names.
 * @param action such as `Cannot list jobs`
 * @throws {AgentError} naming `field`: `no_host`; `invalid_argument` if several have the name
 */
export async function hostOf(
  name: string,
  { hosts }: { readonly hosts: Pick<HostStore, "find"> },
  action: string,
  field: string,
): Promise<ListedHost> {
  const found = await hosts.find(name);
  if (found.kind === "found") return found.host;
  const reason = found.kind === "ambiguous" ? found.kind : "unknown";
  throw noHost({ host: name, reason }, action, field);
}

/** The error for a field whose host cannot be used. */
export function noHost(
  { host, reason }: Omit<NoHost, "kind">,
  action: string,
  field: string,
): AgentError {
  const about = { kind: "host", name: host } as const;
  if (typeof reason === "object") {
    return new AgentError("forbidden", `${action}: host ${quoted(host)} ${reason.words}`, {
      about,
    });
  }
  const why = {
    unknown: "is not registered, expected the uuid or the name of a host",
    ambiguous: "is the name of several hosts, expected a uuid",
    forgotten: "was forgotten: it takes no job until it is uncordoned",
  }[reason];
  const message = `${action}: host ${quoted(host)} ${why}`;
  const code = {
    unknown: "no_host",
    ambiguous: "invalid_argument",
    forgotten: "conflict",
  } as const;
  return new AgentError(code[reason], message, {
    about,
    errors: [{ field, code: "Invalid", message }],
  });
}
