// One job: first why it failed or waits, then the times of its tasks, its log, and its contents.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { Banner, Button, Tabs } from "../../part/controls.tsx";
import { HostFact } from "../../part/hosts.tsx";
import {
  Badge,
  clock,
  durationOf,
  Json,
  Progress,
  Source,
  spanText,
  Time,
  Uuid,
} from "../../part/shown.tsx";
import { announce, nameTab, type PageProps, useStateAnnounced } from "../../browser.ts";
import { keepLive } from "../../client/events.ts";
import { Actions } from "./actions.tsx";
import { Reason } from "./reason.tsx";
import { type JobView, type OpenJobView, openJobView } from "./job_view.ts";
import { Log, progressText } from "./log.tsx";
import { Timeline } from "./task_lines.tsx";

/** The page of a job, updated live. */
export function JobPage({ params: { uuid = "" } }: PageProps): JSX.Element {
  const view = useMemo(() => openJobView(uuid), [uuid]);
  useEffect(() => () => view.close(), [view]);
  const job = view.summary.value;
  useEffect(() => {
    if (job !== undefined) nameTab(`${job.state}: ${job.name}`, job.state);
  }, [job?.state, job?.name]);
  useStateAnnounced(job?.name ?? "", job?.state);
  if (job === undefined) return <NoJob view={view} />;
  return (
    <>
      <p class="crumbs">
        <a href="/ui/jobs">Jobs</a>
      </p>
      <Head job={job} />
      {view.removed.value && <Banner kind="warn" title="This job was removed" />}
      {view.error.value !== undefined && <Banner kind="bad" title={view.error.value} />}
      <Reason job={job} />
      <Facts job={job} />
      {view.whole.value !== undefined && (
        <Timeline
          job={job}
          whole={view.whole.value}
          nowMs={job.finished_at === null ? clock.value : 0}
        />
      )}
      <Parts view={view} job={job} />
    </>
  );
}

function NoJob({ view }: { view: OpenJobView }): JSX.Element {
  const error = view.error.value;
  if (error === undefined) return <p class="muted loading" role="status">Loading</p>;
  return (
    <>
      <h1>Job</h1>
      <Banner kind="bad" title={error}>
        <a href="/ui/jobs">Show all jobs</a>
      </Banner>
    </>
  );
}

function Head({ job }: { job: JobView }): JSX.Element {
  return (
    <div class="page-head">
      <h1>
        {job.name} <Badge state={job.state} reason={job.reason} />
      </h1>
      <div class="actions">
        <Notify job={job} />
        <Actions job={job} />
      </div>
    </div>
  );
}

/** Without the failed task, which the agent counts as ended. */
function tasksDone({ state, task, tasks_done }: JobView): number {
  return state === "failed" && task?.phase === "chain" ? task.index : tasks_done;
}

function Facts({ job }: { job: JobView }): JSX.Element {
  const { progress } = job;
  const seconds = durationOf(job);
  return (
    <dl class="facts">
      <div>
        <dt>Job</dt>
        <dd>
          <Uuid uuid={job.uuid} of="this job" />
        </dd>
      </div>
      <div>
        <dt>Created</dt>
        <dd>
          <Time at={job.created_at} />
        </dd>
      </div>
      {seconds !== null && (
        <div>
          <dt>Duration</dt>
          <dd class="number">{spanText(seconds)}</dd>
        </div>
      )}
      <div>
        <dt>Tasks done</dt>
        <dd class="number">{tasksDone(job)} of {job.tasks_total}</dd>
      </div>
      {job.target !== null && (
        <div>
          <dt>Target</dt>
          <dd class="wrap">
            {job.machine === null
              ? job.target
              : <a href={`/ui/machines/${job.machine.uuid}`}>{job.machine.alias ?? job.target}</a>}
          </dd>
        </div>
      )}
      <HostFact of={job} />
      {progress !== null && job.state === "running" && (
        <div>
          <dt>{progressText(progress)}</dt>
          <dd>
            <Progress
              done={Number(progress.done ?? 0)}
              total={typeof progress.total === "number" ? progress.total : undefined}
              label={progressText(progress)}
            />
          </dd>
        </div>
      )}
    </dl>
  );
}

const PARTS = [
  { key: "log", title: "Log" },
  { key: "result", title: "Results" },
  { key: "params", title: "Params" },
  { key: "source", title: "Source" },
  { key: "json", title: "JSON" },
] as const;

function Parts({ view, job }: { view: OpenJobView; job: JobView }): JSX.Element {
  const part = useSignal<string>("log");
  return (
    <section class="parts" aria-label="Job sections">
      <Tabs
        tabs={PARTS}
        current={part.value}
        label="Part"
        controls="part"
        onChange={(key) => part.value = key}
      />
      <div id="part" role="tabpanel" aria-label={part.value}>
        {part.value === "log"
          ? <Log view={view} />
          : <Part name={part.value} view={view} job={job} />}
      </div>
    </section>
  );
}

function Part(
  { name, view, job }: { name: string; view: OpenJobView; job: JobView },
): JSX.Element {
  const whole = view.whole.value;
  if (whole === undefined) return <p class="muted">Loading</p>;
  switch (name) {
    case "params":
      return job.params === null
        ? <p class="muted">They are {job.params_bytes} bytes: see JSON.</p>
        : <Json value={job.params} label="Params, secrets masked" />;
    case "source":
      return <Source text={whole.chain.map(sourceOf).join("\n\n")} label="Task source" />;
    case "json":
      return (
        <>
          <p class="muted">
            As <code>GET /jobs/{job.uuid}</code>{" "}
            answers: to an administrator it shows params as they are.
          </p>
          <Json value={whole} label="The job as JSON" />
        </>
      );
    default:
      return (
        <Json
          value={Object.fromEntries(
            whole.chain_results.map(({ name: task, result, error }) => [task, error || result]),
          )}
          label="Task results"
        />
      );
  }
}

function sourceOf(
  { name, uuid, body, fallback }: { name?: string; uuid: string; body: string; fallback?: string },
): string {
  const head = `// ${name ?? uuid}\n`;
  return head + body +
    (fallback === undefined ? "" : `\n\n// fallback of ${name ?? uuid}\n${fallback}`);
}

/** Whether the job has ended, or waits for someone. */
function isSettled({ state, finished_at }: JobView): boolean {
  return finished_at !== null || state === "waiting";
}

/**
 * The button that asks the browser for a notification when the job has ended or waits; absent for
 * another job, and when the browser has no notifications. The browser asks for permission only
 * after a click.
 */
function Notify({ job }: { job: JobView }): JSX.Element | null {
  const wanted = useSignal(false);
  const refused = useSignal(false);
  const settled = isSettled(job);
  useEffect(() => {
    keepLive(wanted.value);
    return () => keepLive(false);
  }, [wanted.value]);
  useEffect(() => {
    if (!settled || !wanted.value) return;
    wanted.value = false;
    const notification = new Notification(`${job.state}: ${job.name}`, {
      body: job.error ?? "",
      tag: job.uuid,
    });
    notification.addEventListener("click", () => globalThis.focus());
  }, [settled]);
  if (settled || !("Notification" in globalThis)) return null;
  const ask = async () => {
    const answer = await Notification.requestPermission();
    wanted.value = answer === "granted";
    refused.value = answer === "denied";
    if (wanted.value) announce("The browser will notify you");
  };
  return (
    <Button disabled={wanted.value || refused.value} onClick={ask}>
      {wanted.value
        ? "You will be notified"
        : refused.value
        ? "Blocked by the browser"
        : "Notify me"}
    </Button>
  );
}
