// Whether the agent is there: `/healthz` for supervisors, `/ping` for clients of node-workflow; and
// whether it can do its work: `/readyz` for whoever sends work to it. access.ts lets probes without a
// token come to the first and the last.

import { type Context, Hono } from "hono";
import type { HttpEnv } from "../context.ts";

const READY = 200;
const NOT_READY = 503;

/** The two routes; neither asks the store, so a stuck disk does not hide the agent. */
export function healthRoutes(): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/healthz", (c) => c.json({ status: "ok" }));
  app.get("/ping", (c) => c.json({ pid: Deno.pid, backend: "sqlite" }));
  return app;
}

/**
 * What the looks found, by their names; 503 when one has failed. Who was let in without being known is
 * told no more than that.
 */
export function readinessRoutes(readiness: () => Promise<ReadinessReport>): Hono {
  const app = new Hono();
  app.get("/readyz", async (c: Context<HttpEnv>) => {
    const { ready, checks } = await readiness();
    c.header("cache-control", "no-store");
    const verdict = { status: ready ? "ready" : "not_ready" };
    const known = c.get("caller") !== undefined;
    return c.json(known ? { ...verdict, checks } : verdict, ready ? READY : NOT_READY);
  });
  return app;
}

// Whether the agent can do its work: some looks at what it rests on. Each is bounded in time, is kept
// for a while, and is never under way twice, so that probes cannot load what they look at.

/** What one look found. A warning does not make the agent unready. */
export interface ReadinessFinding {
  readonly status: "ok" | "warn" | "failed";
  /** For people. */
  readonly detail: string;
}

/** One look. */
export interface ReadinessCheck {
  /** How long what it found holds, milliseconds. */
  readonly keepMs: number;
  /** How long it may take, milliseconds. */
  readonly deadlineMs: number;
  /** What it throws is what it found. */
  look(signal: AbortSignal): Promise<ReadinessFinding>;
}

/** What all of them found. */
export interface ReadinessReport {
  readonly ready: boolean;
  /** By name. */
  readonly checks: Readonly<Record<string, ReadinessFinding>>;
}

/** Opens the looks. @returns asks all of them */
export function openReadiness(
  checks: Readonly<Record<string, ReadinessCheck>>,
  monotonicMs: () => number,
): () => Promise<ReadinessReport> {
  const kept = Object.entries(checks).map(([name, check]) =>
    [name, keptLook(check, monotonicMs)] as const
  );
  return async () => {
    const found = await Promise.all(
      kept.map(async ([name, look]) => [name, await look()] as const),
    );
    return {
      ready: found.every(([, { status }]) => status !== "failed"),
      checks: Object.fromEntries(found),
    };
  };
}

function keptLook(
  check: ReadinessCheck,
  monotonicMs: () => number,
): () => Promise<ReadinessFinding> {
  let last: { readonly atMs: number; readonly finding: ReadinessFinding } | undefined;
  let underWay: Promise<ReadinessFinding> | undefined;
  return () => {
    if (underWay !== undefined) return bounded(underWay, check.deadlineMs);
    if (last !== undefined && monotonicMs() - last.atMs < check.keepMs) {
      return Promise.resolve(last.finding);
    }
    underWay = lookOnce(check).then((finding) => {
      last = { atMs: monotonicMs(), finding };
      underWay = undefined;
      return finding;
    });
    return bounded(underWay, check.deadlineMs);
  };
}

/** Never rejects. A look that heeds no signal goes on, and nobody begins another meanwhile. */
async function lookOnce({ look, deadlineMs }: ReadinessCheck): Promise<ReadinessFinding> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), deadlineMs);
  try {
    return await look(late.signal);
  } catch (error) {
    return late.signal.aborted ? noAnswer(deadlineMs) : {
      status: "failed",
      detail: error instanceof Error ? error.message : String(error),
    };
  } finally {
    clearTimeout(timer);
  }
}

async function bounded(
  look: Promise<ReadinessFinding>,
  deadlineMs: number,
): Promise<ReadinessFinding> {
  const { promise, resolve } = Promise.withResolvers<ReadinessFinding>();
  const timer = setTimeout(() => resolve(noAnswer(deadlineMs)), deadlineMs);
  const finding = await Promise.race([look, promise]);
  clearTimeout(timer);
  return finding;
}

function noAnswer(deadlineMs: number): ReadinessFinding {
  return { status: "failed", detail: `no answer within ${deadlineMs} ms` };
}
