// Retries transient failures: no answer, 429, 5xx, or a body that breaks off.

import { AgentError } from "../../domain/error.ts";
import type { Wait } from "./time_limits.ts";

/** Attempts of one request, including the first. */
export const TRIES_MAX = 3;
/** Wait before the second attempt, milliseconds; it doubles for each further one. */
const BACKOFF_MS = 1_000;
/** Longest wait between two attempts, milliseconds. A server that asks for more is not tried again. */
export const BACKOFF_MS_MAX = 60_000;
/**
 * Longest pause that a server may ask for: a server must not cut a host off from its index for months.
 * Seconds.
 */
const RETRY_AFTER_SECONDS_MAX = 24 * 3600;
/** Random share of a wait, so that agents do not all retry at once. */
const JITTER = 0.5;

/** How to wait between attempts, and when to give up. */
interface RetryOptions {
  readonly wait: Wait;
  /** A number from 0 up to, not including, 1. */
  readonly random: () => number;
  readonly signal?: AbortSignal;
  /** Whether the failed attempt got further than those before it, which resets the count. */
  readonly advanced?: () => boolean;
}

/** Transient upstream failures without a `Retry-After`. */
const passing = new WeakSet<AgentError>();

/** A failure that may pass: the code `timeout`, or `upstream` marked as transient. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof AgentError)) return false;
  if (error.code === "timeout") return true;
  return error.code === "upstream" && (passing.has(error) || error.retryAfterSeconds !== undefined);
}

/**
 * Makes a transient upstream failure. `retryAfterSeconds` comes from the server, 0 for none. Our own callers
 * must not see it, or they would retry at once.
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
 * Repeats `attempt` while it fails with a transient error, at most {@linkcode TRIES_MAX} times without
 * progress.
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
 * Seconds of a `Retry-After` header, at most a day, 0 for none. A date is compared with the server's own
 * clock, its `Date` header.
 */
export function retryAfterSeconds(headers: Headers): number {
  const value = headers.get("retry-after")?.trim() ?? "";
  const ms = Date.parse(value) - Date.parse(headers.get("date") ?? "");
  const seconds = /^\d+$/.test(value) ? Number(value) : Math.ceil(ms / 1000);
  return seconds > 0 ? Math.min(seconds, RETRY_AFTER_SECONDS_MAX) : 0;
}
