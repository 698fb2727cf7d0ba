// What requests may do with the machines of the managed host: look at them, and connect to their consoles.

import type { MachineUuid } from "../domain/id.ts";
import type { JsonObject } from "../domain/json.ts";
import type { Policy } from "../domain/policy.ts";
import type { VncAddress, VncConsole } from "../host/vmadm/vnc.ts";
import type { PayloadCheck } from "../machines/dry_run.ts";
import type { MediumLookup } from "../machines/provision_job.ts";

/** What requests need to work with machines. */
export interface MachineAccess {
  readonly vmadm: MachineReader;
  readonly policy: Policy;
  /** Looks up the medium that a request boots from; see Mirror.expect(). */
  readonly media: MediumLookup;
  /** The name that answers give the managed host. */
  readonly host: string;
  /** What a dry run asks the host. */
  readonly payloadChecks: readonly PayloadCheck[];
}

/** The reading side of vmadm: requests look at machines, only jobs change them. Errors are those of Vmadm. */
export interface MachineReader {
  /** A machine as vmadm describes it, without passwords; null when there is none. */
  get(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<JsonObject | null>;
  /** All machines. @param options `detailed`: with all properties, which takes vmadm longer */
  list(options?: { signal?: AbortSignal; detailed?: boolean }): Promise<JsonObject[]>;
  /** Where the console of a running machine is; null while it has none. */
  infoVnc(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<VncAddress | null>;
  /** The same with the password of the console. */
  vncConsole(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<VncConsole | null>;
  /** Connects to a console that infoVnc() has named. */
  connectVnc(address: VncAddress, options?: { signal?: AbortSignal }): Promise<ConsoleStream>;
}

/** The bytes of a console, both ways. */
export interface ConsoleStream {
  /** What the console has sent while connecting. */
  readonly greeting: Uint8Array<ArrayBuffer>;
  /** Reads on; null at the end. */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Writes all of it; ends when the console has room for it. */
  write(bytes: Uint8Array): Promise<void>;
  /** May be called twice. A pending read or write fails or ends. */
  close(): void;
}
