// The hosts of a store. A store that many agents share has one for each of them, a store of one host itself alone.
// Whether a host lives is judged by the store's clock; its signs of life come with JobStore.renew().

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
  /** Those that a runner of the host holds, with the `oncancel` chains of canceled ones. */
  readonly running: number;
  /** Those that only wait for a slot of the host, or for their time. */
  readonly queued: number;
}

/** What an agent registers when it starts. */
export interface HostRegistration {
  /** That of the runner. */
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
  /** Another agent with this uuid was heard within its lease; nothing was written. */
  | { readonly kind: "held"; readonly host: ListedHost };

/** The host that a uuid or a name stands for. */
export type FoundHost =
  | { readonly kind: "found"; readonly host: ListedHost }
  | { readonly kind: "not_found" }
  /** Several hosts have the name. */
  | { readonly kind: "ambiguous"; readonly uuids: readonly HostUuid[] };

/** Outcome of forgetting a host. */
export type ForgetOutcome =
  /** `failed_jobs`: how many of its jobs this call has failed as `host_lost`. */
  | { readonly kind: "forgotten"; readonly host: ListedHost; readonly failed_jobs: number }
  /** Its agent was heard within its lease; nothing was written. */
  | { readonly kind: "heard"; readonly host: ListedHost }
  | { readonly kind: "not_found" };

/** Registered hosts. Every call may be repeated after its answer was lost. */
export interface HostStore {
  /** Writes what an agent says of its host. The generation rises once for each life. */
  register(registration: HostRegistration): Promise<RegisterOutcome>;
  /** In the order of their names. */
  list(): Promise<ListedHost[]>;
  /** @param name a uuid, or a name; a name does not stand for a forgotten host */
  find(name: string): Promise<FoundHost>;
  /** Of the hosts that have such jobs. Once a host is cordoned, `running` does not rise. */
  jobs(): Promise<ReadonlyMap<HostUuid, HostJobs>>;
  /** The host claims nothing new from now on; what runs goes on. Undefined for an unknown host. */
  cordon(uuid: HostUuid): Promise<ListedHost | undefined>;
  /** The host claims again, also one that was forgotten. Undefined for an unknown host. */
  uncordon(uuid: HostUuid): Promise<ListedHost | undefined>;
  /**
   * Gives a host up: its unfinished jobs fail as `host_lost`, which frees their targets, locks and machines.
   * Should it return, it acts on nothing until uncordon() admits it.
   */
  forget(uuid: HostUuid): Promise<ForgetOutcome>;
}

/** No host can run a job. `host`: as it was named */
export interface NoHost {
  readonly kind: "no_host";
  readonly host: string;
  readonly reason: "unknown" | "ambiguous" | "forgotten" | NotTaken;
}

/** Why the policy of a host lets it not run the job, in words that follow its name. */
interface NotTaken {
  readonly words: string;
}

/** What another agent has done to the jobs of a shared store. */
export type JobNotice =
  /** A job became ready for the runner of this host, or for any; `made`: this one, as ready() would return it. */
  | { readonly kind: "queued"; readonly made?: Job }
  /** A job was made that the runner of this host may begin after so many milliseconds. */
  | { readonly kind: "delayed"; readonly ms: number }
  /** A job that a runner holds was canceled. */
  | { readonly kind: "canceled"; readonly job_uuid: JobUuid }
  /** This host was cordoned, admitted or forgotten: renew() says which. */
  | { readonly kind: "host" }
  /** A job has ended, or waits. */
  | { readonly kind: "changed"; readonly job_uuid: JobUuid };

/** The host of a uuid or a name among all; a uuid stands for one, a name for those not forgotten, if any. */
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

// The host that a caller names by its uuid or its name, or an error that says why none is meant.

/** Names as errors quote them: a path may have one of any length. */
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
      throw new AgentError("invalid_argument", message, { errors });
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

/** The error for a field that names no host which can be used. */
export function noHost(
  { host, reason }: Omit<NoHost, "kind">,
  action: string,
  field: string,
): AgentError {
  if (typeof reason === "object") {
    return new AgentError("forbidden", `${action}: host ${quoted(host)} ${reason.words}`);
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
    errors: [{ field, code: "Invalid", message }],
  });
}
