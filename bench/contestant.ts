// What is measured over HTTP, seen from outside: an agent, or a peer that takes POST /jobs too.

import { HttpConnection, requestBytes } from "./http_connection.ts";

export interface Contestant {
  /** Takes `POST /jobs`. */
  readonly url: string;
  /** Answers `GET /stats`; for most it is the same. */
  readonly watchUrl: string;
  /** Whether it answers `GET /jobs/:job_uuid/wait`. */
  readonly waits: boolean;
  readonly pid: number;
  /** Body of `POST /jobs` for a job of one task that does nothing. */
  readonly noop: Readonly<Record<string, unknown>>;
  /** The same for one that notes when it began. */
  readonly noting: Readonly<Record<string, unknown>>;
  stop(): Promise<void>;
}

/**
 * Time between two questions for what is unfinished, milliseconds: half of what the rest should take. To answer
 * costs the contestant as much as half a job, and on a busy machine there would be one for each.
 */
const POLL_MS = 5;
const POLL_MS_MAX = 100;
const NOOP = "function (job, cb) { cb(); }";
const NOTING = "function (job, cb) { job.began = Date.now(); cb(); }";

/** Writes the two workflows, and answers with the bodies of requests for a job of each. */
export async function postWorkflows(
  url: string,
): Promise<Pick<Contestant, "noop" | "noting">> {
  const [noop, noting] = [
    await postWorkflow(url, "no-op", NOOP),
    await postWorkflow(url, "noting", NOTING),
  ];
  return { noop: { workflow: noop }, noting: { workflow: noting } };
}

async function postWorkflow(url: string, name: string, body: string): Promise<string> {
  const connection = await HttpConnection.open(new URL(url));
  const workflow = { name, chain: [{ name: "nothing", body }] };
  const request = requestBytes(new URL(url), "POST", "/workflows", workflow);
  const { uuid } = await connection.json(request, 201);
  connection.close();
  if (typeof uuid !== "string") throw new Error(`${url}/workflows answered no uuid`);
  return uuid;
}

type Counts = Readonly<Record<string, number>>;

/** Counts jobs. */
export class Watcher {
  readonly #windows: () => Promise<Counts[]>;
  readonly #close: () => void;

  /** @param windows counts by execution, for each window of time */
  constructor(windows: () => Promise<Counts[]>, close: () => void) {
    this.#windows = windows;
    this.#close = close;
  }

  /** Watches by GET /stats, over one connection. */
  static async open({ watchUrl }: Contestant): Promise<Watcher> {
    const url = new URL(watchUrl);
    const request = requestBytes(url, "GET", "/stats");
    const connection = await HttpConnection.open(url);
    // The shape of GET /stats.
    const windows = async () =>
      Object.values(await connection.json(request, 200)) as unknown as Counts[];
    return new Watcher(windows, () => connection.close());
  }

  /** Jobs that have not ended, those that are delayed included. */
  async unfinished(): Promise<number> {
    const windows = await this.#windows();
    return sum(windows, "queued") + sum(windows, "running");
  }

  /**
   * Waits until no more than so many have not ended. Ended ones are not counted: a full store may
   * remove them.
   * @throws {Error} after the deadline, or when a job has failed
   */
  async until(unfinished: number, seconds: number): Promise<void> {
    const began = performance.now();
    const end = began + seconds * 1000;
    let first: number | undefined;
    for (;;) {
      const windows = await this.#windows();
      const failed = sum(windows, "failed");
      if (failed > 0) throw new Error(`${failed} jobs failed`);
      const now = sum(windows, "queued") + sum(windows, "running");
      if (now <= unfinished) return;
      if (performance.now() > end) {
        throw new Error(`After ${seconds} s ${now - unfinished} jobs have not ended`);
      }
      first ??= now;
      const restMs = (performance.now() - began) * (now - unfinished) / (first - now);
      const pauseMs = Math.min(Math.max(restMs / 2, POLL_MS), POLL_MS_MAX);
      await new Promise((resolve) => setTimeout(resolve, first === now ? POLL_MS : pauseMs));
    }
  }

  close(): void {
    this.#close();
  }
}

function sum(windows: readonly Counts[], execution: string): number {
  return windows.reduce((jobs, counts) => jobs + (counts[execution] ?? 0), 0);
}
