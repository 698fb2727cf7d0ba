// The files of the library, and checks of files started here. Read at the start, and again when a file was added or
// removed, or a job that may use one started or ended.

import { signal } from "@preact/signals";
import { type Call, read, send, wordsOf } from "../../client/client.ts";
import { follow, type JobEvent, type MediaEvent } from "../../client/events.ts";
import type { Answers, Schemas } from "../../client/schema.ts";
import { clock } from "../../part/shown.tsx";
import { announce } from "../../browser.ts";
import type { LibraryFile } from "../../client/uploads.ts";

/** The files of the library. */
export type MediaLibrary = Schemas["MediaLibrary"];

/** A file whose bytes are hashed by a job. */
interface FileCheck {
  readonly name: string;
  readonly job_uuid: string;
  readonly state: Schemas["JobSummary"]["state"];
  readonly error: string | null;
}

/** A file that is being downloaded or uploaded. Sizes in bytes. */
interface Arrival {
  readonly change: string;
  readonly name: string;
  readonly done: number;
  /** Null while it is unknown. */
  readonly size: number | null;
  /** Time of the last event about it. */
  readonly seenMs: number;
}

/** Changes that report progress; the agent repeats them every few seconds. */
export const ARRIVING: Readonly<Record<string, string>> = {
  downloading: "Downloads",
  uploading: "Another caller is uploading",
};

const FILES_PER_PAGE = 1_000;
/** Milliseconds in which events are collected before the library is read again. */
const LIBRARY_DELAY_MS = 250;

/** The library of a page. */
export function openLibrary() {
  const library = signal<MediaLibrary | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const arrivals = signal<readonly Arrival[]>([]);
  const closing = new AbortController();
  const files = openChecks(closing.signal);
  let timer: number | undefined;
  let reads = 0;
  const load = async () => {
    timer = undefined;
    reads += 1;
    const mine = reads;
    try {
      const found = await readWhole(closing.signal);
      if (mine !== reads) return;
      library.value = found;
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  const soon = () => timer ??= setTimeout(() => void load(), LIBRARY_DELAY_MS);
  const stop = follow("kind=media,machine,job", {
    load: () => void load(),
    media: (event) => {
      arrivals.value = arriving(arrivals.value, event);
      if (!(event.change in ARRIVING)) soon();
    },
    machine: soon,
    job: (event) => {
      files.take(event);
      // A file is in use until its job has ended.
      if (event.job !== null && event.job.finished_at !== null) soon();
    },
  });
  return {
    library,
    error,
    checks: files.checks,
    arrivals,
    /** Starts the job that hashes a file. @throws {CallError} */
    check: async (file: LibraryFile) => {
      await files.check(file);
      soon();
    },
    dismiss: files.dismiss,
    again: soon,
    close: () => {
      stop();
      clearTimeout(timer);
      closing.abort();
    },
  };
}

/** What openLibrary() returns. @see openLibrary */
export type OpenLibrary = ReturnType<typeof openLibrary>;

function openChecks(closing: AbortSignal) {
  const checks = signal<readonly FileCheck[]>([]);
  const take = (event: JobEvent) => checks.value = checked(checks.value, event);
  return {
    checks,
    take,
    async check(file: LibraryFile) {
      const { job_uuid } = await send(checkCallOf(file)) as Answers["POST /agent/v1/media"];
      const others = checks.value.filter((one) => one.job_uuid !== job_uuid);
      checks.value = [...others, { name: file.name, job_uuid, state: "queued", error: null }];
      // The job may have ended before this answer arrived.
      const path = `/agent/v1/jobs/${job_uuid}`;
      take({ job_uuid, job: await read("GET /agent/v1/jobs/{job_uuid}", path, closing) });
    },
    dismiss: (job_uuid: string) => {
      checks.value = checks.value.filter((one) => one.job_uuid !== job_uuid);
    },
  };
}

async function readWhole(signal: AbortSignal): Promise<MediaLibrary> {
  const files: LibraryFile[] = [];
  // The agent lists a few thousand files at most.
  for (;;) {
    const query = `limit=${FILES_PER_PAGE}&offset=${files.length}`;
    const path = `/agent/v1/media/library?${query}`;
    const page = await read("GET /agent/v1/media/library", path, signal);
    files.push(...page.files);
    if (page.files.length < FILES_PER_PAGE) return { ...page, files };
  }
}

/** The call that hashes a file, comparing it with its digest if that is known. */
export function checkCallOf({ digest, path }: LibraryFile): Call {
  return digest === null
    ? { method: "POST", path: "/agent/v1/media", body: { path } }
    : { method: "POST", path: `/agent/v1/media/${digest}/verify` };
}

/** The arrivals after an event; any change but progress ends one. */
function arriving(arrivals: readonly Arrival[], event: MediaEvent): readonly Arrival[] {
  const { change, name, size, done } = event;
  const others = arrivals.filter((one) => one.name !== name);
  if (!(change in ARRIVING)) return others;
  return [...others, { change, name, size, done: done ?? 0, seenMs: clock.value }];
}

function checked(checks: readonly FileCheck[], { job_uuid, job }: JobEvent): readonly FileCheck[] {
  const at = checks.findIndex((one) => one.job_uuid === job_uuid);
  const before = checks[at];
  if (before === undefined || job === null) return checks;
  const { state, error } = job;
  if (state !== before.state && state === "succeeded") announce(`${before.name} is verified`);
  if (state !== before.state && state === "failed") announce(`${before.name}: ${error}`);
  return checks.with(at, { ...before, state, error });
}

/** Whether a machine can boot from a file by its path. */
export function isBootable({ place, problem }: LibraryFile): boolean {
  return problem === null && place !== "cache";
}

/** How a request for a machine names a file: by its name alone if that is enough. */
export function mediumPathOf({ name, path }: LibraryFile): string {
  return name.includes("/") ? path : name;
}
