// What is recorded of a call that changes something, and where to.

/** One call, as it is recorded. */
export interface AuditEntry {
  readonly ts: string;
  readonly request_id: string;
  /**
   * `socket`, `loopback`, `token:NAME`, `ticket:` and who made that ticket, or `refused` for somebody who
   * was not let in.
   */
  readonly who: string;
  /** The address of the caller, or `socket`. */
  readonly peer: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The job that the call has made. */
  readonly job_uuid?: string;
}

/** Where entries are kept besides the log. */
export interface AuditTrail {
  /** Writes one entry; one that cannot be written is told in the log and does not fail the call. */
  append(entry: AuditEntry): Promise<void>;
}
