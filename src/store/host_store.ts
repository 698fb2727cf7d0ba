// The hosts of a store. A shared store has one for each agent; the store of one host has only itself. The store's
// clock decides whether a host is alive; its signs of life come with JobStore.renew().

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

/** A host and its state at the time of the answer. */
export interface ListedHost extends RegisteredHost {
  readonly state: HostState;
  /** Milliseconds since its last sign of life, by the store's clock. */
  readonly silent_ms: number;
}

/** A host with its state. @param now by the store's clock */
export function listedHost(host: RegisteredHost, now: Instant): ListedHost {
  const silent_ms = Math.max(msBetween(host.seen_at, now), 0);
  return { ...host, state: hostState(host, now), silent_ms };
}

/** Numbers of jobs of a host. */
export interface HostJobs {
  /** Jobs that a runner of the host holds, including canceled ones in their `oncancel` chain. */
  readonly running: number;
  /** Jobs that wait for a slot of the host, or for their time. */
  readonly queued: number;
}

/** What an agent registers when it starts. */
export interface HostRegistration {
  /** Also the id of its runner. */
  readonly uuid: HostUuid;
  /** The life of the runner that registers. */
  readonly incarnation: Incarnation;
  /** Earlier lives of the runner that the caller knows to have ended. */
  readonly earlier: readonly Incarnation[];
  readonly facts: HostFacts;
  /** Milliseconds. */
  readonly lease_ms: number;
}

/** Outcome of a registration. */
export type RegisterOutcome =
  | { readonly kind: "registered"; readonly host: ListedHost }
  /** An agent with this uuid was heard within its lease; nothing was written. */
  | { readonly kind: "held"; readonly host: ListedHost };

/** What a uuid or a name stands for. */
export type FoundHost =
  | { readonly kind: "found"; readonly host: ListedHost }
  | { readonly kind: "not_found" }
  /** Several hosts have the name. */
  | { readonly kind: "ambiguous"; readonly uuids: readonly HostUuid[] };

/** Outcome of forgetting a host. */
export type ForgetOutcome =
  /** `failed_jobs`: how many of its jobs have failed as `host_lost`. */
  | { readonly kind: "forgotten"; readonly host: ListedHost; readonly failed_jobs: number }
  /** Its agent was heard within its lease; nothing was written. */
  | { readonly kind: "heard"; readonly host: ListedHost }
  | { readonly kind: "not_found" };

/** Registered hosts. Every call may be repeated after its answer was lost. */
export interface HostStore {
  /** Writes the facts about a host. Its generation rises once per life of its agent. */
  register(registration: HostRegistration): Promise<RegisterOutcome>;
  /** Ordered by name. */
  list(): Promise<ListedHost[]>;
  /** @param name a uuid or a name; see hostNamed() */
  find(name: string): Promise<FoundHost>;
  /** Of hosts that have such jobs. After a host is cordoned, `running` does not rise. */
  jobs(): Promise<ReadonlyMap<HostUuid, HostJobs>>;
  /** From now on the host claims nothing new; its running jobs continue. Undefined for an unknown host. */
  cordon(uuid: HostUuid): Promise<ListedHost | undefined>;
  /** The host claims again, even after it was forgotten. Undefined for an unknown host. */
  uncordon(uuid: HostUuid): Promise<ListedHost | undefined>;
  /**
   * Gives a host up: its unfinished jobs fail as `host_lost`, which frees their targets, locks and machines. If it
   * returns, it does nothing until uncordon() admits it.
   */
  forget(uuid: HostUuid): Promise<ForgetOutcome>;
}

/** No host can run a job. `host`: as the job names it. */
export interface NoHost {
  readonly kind: "no_host";
  readonly host: string;
  readonly reason: "unknown" | "ambiguous" | "forgotten" | NotTaken;
}

/** The host's policy refuses the job: `words` follow the name of the host. */
interface NotTaken {
  readonly words: string;
}

/** What another agent did to the jobs of a shared store. */
export type JobNotice =
  /** A job became ready for the runner of this host, or for any; `made`: the new job, as ready() would return it. */
  | { readonly kind: "queued"; readonly made?: Job }
  /** A new job may start on this host in so many milliseconds. */
  | { readonly kind: "delayed"; readonly ms: number }
  /** A job that a runner holds was canceled. */
  | { readonly kind: "canceled"; readonly job_uuid: JobUuid }
  /** This host was cordoned, admitted or forgotten; renew() returns which. */
  | { readonly kind: "host" }
  /** A job has ended or started to wait. */
  | { readonly kind: "changed"; readonly job_uuid: JobUuid };

/** Finds a host by uuid or by name; forgotten hosts count only if no other has the name. */
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

// Finds the host that a caller names, or explains in an error why there is none.

/** Names as errors quote them; a path may contain one of any length. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, HOST_CHARS_MAX));
}

/** The host that a path names. @throws {AgentError} `not_found`; `invalid_argument` for several */
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
        `Cannot find host ${quoted(name)}: expected a uuid or a name`,
      );
    case "ambiguous": {
      const { uuids } = found;
      const errors = uuids.map((message) => ({ field: "host", code: "Invalid" as const, message }));
      const message = `Cannot choose host ${quoted(name)}: ${uuids.length} hosts have this name: ` +
        `expected one of the uuids ${uuids.join(", ")}`;
      throw new AgentError("invalid_argument", message, { errors, about: { kind: "host", name } });
    }
    default:
      return unreachable(found);
  }
}

/**
 * The host that a field of a request names.
 * @param action such as `Cannot list jobs`
 * @throws {AgentError} naming `field`: `no_host`; `invalid_argument` for several
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
    unknown: "is not registered: expected the uuid or the name of a host",
    ambiguous: "is the name of several hosts: expected a uuid",
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
