// What the load generator is asked to do, and what it answers.

export interface BurstOrder {
  readonly kind: "burst";
  readonly url: string;
  readonly body: unknown;
  readonly connections: number;
  readonly requests: number;
  /** Whether each request has an `Idempotency-Key` of its own. */
  readonly keyed?: boolean;
}

export interface BurstResult {
  readonly per_second: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
}

export interface SinglesOrder {
  readonly kind: "singles";
  readonly url: string;
  /** Whether `GET /jobs/:job_uuid/wait` is answered; without it the job has to be polled. */
  readonly waits: boolean;
  /** Has to name a workflow whose body sets `job.began`. */
  readonly body: unknown;
  readonly jobs: number;
}

export interface SinglesResult {
  /** From sending the request to knowing that the job has ended. */
  readonly whole_p50_ms: number;
  readonly whole_p99_ms: number;
  /** From having the 201 to the beginning of the body; below zero when the body was faster. */
  readonly pickup_p50_ms: number;
  readonly pickup_p99_ms: number;
  readonly sent_to_body_p50_ms: number;
  readonly sent_to_body_p99_ms: number;
}

export type Order = BurstOrder | SinglesOrder;
