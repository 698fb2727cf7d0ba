// The banner of a job: why it failed, or why it does not run, and what comes next.

import type { JSX } from "preact";
import { cliOf } from "../../client/client.ts";
import { Banner, type BannerKind, Command } from "../../part/controls.tsx";
import { exactText, shortUuid, Time } from "../../part/shown.tsx";
import type { JobView } from "./job_view.ts";

/** The banner; nothing for a job that runs or has succeeded. */
export function Reason({ job }: { job: JobView }): JSX.Element | null {
  const said = reasonOf(job);
  if (said === undefined) return <Others job={job} />;
  return (
    <>
      <Banner kind={said.kind} title={said.title}>{said.text}</Banner>
      <Others job={job} />
    </>
  );
}

interface Said {
  readonly kind: BannerKind;
  readonly title: string;
  readonly text: JSX.Element | string;
}

function reasonOf(job: JobView): Said | undefined {
  const task = job.task?.name;
  if (job.state === "failed") {
    return { kind: "bad", title: job.error ?? "The job failed", text: failedText(job) };
  }
  switch (job.reason) {
    case "scheduled":
      return { kind: "info", title: "Scheduled", text: nextText("It starts", job.next_run_at) };
    case "waiting_for_slot":
      return slotText(job);
    case "waiting_for_resume":
      return { kind: "warn", title: `${task ?? "A task"} waits for resume`, text: resumeText(job) };
    case "waiting_for_retry":
      return {
        kind: "warn",
        title: job.attempts.at(-1)?.message ?? `${task} failed`,
        text: nextText("The next attempt starts", job.task?.next_retry_at ?? null),
      };
    case "stopping":
      return job.host_state === "away" ? awayText(job, "") : {
        kind: "info",
        title: "Canceled",
        text: "Its host has yet to confirm that its task has ended.",
      };
    case "undoing":
      return job.host_state === "away"
        ? awayText(job, " Then its oncancel chain undoes what it did.")
        : { kind: "info", title: "Canceled", text: "Its oncancel chain undoes what it did." };
    default:
      return undefined;
  }
}

/** A job that could start. */
function slotText({ host, host_state }: JobView): Said {
  if (host_state === "cordoned") {
    const text = "It starts when the host is uncordoned.";
    return { kind: "warn", title: `Waiting for ${host}, which is cordoned`, text };
  }
  if (host_state === "away") {
    const text = "It starts when the host returns.";
    return { kind: "warn", title: `Waiting for ${host}, which is away`, text };
  }
  const text = "It starts when a running job ends.";
  return { kind: "info", title: "Waiting for a slot", text };
}

/** A canceled job whose host is away. @param then what happens when the host returns */
function awayText({ host }: JobView, then: string): Said {
  const text =
    `${host} hears of it first when it returns. Until it confirms that the task has ended, or is ` +
    `forgotten, the job keeps its target and its machine.${then}`;
  return { kind: "warn", title: "Canceled, but its host is away", text };
}

function failedText({ task, attempts }: JobView): string {
  if (task === null) return "";
  const tried = attempts.filter(({ index, phase }) => index === task.index && phase === task.phase);
  const times = tried.length > 1 ? `, after ${tried.length} attempts` : "";
  return `Failed in ${task.name}${times}.`;
}

function nextText(what: string, at: string | null): JSX.Element | string {
  if (at === null) return "";
  return (
    <>
      {what} <Time at={at} />, at {exactText(at)}.
    </>
  );
}

function resumeText({ uuid }: JobView): JSX.Element {
  return (
    <>
      <p>It continues when a person or a program resumes it, with Resume or from a terminal:</p>
      <Command text={cliOf(["job", "resume", uuid, "--result", "OK"])} label="as CLI" />
    </>
  );
}

/** Links to the job that this one repeats, and to the one that repeats it. */
function Others({ job: { prev_attempt, next_attempt } }: { job: JobView }): JSX.Element | null {
  if (prev_attempt === null && next_attempt === null) return null;
  return (
    <p class="muted">
      {prev_attempt !== null && (
        <>
          Repeats <a href={`/ui/jobs/${prev_attempt}`}>{shortUuid(prev_attempt)}</a>.
        </>
      )}
      {next_attempt !== null && (
        <>
          Repeated by <a href={`/ui/jobs/${next_attempt}`}>{shortUuid(next_attempt)}</a>.
        </>
      )}
    </p>
  );
}
