// Tries again what failed for a reason that passes: no answer, 429, 5xx, a cut body.

import { AgentError } from "../../domain/error.ts";
import type { Wait } from "./time_limits.ts";

/** Executions of one request, the first included. */
export const TRIES_MAX = 3;
/** Wait before the second try; it doubles for each further one. */
export const BACKOFF_MS = 1_000;
/** Longest wait between two tries. A server that asks for more is not tried again. */
export const BACKOFF_MS_MAX = 60_000;
/** Longest rest that a server may ask for: no answer may keep a host from its index for months. */
const RETRY_AFTER_SECONDS_MAX = 24 * 3600;
/** Part of a wait that is left to chance, so that many agents do not ask in step. */
const JITTER = 0.5;

export interface RetryOptions {
  readonly wait: Wait;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly signal?: AbortSignal;
  /** Whether the attempt that failed got further than those before it; it then counts as the first. */
  readonly advanced?: () => boolean;
}

/** Upstream failures that may pass although the server did not say when. */
const passing = new WeakSet<AgentError>();

/** A failure that may pass by itself: the code `timeout`, or `upstream` marked as such. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof AgentError)) return false;
  if (error.code === "timeout") return true;
  return error.code === "upstream" && (passing.has(error) || error.retryAfterSeconds !== undefined);
}

/**
 * Makes an upstream failure that may pass. `retryAfterSeconds` is the server's own word, 0 when it
 * gave none: that must not reach our own callers, who would try again at once.
 */
export function transientError(
  message: string,
  retryAfterSeconds = 0,
  cause?: unknown,
): AgentError {
  const asked = retryAfterSeconds > 0 ? { retryAfterSeconds } : {};
  const error = new AgentError("upstream", message, { ...asked, cause });
  passing.add(error);
  return error;
}

/**
 * Runs `attempt` up to {@linkcode TRIES_MAX} times without an advance, while it fails in a way that
 * may pass.
 * @throws what the last attempt threw
 */
export async function withRetries<T>(
  attempt: () => Promise<T>,
  { wait, random, signal, advanced = () => false }: RetryOptions,
): Promise<T> {
  for (let tried = 1;; tried++) {
    try {
      return await attempt();
    } catch (error) {
      if (advanced()) tried = 1;
      if (tried >= TRIES_MAX || !isTransient(error) || signal?.aborted) throw error;
      const asked = error instanceof AgentError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
      if (asked > BACKOFF_MS_MAX) throw error;
      await wait(backoffMs(tried, asked, random()), signal);
    }
  }
}

function backoffMs(tried: number, askedMs: number, chance: number): number {
  const own = BACKOFF_MS * 2 ** (tried - 1) * (1 - JITTER + JITTER * chance);
  return Math.min(Math.max(own, askedMs), BACKOFF_MS_MAX);
}

/**
 * Seconds of a `Retry-After` header, a day at most, 0 when there is none. A date is read by the
 * server's own clock, its `Date` header.
 */
export function retryAfterSeconds(headers: Headers): number {
  const value = headers.get("retry-after")?.trim() ?? "";
  const ms = Date.parse(value) - Date.parse(headers.get("date") ?? "");
  const seconds = /^\d+$/.test(value) ? Number(value) : Math.ceil(ms / 1000);
  return seconds > 0 ? Math.min(seconds, RETRY_AFTER_SECONDS_MAX) : 0;
}
