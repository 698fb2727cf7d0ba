// Waiting in tests: for a condition, with a deadline, never for a time.

import { explained } from "./failure.ts";

/** Milliseconds between two looks: the longer it has been, the rarer, since looking takes a processor as well. */
const POLL_MS = 5;
const POLL_MS_MAX = 100;
/** Of the time that it has been. */
const POLL_SHARE = 1 / 20;

/**
 * Asks again until the answer is neither undefined, null nor false, and returns it.
 * @param what it waits for; a function says it in the end
 */
export async function until<T>(
  what: string | (() => string),
  ask: () => T | Promise<T>,
  deadlineMs = 180_000,
): Promise<NonNullable<Exclude<T, false>>> {
  const began = performance.now();
  for (let waited = 0; waited < deadlineMs; waited = performance.now() - began) {
    const answer = await ask();
    if (answer !== undefined && answer !== null && answer !== false) {
      return answer as NonNullable<Exclude<T, false>>;
    }
    const pauseMs = Math.min(Math.max(waited * POLL_SHARE, POLL_MS), POLL_MS_MAX);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  const words = typeof what === "string" ? what : what();
  throw new Error(`Gave up after ${deadlineMs} ms waiting for ${words}`);
}

/** What a promise brings, or an error when it does not come in time. */
export async function withDeadline<T>(
  promise: Promise<T>,
  ms: number,
  what: () => string,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Gave up after ${ms} ms waiting for ${what()}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Removes a folder. @returns false when a process that is about to end has just written into it */
async function removed(folder: string): Promise<boolean> {
  try {
    await Deno.remove(folder, { recursive: true });
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOTEMPTY") return false;
    throw error;
  }
}

/** Runs a function with a new folder, and removes the folder whatever happens. */
export async function withFolder<T>(run: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "zonewright-test-" });
  try {
    return await explained(() => run(folder));
  } finally {
    await until("the folder to be removed", () => removed(folder));
  }
}
