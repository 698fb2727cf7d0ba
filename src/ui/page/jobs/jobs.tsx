// The list of jobs. The filter is part of the address, so links keep it.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { cliOf, mayChange, read, RUN_WORDS } from "../../client/client.ts";
import { Banner, Button, Empty, Tabs } from "../../part/controls.tsx";
import { HostName, hostsChanged, HostSelect, hostsError, useHosts } from "../../part/hosts.tsx";
import { Rows } from "../../part/rows.tsx";
import { Badge, clock, durationOf, REASONS, spanText, Time, Uuid } from "../../part/shown.tsx";
import { nameTab, place, setQuery } from "../../browser.ts";
import { Selection } from "./selection.tsx";
import { FILTER_KEYS, type JobList, type JobSummary, openJobList, STATES } from "./job_list.ts";

/** The list of jobs. @see openJobList */
export function JobsPage(): JSX.Element {
  useEffect(() => nameTab("Jobs"), []);
  const filter = filterOf(place.value.query);
  const list = useMemo(() => openJobList(filter, { host: hostsChanged }), []);
  // Before the frame is drawn with the new filter.
  useLayoutEffect(() => list.filter(filter), [filter.toString()]);
  useEffect(() => list.close, []);
  const selected = useSignal<ReadonlyMap<string, JobSummary>>(new Map());
  const error = list.error.value ?? hostsError.value;
  return (
    <>
      <h1>Jobs</h1>
      <StateTabs list={list} />
      <Filter />
      {error !== undefined && <Banner kind="bad" title={error} />}
      <div
        id="jobs"
        role="tabpanel"
        aria-label="Jobs of this state"
        aria-busy={list.stale.value}
      >
        {list.stale.value && list.rows.value.length > 0 && (
          <p class="searching" role="status">Searching</p>
        )}
        <JobRows list={list} selected={selected} />
      </div>
      {mayChange() && (
        <Selection
          jobs={[...selected.value.values()]}
          filter={filter}
          onSelect={(jobs) => selected.value = byUuid(jobs)}
        />
      )}
    </>
  );
}

function filterOf(query: URLSearchParams): URLSearchParams {
  const filter = new URLSearchParams();
  for (const key of FILTER_KEYS) {
    const value = query.get(key);
    if (value !== null && value !== "") filter.set(key, value);
  }
  return filter;
}

function StateTabs({ list }: { list: JobList }): JSX.Element {
  const counts = list.counts.value;
  const tabs = [
    { key: "", title: "All" },
    ...STATES.map((state) => ({
      key: state,
      title: titleOf(state),
      count: counts?.of[state],
      more: counts?.whole === false,
    })),
  ];
  return (
    <Tabs
      tabs={tabs}
      current={place.value.query.get("state") ?? ""}
      label="State"
      controls="jobs"
      onChange={(state) => setQuery({ state })}
    />
  );
}

function titleOf(state: string): string {
  return state.charAt(0).toUpperCase() + state.slice(1);
}

/** Time spans that the list can be limited to, milliseconds. */
const SPANS = [
  { title: "any time", ms: null },
  { title: "the last hour", ms: 3_600_000 },
  { title: "the last 24 hours", ms: 86_400_000 },
  { title: "the last 7 days", ms: 604_800_000 },
] as const;
/** Milliseconds between searches while the user types; browsers limit how often the address changes. */
const TYPING_MS = 150;

function Filter(): JSX.Element {
  const { query } = place.value;
  const narrowed = FILTER_KEYS.some((key) => key !== "state" && query.has(key));
  const names = useSignal<readonly string[]>([]);
  const suggest = async () => {
    if (names.value.length > 0) return;
    // Without suggestions a name can still be typed.
    const found = await read("GET /workflows", "/workflows?builtin=true").catch(() => []);
    names.value = [...new Set(found.map(({ name }) => name))].sort();
  };
  return (
    <form
      class="filter"
      role="search"
      onSubmit={(event) => event.preventDefault()}
      onFocusIn={(event) => {
        if (event.target instanceof Element && event.target.hasAttribute("list")) void suggest();
      }}
    >
      <label class="filter-search">
        <span class="sr-only">Search</span>
        <FilterText name="search" type="search" placeholder="Search name, target, error, params" />
      </label>
      <label>
        <span>Workflow</span>
        <FilterText name="name" type="text" placeholder="any" words={names} />
      </label>
      <HostSelect />
      <label>
        <span>Created</span>
        <TimeSelect />
      </label>
      {narrowed && (
        <Button
          kind="quiet"
          onClick={() =>
            setQuery({
              search: null,
              name: null,
              host: null,
              since: null,
              until: null,
              target: null,
            })}
        >
          Clear
        </Button>
      )}
    </form>
  );
}

interface FilterTextProps {
  readonly name: string;
  readonly type: "search" | "text";
  readonly placeholder: string;
  /** Suggestions of the browser while the user types. */
  readonly words?: { readonly value: readonly string[] };
}

/** A text filter. It shows what is typed before the address contains it. */
function FilterText({ name, type, placeholder, words }: FilterTextProps): JSX.Element {
  const current = place.value.query.get(name) ?? "";
  const text = useSignal(current);
  const timer = useRef<number | undefined>(undefined);
  const sent = useRef(current);
  useEffect(() => {
    // An address that comes back may be older than what is typed.
    if (sent.current !== current) text.value = sent.current = current;
  }, [current]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const send = () => {
    const value = text.peek().trim();
    timer.current = undefined;
    if (value === sent.current) return;
    sent.current = value;
    setQuery({ [name]: value });
    timer.current = setTimeout(send, TYPING_MS);
  };
  const typed = (event: Event & { currentTarget: HTMLInputElement }) => {
    text.value = event.currentTarget.value;
    // The first key searches at once, later ones together.
    if (timer.current === undefined) send();
  };
  const shared = { placeholder, value: text.value, onInput: typed };
  if (type === "search") return <input type="search" {...shared} />;
  const id = `words-${name}`;
  return (
    <>
      <input type="text" list={id} {...shared} />
      <datalist id={id}>
        {words?.value.map((word) => <option key={word} value={word} />)}
      </datalist>
    </>
  );
}

function TimeSelect(): JSX.Element {
  const since = place.value.query.get("since");
  return (
    <select
      value={since === null ? "" : "set"}
      onChange={(event) => {
        const { value } = event.currentTarget;
        if (value === "set") return;
        // Rounded to the minute, so that the address stays short.
        const at = value === "" ? null : new Date(clock.value - Number(value)).toISOString();
        setQuery({ since: at === null ? null : `${at.slice(0, 16)}Z`, until: null });
      }}
    >
      {SPANS.map(({ title, ms }) => <option key={title} value={ms ?? ""}>{title}</option>)}
      {since !== null && <option value="set">since {since.replace("T", " ")}</option>}
    </select>
  );
}

const COLUMNS: readonly { readonly key: string; readonly title: string }[] = [
  { key: "state", title: "State" },
  { key: "name", title: "Workflow" },
  { key: "step", title: "Step or error" },
  { key: "target", title: "Target" },
  { key: "duration", title: "Duration" },
  { key: "created", title: "Created" },
];
const WITH_HOST = COLUMNS.toSpliced(3, 0, { key: "host", title: "Host" });

/** The selected jobs by uuid, as last seen. */
type Selected = { value: ReadonlyMap<string, JobSummary> };

function byUuid(jobs: readonly JobSummary[]): ReadonlyMap<string, JobSummary> {
  return new Map(jobs.map((job) => [job.uuid, job]));
}

interface JobRowsProps {
  readonly list: JobList;
  readonly selected: Selected;
}

function JobRows({ list, selected }: JobRowsProps): JSX.Element {
  const rows = list.rows.value;
  // Actions depend on the current state of a job, so keep the selected ones up to date.
  useEffect(() => {
    const known = rows.filter(({ uuid }) => selected.value.has(uuid));
    if (known.length > 0) selected.value = new Map([...selected.value, ...byUuid(known)]);
  }, [rows]);
  const several = useHosts().length > 0;
  if (rows.length === 0) return <NoJobs list={list} />;
  const selects = mayChange();
  const columns = several ? WITH_HOST : COLUMNS;
  const table = several ? "jobs-table jobs-table-host" : "jobs-table";
  const all = rows.every(({ uuid }) => selected.value.has(uuid));
  const box = {
    key: "select",
    title: (
      <input
        type="checkbox"
        aria-label={`Select the ${rows.length} jobs shown`}
        checked={all}
        onChange={() => selected.value = byUuid(all ? [] : rows)}
      />
    ),
  };
  return (
    <>
      <Rows
        label="Jobs"
        name={selects ? `${table} jobs-table-select` : table}
        columns={selects ? [box, ...columns] : columns}
        rows={rows}
        keyOf={({ uuid }) => uuid}
        cellsOf={(job) => ({
          select: <SelectJob job={job} selected={selected} />,
          ...cellsOf(job),
        })}
        onEnd={list.more}
      />
      <p class="rows-end" role="status">
        {list.status.value === "whole"
          ? `${rows.length.toLocaleString("en")} ${rows.length === 1 ? "job" : "jobs"}`
          : "Loading more"}
      </p>
    </>
  );
}

function SelectJob(
  { job, selected }: { job: JobSummary; selected: Selected },
): JSX.Element {
  const { uuid, name } = job;
  const toggle = () => {
    const next = new Map(selected.value);
    if (!next.delete(uuid)) next.set(uuid, job);
    selected.value = next;
  };
  return (
    <input
      type="checkbox"
      aria-label={`Select ${name} ${uuid.slice(0, 8)}`}
      checked={selected.value.has(uuid)}
      onChange={toggle}
    />
  );
}

function cellsOf(job: JobSummary): Record<string, JSX.Element> {
  return {
    state: <Badge state={job.state} reason={job.reason} />,
    name: (
      <>
        <a class="job-link" href={`/ui/jobs/${job.uuid}`}>{job.name}</a>
        <Uuid uuid={job.uuid} of={`this ${job.name}`} />
      </>
    ),
    step: <Step job={job} />,
    host: <HostName of={job} />,
    target: (
      <span class="muted" title={job.target ?? undefined}>{job.machine?.alias ?? job.target}</span>
    ),
    duration: <Duration job={job} />,
    created: <Time at={job.created_at} />,
  };
}

function Duration({ job }: { job: JobSummary }): JSX.Element {
  const seconds = durationOf(job);
  return <span class="number">{seconds === null ? "" : spanText(seconds)}</span>;
}

/** The task that a job runs, waits for, or failed in. */
function Step({ job }: { job: JobSummary }): JSX.Element {
  if (job.error !== null) return <span class="step-error" title={job.error}>{job.error}</span>;
  const reason = job.reason === null ? undefined : REASONS[job.reason];
  if (job.task === null) return <span class="muted">{reason}</span>;
  const place = `${Math.min(job.tasks_done + 1, job.tasks_total)}/${job.tasks_total}`;
  return (
    <span>
      <span class="number muted">{place}</span> {job.task.name}
      {reason !== undefined && <span class="muted">, {reason}</span>}
    </span>
  );
}

function NoJobs({ list }: { list: JobList }): JSX.Element {
  if (list.status.value === "loading") return <p class="muted loading" role="status">Loading</p>;
  if (place.value.query.size > 0) {
    return (
      <Empty title="No jobs match this filter">
        {place.value.query.has("name") && (
          <p class="muted">Enter the whole name of the workflow, such as provision-machine.</p>
        )}
        <p>
          <a href="/ui/jobs">Show all jobs</a>
        </p>
      </Empty>
    );
  }
  return (
    <Empty
      title="There are no jobs yet"
      command={cliOf(RUN_WORDS)}
    >
      <p class="muted">
        A job runs the tasks of a workflow. {mayChange()
          ? (
            <>
              <a href="/ui/workflows">Run a workflow</a>, or from a terminal:
            </>
          )
          : "From a terminal:"}
      </p>
    </Empty>
  );
}
