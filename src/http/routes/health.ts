// Whether the agent runs: `/healthz` for supervisors, `/ping` for clients of node-workflow; and whether it can
// work: `/readyz` for callers that send work. access.ts admits probes without a token to the first and the
// last.

import { type Context, Hono } from "hono";
import type { HttpEnv } from "../context.ts";

const READY = 200;
const NOT_READY = 503;

/** Neither route reads the store, so a stuck disk does not hide the agent. */
export function healthRoutes(): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/healthz", (c) => c.json({ status: "ok" }));
  app.get("/ping", (c) => c.json({ pid: Deno.pid, backend: "sqlite" }));
  return app;
}

/**
 * The findings of the checks by name; 503 when one has failed. An unknown caller gets only the status.
 */
export function readinessRoutes(readiness: () => Promise<ReadinessReport>): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/readyz", async (c: Context<HttpEnv>) => {
    const { ready, checks } = await readiness();
    c.header("cache-control", "no-store");
    const verdict = { status: ready ? "ready" : "not_ready" };
    const known = c.get("caller") !== undefined;
    return c.json(known ? { ...verdict, checks } : verdict, ready ? READY : NOT_READY);
  });
  return app;
}

// Checks of what the agent depends on. Each is bounded in time, cached for a while, and never runs twice at
// once, so that probes cannot load what they check.

/** The result of a check. A warning does not make the agent unready. */
export interface ReadinessFinding {
  readonly status: "ok" | "warn" | "failed";
  /** For people. */
  readonly detail: string;
}

/** One part that readiness depends on, and how often it may be looked at. */
export interface ReadinessCheck {
  /** How long a finding is valid, milliseconds. */
  readonly keepMs: number;
  /** How long it may take, milliseconds. */
  readonly deadlineMs: number;
  /** An error is a finding too. */
  look(signal: AbortSignal): Promise<ReadinessFinding>;
}

/** The findings of all checks. */
export interface ReadinessReport {
  readonly ready: boolean;
  /** By name. */
  readonly checks: Readonly<Record<string, ReadinessFinding>>;
}

/** @returns runs all checks that are due */
export function openReadiness(
  checks: Readonly<Record<string, ReadinessCheck>>,
  monotonicMs: () => number,
): () => Promise<ReadinessReport> {
  const kept = Object.entries(checks).map(([name, check]) =>
    [name, cachedCheck(check, monotonicMs)] as const
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

function cachedCheck(
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
    underWay = runCheck(check).then((finding) => {
      last = { atMs: monotonicMs(), finding };
      underWay = undefined;
      return finding;
    });
    return bounded(underWay, check.deadlineMs);
  };
}

/** Never rejects. A check that ignores its signal goes on, and no other one starts meanwhile. */
async function runCheck({ look, deadlineMs }: ReadinessCheck): Promise<ReadinessFinding> {
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
