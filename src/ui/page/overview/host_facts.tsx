// What the host has and how much of it is used.

import type { ComponentChildren, JSX } from "preact";
import { bytesText, clock, isThere, Progress, Time } from "../../part/shown.tsx";
import { signal } from "@preact/signals";
import { read, wordsOf } from "../../client/client.ts";
import type { Schemas } from "../../client/schema.ts";

/** Slots, machines, free space and the age of the index; values that could not be read show the error. */
export function HostFacts({ host }: { host: HostPage }): JSX.Element {
  const { slots, machines, pool, cache, disk, store } = host;
  return (
    <ul class="cards host-facts">
      <Fact title="Slots" value={`${slots.busy} of ${slots.total} busy`}>
        <Progress done={slots.busy} total={Math.max(1, slots.total)} label="Busy slots" />
      </Fact>
      <Fact title="Machines" value={machinesText(machines.value)} error={machines.error}>
        <a href="/ui/machines">All machines</a>
      </Fact>
      <Fact
        title={pool.value === null ? "Pool" : `Pool ${pool.value.name}`}
        value={pool.value && `${bytesText(pool.value.free_bytes)} free`}
        error={pool.error}
      >
        {pool.value !== null && (
          <Progress
            done={pool.value.used_bytes}
            total={pool.value.used_bytes + pool.value.free_bytes}
            label="Used space of the pool"
          />
        )}
      </Fact>
      <Fact
        title="Media cache"
        value={bytesText(cache.bytes) +
          (cache.max_bytes === null ? "" : ` of ${bytesText(cache.max_bytes)}`)}
      >
        {cache.max_bytes !== null && (
          <Progress done={cache.bytes} total={cache.max_bytes} label="Used space of the cache" />
        )}
      </Fact>
      <Fact
        title="Agent disk"
        value={isThere(disk.value?.free_bytes) ? `${bytesText(disk.value.free_bytes)} free` : null}
        error={disk.error}
      >
        <span class="muted">{disk.value?.folder}, database {bytesText(store.bytes)}</span>
      </Fact>
      <IndexFact index={host.index} />
      <Walls walls={host.walls} />
    </ul>
  );
}

interface FactProps {
  readonly title: string;
  readonly value: ComponentChildren;
  readonly error?: string | null;
  readonly children?: ComponentChildren;
}

function Fact({ title, value, error = null, children }: FactProps): JSX.Element {
  return (
    <li class="card fact">
      <h3>{title}</h3>
      {error === null
        ? <p class="fact-value">{value ?? "unknown"}</p>
        : <p class="step-error cut-late" title={error}>{error}</p>}
      {children}
    </li>
  );
}

function machinesText(machines: HostPage["machines"]["value"]): string | null {
  if (machines === null) return null;
  if (machines.total === 0) return "none";
  const words = Object.entries(machines.by_state).map(([state, count]) => `${count} ${state}`);
  return words.join(", ");
}

function IndexFact({ index }: { index: HostPage["index"] }): JSX.Element {
  const { upstream, compared_at, outcome, problems } = index;
  const value = compared_at === null ? upstream === null ? "no upstream" : "not synced yet" : (
    <>
      synced <Time at={compared_at} />
    </>
  );
  const words = outcome === "partial"
    ? `${problems} ${problems === 1 ? "problem" : "problems"}`
    : outcome === "failed"
    ? "the last sync failed"
    : "up to date with its upstream";
  return (
    <Fact title="Image index" value={value}>
      <span class={outcome === "complete" || outcome === null ? "muted" : "step-error"}>
        {outcome === null ? null : words} <a href="/ui/images">Images</a>
      </span>
    </Fact>
  );
}

function Walls({ walls: { value, error } }: { walls: HostPage["walls"] }): JSX.Element {
  const open = (value ?? []).filter(({ ok }) => !ok);
  const total = value?.length ?? 0;
  return (
    <Fact
      title="Sandbox checks"
      value={value &&
        (open.length === 0 ? `all ${total} pass` : `${total - open.length} of ${total} pass`)}
      error={error}
    >
      <a href="/ui/system">System</a>
    </Fact>
  );
}

/** The answer to GET /agent/v1/host. */
export type HostPage = Schemas["Host"];

/**
 * Milliseconds in which events are collected before the host is read again: the agent asks programs of the host for
 * it.
 */
const READ_DELAY_MS = 2_000;
const DAY_MS = 86_400_000;
/** Failed jobs to show; the list of jobs has all of them. */
const FAILED_SHOWN = 5;

/**
 * The host as a page shows it, with jobs by hour and failed jobs. Read at the start, and again
 * after events.
 */
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
      // Each part is drawn as soon as it arrives: the host may answer slowly.
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

/** How the agent reaches its host, in a word or two. */
export function modeText({ mode, name }: Pick<HostPage, "mode" | "name">): string {
  return mode === "ssh" ? `ssh to ${name}` : mode;
}
