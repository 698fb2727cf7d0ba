// The limits of requests, which the configuration sets.

import type { JobLimits } from "../domain/job/request.ts";
import type { WorkflowLimits } from "../domain/job/workflow.ts";

/** The limits of what a request may hold or wait for. */
export interface HttpLimits extends WorkflowLimits, JobLimits {
  /** Header fields of one request. */
  readonly headerFieldsMax: number;
  /** Characters of the names and values of all header fields of one request. */
  readonly headerCharsMax: number;
  /** Bytes of one request body. */
  readonly bodyBytesMax: number;
  /** Bytes of the body of a short request, such as a cancel. */
  readonly smallBodyBytesMax: number;
  /** Seconds for a body to arrive. */
  readonly bodySeconds: number;
  /** Nesting of a request body. */
  readonly jsonDepthMax: number;
  /** Requests that are answered at the same time. */
  readonly requestsMax: number;
  /** Requests that wait for a job at the same time. */
  readonly waitsMax: number;
  /** Bytes of one info entry as JSON. */
  readonly infoEntryBytesMax: number;
  /** Info entries of one job. */
  readonly infoEntriesMax: number;
  /** Streams of events that are open at the same time. */
  readonly eventStreamsMax: number;
  /** Consoles that are open at the same time. */
  readonly consolesMax: number;
  /** Seconds without a byte in either direction after which a console is closed. */
  readonly consoleIdleSeconds: number;
  readonly consoleTicketSeconds: number;
  /** Unused console tickets at the same time. */
  readonly consoleTicketsMax: number;
  /** Unfinished jobs at the same time. */
  readonly unfinishedJobsMax: number;
  readonly workflowsMax: number;
}
