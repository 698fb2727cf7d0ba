// One machine as its page shows it, with its newest jobs. Read at the start, and again when such a job has changed.

import { signal } from "@preact/signals";
import { NOT_FOUND, read, statusOf, wordsOf } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import type { Schemas } from "../../client/schema.ts";

/** The machine with the address of its console. */
export type MachineView = Schemas["MachineRead"];

/** Jobs that the page shows; the list of jobs has all of them. */
const JOBS_SHOWN = 10;
/** Milliseconds in which events are collected before the machine is read again. */
const READ_DELAY_MS = 200;

/** The target of every job about a machine. */
export function targetOf(uuid: string): string {
  return encodeURIComponent(`/machines/${uuid}`);
}

/** The machine of a page. */
export function openMachineView(uuid: string) {
  const machine = signal<MachineView | undefined>(undefined);
  const jobs = signal<readonly Schemas["JobSummary"][] | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const deleted = signal(false);
  const closing = new AbortController();
  let timer: number | undefined;
  const load = async () => {
    clearTimeout(timer);
    timer = undefined;
    try {
      const page = await read(
        "GET /agent/v1/jobs",
        `/agent/v1/jobs?target=${targetOf(uuid)}&limit=${JOBS_SHOWN}`,
        closing.signal,
      );
      jobs.value = page.jobs;
      machine.value = await read(
        "GET /agent/v1/machines/{uuid}",
        `/agent/v1/machines/${uuid}`,
        closing.signal,
      );
      deleted.value = false;
      error.value = undefined;
    } catch (failure) {
      if (closing.signal.aborted) return;
      // The machine as last read stays visible.
      deleted.value = machine.value !== undefined && statusOf(failure) === NOT_FOUND;
      error.value = deleted.value ? undefined : wordsOf(failure);
    }
  };
  const soon = () => timer ??= setTimeout(() => void load(), READ_DELAY_MS);
  const stop = follow(`machine=${uuid}&kind=machine,job`, {
    load: () => void load(),
    machine: soon,
    job: ({ job_uuid, job }) => {
      // First what the event contains, then what only vmadm knows.
      if (job !== null) {
        jobs.value = jobs.value?.map((one) => one.uuid === job_uuid ? job : one);
      }
      soon();
    },
  });
  return {
    machine,
    jobs,
    error,
    deleted,
    /** Reads it again. @returns whether its console listens */
    async again(): Promise<boolean> {
      await load();
      return (machine.value?.vnc ?? null) !== null;
    },
    close: () => {
      stop();
      clearTimeout(timer);
      closing.abort();
    },
  };
}

/** The job that holds a machine now, among those shown. */
export function currentJob(
  jobs: readonly Schemas["JobSummary"][] | undefined,
): Schemas["JobSummary"] | undefined {
  return jobs?.find(({ finished_at, state }) => finished_at === null && state !== "canceled");
}
