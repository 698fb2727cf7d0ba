// The agent as HTTP serves it: the parts that routes reach, of which each names those that it uses; and what a
// request carries from the connection to its route.

import type { HostUuid, JobUuid, NewUuid } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { Wording } from "../domain/job/wire.ts";
import type { MemoryBudget, RequestMemory } from "../domain/memory_budget.ts";
import type { CheckSources } from "../domain/job/workflow.ts";
import type { Log } from "../metrics/log.ts";
import type { Notifiers } from "../runtime/notifier.ts";
import type { MediaLibrary } from "../mirror/media/library.ts";
import type { KnownFiles } from "../mirror/media/known_files.ts";
import type { RequestCount } from "../metrics/meters.ts";
import type { Store } from "../store/store.ts";
import type { Access, AuditTrail, Caller } from "./caller.ts";
import type { Peers } from "./peers/peers.ts";
import type { HttpLimits } from "./limits.ts";
import type { MachineAccess } from "./machine_access.ts";
import type { RawBytes } from "./listen/runtime_connection.ts";

/** What the agent hands to the application. */
export interface ServedAgent {
  readonly store: Store;
  /** The budget of memory for documents. */
  readonly budget: MemoryBudget;
  /** Notifies requests that wait for a job. */
  readonly changes: Pick<Notifiers<JobUuid>, "listen">;
  readonly now: Now;
  readonly newUuid: NewUuid;
  readonly limits: HttpLimits;
  readonly checkSources: CheckSources;
  readonly wording: Wording;
  readonly log: Log;
  readonly machines: MachineAccess;
  /** The uuid under which this host is registered in the store. */
  readonly hostUuid: HostUuid;
  /** The other hosts of a shared store. */
  readonly peers?: Peers | undefined;
  readonly mediaFiles: KnownFiles;
  readonly library: MediaLibrary;
  /** Host names, without ports, that requests may use besides the loopback ones. */
  readonly allowedHosts: readonly string[];
  /** Who may call; without it, every caller that gets through is an administrator. */
  readonly access?: Access;
  /** Where changing calls are recorded besides the log. */
  readonly auditTrail?: AuditTrail;
  readonly requests?: RequestCount;
  /** Aborted when the agent begins to stop; requests that wait for a job are then answered. */
  readonly closing: AbortSignal;
}

/** What a request carries through middleware and handlers. */
export interface HttpEnv {
  Bindings: {
    /** Where the request came from. Absent means TCP, which is checked most strictly. */
    remote?: Deno.Addr;
    /** Whether it came over TLS. */
    secure?: boolean;
    /** Takes the connection over from HTTP; absent where nothing listens. */
    takeOver?: () => RawBytes;
    /** Reports that the caller has read a part of an endless response. */
    moved?: () => void;
  };
  Variables: {
    request_id: string;
    /** Who calls; absent before access is granted, and for probes without a token. */
    caller?: Caller;
    /** The memory that this request holds, released with its answer. */
    memory: RequestMemory;
    /** Stops counting this request as active, for handlers that wait. */
    release: () => void;
    /** Keeps counting it while its answer is written, until the returned function is called. */
    keep: () => () => void;
  };
}
