// What the agent says of its host, how jobs ended hour by hour, and which have failed; read at the start, and again after events.

import { signal } from "@preact/signals";
import { read, wordsOf } from "../../client/client.ts";
import type { Schemas } from "../../client/schema.ts";
import { clock } from "../../part/shown.tsx";

/** What the agent says of itself and its host. */
export type HostPage = Schemas["Host"];

/** Milliseconds in which events are collected before the host is read again: it asks programs of the host. */
const READ_DELAY_MS = 2_000;
const DAY_MS = 86_400_000;
/** Failed jobs that are named; the list of jobs has all of them. */
const FAILED_SHOWN = 5;

/** The host as a page shows it. */
export function openHostView() {
  const host = signal<HostPage | undefined>(undefined);
  const hours = signal<Schemas["HourlyStats"]["hours"] | undefined>(undefined);
  const failed = signal<readonly Schemas["JobSummary"][] | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  let timer: number | undefined;
  const load = async () => {
    clearTimeout(timer);
    timer = undefined;
    try {
      const since = new Date(clock.peek() - DAY_MS).toISOString();
      const path = `/agent/v1/jobs?state=failed&finished_since=${since}&limit=${FAILED_SHOWN}`;
      // Each is drawn when it is there: the host may be slow to answer.
      await Promise.all([
        read("GET /agent/v1/stats/hourly", "/agent/v1/stats/hourly", closing.signal)
          .then((stats) => hours.value = stats.hours),
        read("GET /agent/v1/jobs", path, closing.signal)
          .then((page) => failed.value = page.jobs),
        read("GET /agent/v1/host", "/agent/v1/host", closing.signal)
          .then((page) => host.value = page),
      ]);
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  return {
    host,
    hours,
    failed,
    error,
    load,
    /** Reads it again soon, once for many events. */
    soon: () => void (timer ??= setTimeout(() => void load(), READ_DELAY_MS)),
    close: () => {
      clearTimeout(timer);
      closing.abort();
    },
  };
}

/** Where the agent works, in a word or two. */
export function modeText({ mode, name }: Pick<HostPage, "mode" | "name">): string {
  return mode === "ssh" ? `ssh to ${name}` : mode;
}
