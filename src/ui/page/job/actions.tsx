// Actions on a job. Each is a call that any other caller can make, and its dialog shows the call.

import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { isCancelable, isRetryable, type JobState } from "../../../domain/job/state.ts";
import { type Call, cliOf, curlOf, mayChange, send } from "../../client/client.ts";
import { Button, Dialog } from "../../part/controls.tsx";
import { announce, go } from "../../browser.ts";
import type { JobView } from "./job_view.ts";

/** The fields that the rules of the agent depend on. */
type ChangedJob = Pick<JobView, "state" | "reason" | "next_attempt">;

/** A canceled job that is not at rest has a state of its own; summaries show it as the reason. */
function stateOf({ state, reason }: ChangedJob): JobState {
  return reason === "undoing" || reason === "stopping" ? reason : state;
}

/** Whether the agent would cancel a job. */
export function canCancel(job: ChangedJob): boolean {
  return isCancelable(stateOf(job));
}

/** Whether the agent would retry a job. */
export function canRetry(job: ChangedJob): boolean {
  return isRetryable(stateOf(job), job.next_attempt !== null);
}

/** The actions that the job's state allows; none for a read-only caller. */
export function Actions({ job }: { job: JobView }): JSX.Element | null {
  const open = useSignal<"cancel" | "resume" | "retry" | undefined>(undefined);
  if (!mayChange()) return null;
  const close = () => open.value = undefined;
  return (
    <div class="actions">
      {job.state === "waiting" && (
        <Button kind="primary" onClick={() => open.value = "resume"}>Resume…</Button>
      )}
      {canCancel(job) && <Button onClick={() => open.value = "cancel"}>Cancel…</Button>}
      {canRetry(job) && (
        <Button
          kind={job.state === "failed" ? "primary" : "plain"}
          onClick={() => open.value = "retry"}
        >
          Retry…
        </Button>
      )}
      {open.value === "cancel" && <CancelDialog job={job} onClose={close} />}
      {open.value === "resume" && <ResumeDialog job={job} onClose={close} />}
      {open.value === "retry" && <RetryDialog job={job} onClose={close} />}
    </div>
  );
}

interface ActionProps {
  readonly job: JobView;
  readonly onClose: () => void;
}

function CancelDialog({ job, onClose }: ActionProps): JSX.Element {
  const call: Call = { method: "POST", path: `/jobs/${job.uuid}/cancel` };
  return (
    <Dialog
      title={`Cancel this ${job.name}?`}
      verb="Cancel the job"
      danger
      curl={curlOf(call)}
      cli={cliOf(["job", "cancel", job.uuid, "--yes"])}
      onConfirm={async () => {
        await send(call);
        announce("The job is canceled");
      }}
      onClose={onClose}
    >
      <p class="muted">Its running task is stopped, and the tasks after it do not run.</p>
    </Dialog>
  );
}

/** Retries a job. @param props.from the task to begin with; without it, the whole job */
export function RetryDialog(
  { job, from, onClose }: ActionProps & {
    readonly from?: { readonly index: number; readonly name: string };
  },
): JSX.Element {
  const body = from === undefined ? {} : { from: from.index };
  const call: Call = { method: "POST", path: `/agent/v1/jobs/${job.uuid}/retry`, body };
  const words = ["job", "retry", job.uuid];
  if (from !== undefined) words.push("--from", String(from.index));
  return (
    <Dialog
      title={from === undefined ? `Retry this ${job.name}?` : `Retry from ${from.name}?`}
      verb="Retry"
      curl={curlOf(call)}
      cli={cliOf(words)}
      onConfirm={async () => {
        const { uuid } = await send(call) as { readonly uuid: string };
        announce("New job created");
        go(`/jobs/${uuid}`);
      }}
      onClose={onClose}
    >
      <p class="muted">
        {from === undefined
          ? "A new job runs all tasks with the same params."
          : "A new job keeps the results of the tasks before this one."}
      </p>
    </Dialog>
  );
}

/** A typed text: JSON if it parses, otherwise the text itself. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function ResumeDialog({ job, onClose }: ActionProps): JSX.Element {
  const outcome = useSignal<"result" | "error">("result");
  const text = useSignal("");
  const value = outcome.value === "result" ? valueOf(text.value) : text.value;
  const body = outcome.value === "result" && text.value === "" ? {} : { [outcome.value]: value };
  const call: Call = { method: "POST", path: `/jobs/${job.uuid}/resume`, body };
  const words = ["job", "resume", job.uuid];
  if (outcome.value === "error") words.push("--error", text.value);
  else if (typeof value !== "string") words.push("--result-json", JSON.stringify(value));
  else if (value !== "") words.push("--result", value);
  const choice = (key: "result" | "error", title: ComponentChildren) => (
    <label class="check">
      <input
        type="radio"
        name="outcome"
        checked={outcome.value === key}
        onChange={() => outcome.value = key}
      />
      <span>{title}</span>
    </label>
  );
  return (
    <Dialog
      title={`Resume ${job.task?.name ?? job.name}`}
      verb={outcome.value === "result" ? "Resume" : "Fail the task"}
      danger={outcome.value === "error"}
      curl={curlOf(call)}
      cli={cliOf(words)}
      onConfirm={async () => {
        await send(call);
        announce("The job continues");
      }}
      onClose={onClose}
    >
      <fieldset class="choices">
        <legend class="sr-only">Outcome of the task</legend>
        {choice("result", "It succeeded")}
        {choice("error", "It failed")}
      </fieldset>
      <label class="field">
        <span>
          {outcome.value === "result" ? "Result, as text or JSON; empty means OK" : "Error"}
        </span>
        <textarea
          rows={3}
          spellcheck={false}
          required={outcome.value === "error"}
          value={text}
          onInput={(event) => text.value = event.currentTarget.value}
        />
      </label>
    </Dialog>
  );
}
