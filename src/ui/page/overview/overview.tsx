// The first page: the host and its problems, job counts by state, unfinished jobs with their steps, and failed jobs.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { cliOf, mayChange, RUN_WORDS } from "../../client/client.ts";
import { Banner, Copy, Empty } from "../../part/controls.tsx";
import { mibText } from "../../part/device.tsx";
import { HostBefore, hostsChanged } from "../../part/hosts.tsx";
import {
  Badge,
  durationOf,
  isThere,
  Progress,
  REASONS,
  spanText,
  Time,
} from "../../part/shown.tsx";
import { nameTab } from "../../browser.ts";
import { type JobList, type JobSummary, openJobList, STATES } from "../jobs/job_list.ts";
import { HostFacts, type HostPage, modeText, openHostView } from "./host_facts.tsx";
import type { Schemas } from "../../client/schema.ts";

/** Jobs that have not ended, as the API filters them. */
const UNFINISHED = new URLSearchParams({ state: "running,waiting,queued" });

/** Shows the host first, then its jobs: what is wrong comes before what works. */
export function OverviewPage(): JSX.Element {
  useEffect(() => nameTab("Overview"), []);
  const view = useMemo(openHostView, []);
  const list = useMemo(() => {
    const { soon } = view;
    return openJobList(UNFINISHED, {
      load: view.load,
      job: soon,
      machine: soon,
      index: soon,
      host: () => {
        soon();
        hostsChanged();
      },
    });
  }, []);
  useEffect(() => () => {
    list.close();
    view.close();
  }, []);
  const host = view.host.value;
  const error = list.error.value ?? view.error.value;
  return (
    <>
      <Head host={host} />
      {error !== undefined && <Banner kind="bad" title={error} />}
      {host !== undefined && <Warnings host={host} />}
      <StateTiles list={list} />
      <div class="overview">
        <section aria-labelledby="now-title">
          <h2 id="now-title">Running and waiting now</h2>
          <Now list={list} />
        </section>
        <section aria-labelledby="failed-title">
          <h2 id="failed-title">Failed in the last 24 hours</h2>
          {view.failed.value !== undefined && (
            <Failed jobs={view.failed.value} hours={view.hours.value ?? []} />
          )}
          <h2>Jobs per hour</h2>
          {view.hours.value !== undefined && <Sparkline hours={view.hours.value} />}
        </section>
      </div>
      <section class="overview-host" aria-labelledby="host-title">
        <h2 id="host-title">Host</h2>
        {host === undefined
          ? <p class="muted" role="status">Asking the host</p>
          : <HostFacts host={host} />}
      </section>
    </>
  );
}

const MODE_STATES: Readonly<Record<HostPage["mode"], string>> = {
  simulated: "waiting",
  ssh: "running",
  local: "succeeded",
};

function Head({ host }: { host: HostPage | undefined }): JSX.Element {
  if (host === undefined) return <h1>Overview</h1>;
  const { mode, name, system: { value: system } } = host;
  const facts = [
    system?.platform === name ? null : system?.platform,
    isThere(system?.cpus) ? `${system.cpus} cpus` : null,
    isThere(system?.ram_mib) ? mibText(system.ram_mib) : null,
  ].filter(isThere);
  return (
    <div>
      <h1>
        {titleOf(system?.hostname ?? name, mode)}{" "}
        <span class={`badge state-${MODE_STATES[mode]}`}>{modeText(host)}</span>
      </h1>
      <p class="muted">
        {facts.join(", ")}
        {facts.length > 0 && " · "}zonewright {host.version}, started <Time at={host.started_at} />
      </p>
    </div>
  );
}

/** A simulated host has no name besides its mode, which the badge shows. */
function titleOf(name: string, mode: HostPage["mode"]): string {
  return name === mode ? "Overview" : name;
}

/** Warnings about what keeps jobs from running; others are less urgent. */
const BLOCKING_WARNINGS: readonly string[] = ["store", "disk", "host", "pool_low"];

type HostWarning = HostPage["warnings"][number];

/** An unreachable host is one warning, however many of its parts cannot be read. */
function Warnings({ host: { warnings } }: { host: HostPage }): JSX.Element {
  const isPart = ({ code }: HostWarning) => code.endsWith("_unread");
  const reached = !warnings.some(({ code }) => code === "host");
  const parts = reached ? [] : warnings.filter(isPart);
  return (
    <>
      {warnings.filter((warning) => reached || !isPart(warning)).map((warning) => (
        <Warning
          key={warning.code}
          warning={warning}
          parts={warning.code === "host" ? parts : []}
        />
      ))}
    </>
  );
}

interface WarningProps {
  readonly warning: HostWarning;
  /** The parts of the host that could not be read for that reason. */
  readonly parts: readonly HostWarning[];
}

function Warning({ warning, parts }: WarningProps): JSX.Element {
  const { code, message, hint } = warning;
  const [program, ...words] = hint.split(" ");
  const command = program === "zonewright" ? cliOf(words) : undefined;
  return (
    <Banner
      kind={BLOCKING_WARNINGS.includes(code) ? "bad" : "warn"}
      title={message.charAt(0).toUpperCase() + message.slice(1)}
    >
      {code === "leftovers"
        ? <a href="/ui/machines#leftovers">See leftovers</a>
        : code === "index"
        ? <a href="/ui/images">See why</a>
        : command === undefined
        ? <p>{hint.charAt(0).toUpperCase() + hint.slice(1)}.</p>
        : (
          <p>
            See{" "}
            <Copy text={command} label="command">
              <code>{command}</code>
            </Copy>
          </p>
        )}
      {parts.length > 0 && (
        <details>
          <summary>{parts.length} parts of the host could not be read</summary>
          <ul class="problems">
            {parts.map(({ code, message }) => <li key={code}>{message}</li>)}
          </ul>
        </details>
      )}
    </Banner>
  );
}

function StateTiles({ list }: { list: JobList }): JSX.Element {
  const counts = list.counts.value?.of;
  return (
    <ul class="tiles">
      {STATES.map((state) => (
        <li key={state}>
          <a class={`tile tile-${state}`} href={`/ui/jobs?state=${state}`}>
            <span class="tile-count">{counts?.[state]?.toLocaleString("en") ?? "–"}</span>
            <span class="tile-title">{state}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

/** Most jobs that are drawn; the list of jobs has the others. */
const CARDS_MAX = 24;

function Now({ list }: { list: JobList }): JSX.Element {
  const jobs = list.rows.value;
  if (jobs.length === 0) {
    if (list.status.value === "loading") return <p class="muted" role="status">Loading</p>;
    return (
      <Empty title="Nothing is running" command={cliOf(RUN_WORDS)}>
        <p class="muted">
          {mayChange()
            ? (
              <>
                <a href="/ui/workflows">Run a workflow</a>, or from a terminal:
              </>
            )
            : "Run a workflow from a terminal:"}
        </p>
      </Empty>
    );
  }
  const running = jobs.filter(({ state }) => state === "running");
  const shown = [...running, ...jobs.filter(({ state }) => state !== "running")];
  return (
    <>
      <ul class="cards">
        {shown.slice(0, CARDS_MAX).map((job) => <JobCard key={job.uuid} job={job} />)}
      </ul>
      {(shown.length > CARDS_MAX || list.status.value === "more") && (
        <p>
          <a href="/ui/jobs?state=running">Show all running</a>
        </p>
      )}
    </>
  );
}

function JobCard({ job }: { job: JobSummary }): JSX.Element {
  const { task, tasks_done, tasks_total } = job;
  const seconds = durationOf(job);
  const about = job.machine?.alias ?? job.target;
  return (
    <li class="card">
      <div class="card-head">
        <a class="job-link" href={`/ui/jobs/${job.uuid}`}>{job.name}</a>
        <Badge state={job.state} reason={job.reason} />
      </div>
      <p class="card-step">
        <span class="cut">{task?.name ?? REASONS[job.reason ?? ""] ?? "not started"}</span>
        <span class="muted number">{Math.min(tasks_done + 1, tasks_total)}/{tasks_total}</span>
      </p>
      <Progress
        done={tasks_done}
        total={tasks_total}
        label={`Completed tasks of ${job.name}`}
      />
      <p class="muted cut">
        <HostBefore of={job} end=" · " />
        {about !== null && <>{about} ·{" "}</>}
        created <Time at={job.created_at} />
        {seconds !== null && <>{" "}· {spanText(seconds)} so far</>}
      </p>
    </li>
  );
}

interface FailedProps {
  readonly jobs: readonly JobSummary[];
  readonly hours: readonly { readonly failed: number }[];
}

function Failed({ jobs, hours }: FailedProps): JSX.Element {
  if (jobs.length === 0) return <p class="muted">None</p>;
  const total = hours.reduce((sum, { failed }) => sum + failed, 0);
  return (
    <>
      <ul class="failures">
        {jobs.map(({ uuid, name, task, error, finished_at, host, host_uuid }) => (
          <li key={uuid}>
            <p class="failure-head">
              <a class="job-link" href={`/ui/jobs/${uuid}`}>{name}</a>
              <span class="muted">
                <HostBefore of={{ host, host_uuid }} end=", " />
                {task !== null && <>in {task.name},{" "}</>}
                {finished_at !== null && <Time at={finished_at} />}
              </span>
            </p>
            <p class="step-error cut-late" title={error ?? undefined}>{error}</p>
          </li>
        ))}
      </ul>
      {total > jobs.length && (
        <p>
          <a href="/ui/jobs?state=failed">Show all failed</a>
        </p>
      )}
    </>
  );
}

type Hours = Schemas["HourlyStats"]["hours"];

/** The outcomes that are drawn, from the bottom up. */
const OUTCOMES = ["succeeded", "canceled", "failed"] as const;
const BAR_WIDTH = 10;
const BAR_GAP = 3;
const HEIGHT = 56;
/** Smallest height of a bar that is not zero, so that it stays visible. */
const HEIGHT_MIN = 3;

/** How jobs ended, hour by hour, as a row of small bars; screen readers get the sums. */
function Sparkline({ hours }: { hours: Hours }): JSX.Element {
  const totals = hours.map((hour) => OUTCOMES.reduce((sum, outcome) => sum + hour[outcome], 0));
  const most = Math.max(1, ...totals);
  const width = hours.length * (BAR_WIDTH + BAR_GAP) - BAR_GAP;
  return (
    <figure class="spark">
      <svg
        viewBox={`0 0 ${width} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={sumText(hours)}
      >
        {hours.map((hour, at) => (
          <HourBar key={hour.hour} hour={hour} left={at * (BAR_WIDTH + BAR_GAP)} most={most} />
        ))}
      </svg>
      <figcaption>
        <span>{hours.length - 1} hours ago</span>
        <span>{sumText(hours)}</span>
        <span>now</span>
      </figcaption>
    </figure>
  );
}

interface HourBarProps {
  readonly hour: Hours[number];
  readonly left: number;
  readonly most: number;
}

function HourBar({ hour, left, most }: HourBarProps): JSX.Element {
  let top = HEIGHT;
  const words = OUTCOMES.filter((outcome) => hour[outcome] > 0)
    .map((outcome) => `${hour[outcome].toLocaleString("en")} ${outcome}`);
  const time = new Date(hour.hour).toLocaleTimeString("sv", { hour: "2-digit", minute: "2-digit" });
  return (
    <g>
      <title>{`${time}: ${words.length === 0 ? "none" : words.join(", ")}`}</title>
      <rect class="spark-none" x={left} y={0} width={BAR_WIDTH} height={HEIGHT} />
      {OUTCOMES.map((outcome) => {
        if (hour[outcome] === 0) return null;
        const height = Math.max(HEIGHT_MIN, HEIGHT * hour[outcome] / most);
        top = Math.max(0, top - height);
        return (
          <rect
            key={outcome}
            class={`spark-${outcome}`}
            x={left}
            y={top}
            width={BAR_WIDTH}
            height={height}
          />
        );
      })}
    </g>
  );
}

function sumText(hours: Hours): string {
  const words = OUTCOMES.toReversed().flatMap((outcome) => {
    const sum = hours.reduce((total, hour) => total + hour[outcome], 0);
    return sum === 0 ? [] : [`${sum.toLocaleString("en")} ${outcome}`];
  });
  return words.length === 0 ? "no jobs finished" : words.join(", ");
}
