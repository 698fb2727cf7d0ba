// The limits of what one execution of a task may ask for and write, as far as an operator may set
// them.

/** Counts are of one execution. */
export interface CapabilityLimits {
  /** Calls of all capabilities. */
  readonly callsMax: number;
  /** Entries that it may append to the info of its job; those of log.* count. */
  readonly taskInfoEntriesMax: number;
  /** Characters of one such entry as JSON text. */
  readonly taskInfoCharsMax: number;
  /** Characters of the message of a log line; what is longer is cut. */
  readonly logCharsMax: number;
}

/** What holds unless it is configured. Polling once a second for a day needs as many calls. */
export const DEFAULT_CAPABILITY_LIMITS: CapabilityLimits = {
  callsMax: 100_000,
  taskInfoEntriesMax: 1000,
  taskInfoCharsMax: 16 * 1024,
  logCharsMax: 8 * 1024,
};
