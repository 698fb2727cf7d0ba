// Orders a machine: the dry run of a draft, and the request itself, which creates one machine however often
// it is sent. Then shows the steps of its job, live, and its screen as soon as it runs.

import { signal } from "@preact/signals";
import { type Call, fieldErrorsOf, pause, send, statusOf, wordsOf } from "../../client/client.ts";
import type { Answers, Schemas } from "../../client/schema.ts";
import { announce, go, nameTab } from "../../browser.ts";
import { type Draft, forgetDraft, type JsonObject } from "./draft.ts";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { Banner } from "../../part/controls.tsx";
import { Badge, clock, durationOf, Progress, spanText } from "../../part/shown.tsx";
import { type JobView, openJobView } from "../job/job_view.ts";
import { Log, progressText } from "../job/log.tsx";
import { Reason } from "../job/reason.tsx";
import { Timeline } from "../job/task_lines.tsx";

/** Why a request is refused, in one line, and the field concerned. */
export interface Refusal {
  readonly message: string;
  /** Path of the field in the request; undefined when no field is named. */
  readonly field?: string;
}

/** The state of the draft's dry run or order. */
type OrderState =
  | { readonly kind: "writing" }
  | { readonly kind: "checking" }
  /** `unchecked`: what the host could not check. Sizes in bytes. */
  | {
    readonly kind: "possible";
    readonly medium: Schemas["MachineDryRun"]["medium"];
    readonly unchecked: readonly string[];
  }
  | { readonly kind: "refused"; readonly refusals: readonly Refusal[] }
  /** `cuts`: attempts without an answer; the order is sent again. */
  | { readonly kind: "sending"; readonly cuts: number }
  | { readonly kind: "made"; readonly uuid: string; readonly job_uuid: string };

const PATH = "/agent/v1/machines";
const KEY_BYTES = 16;
/** Milliseconds before an order without an answer is sent again; doubled after each attempt. */
const RESEND_FIRST_MS = 500;
const RESEND_MAX_MS = 5_000;
/** Milliseconds without an edit after which a draft that was checked before is checked again. */
const QUIET_MS = 700;

/** Checks and sends a draft. */
export function openOrder(draft: Draft) {
  const state = signal<OrderState>({ kind: "writing" });
  /** Every refusal by its field, until the next answer. */
  const errors = signal<ReadonlyMap<string, string>>(new Map());
  const closing = new AbortController();
  const callOf = openCalls(draft);
  let checks = 0;
  let timer: number | undefined;

  /** Cancels the previous check. @returns whether the draft can be sent */
  const begin = () => {
    clearTimeout(timer);
    checks += 1;
    return !isBusy(state.value) && draft.problem.value === undefined;
  };
  const settle = (found: OrderState) => {
    errors.value = errorsOf(found);
    state.value = found;
    if (found.kind === "possible") announce("The request would be accepted");
    if (found.kind !== "refused") return;
    announce(`Refused: ${found.refusals.map(({ message }) => message).join("; ")}`);
  };
  const check = async () => {
    if (!begin()) return;
    const mine = checks;
    state.value = { kind: "checking" };
    const found = await dryRun(draft, closing.signal);
    if (mine === checks && !closing.signal.aborted) settle(found);
  };
  const create = async () => {
    if (!begin()) return;
    const onCut = (cuts: number) => state.value = { kind: "sending", cuts };
    onCut(0);
    const found = await placed(callOf(), closing.signal, onCut);
    if (!closing.signal.aborted) settle(found);
  };
  return {
    state,
    errors,
    callOf,
    check,
    create,
    /** A draft that was checked once is checked again after a change. */
    changed() {
      clearTimeout(timer);
      if (state.value.kind === "writing" || isBusy(state.value)) return;
      checks += 1;
      timer = setTimeout(() => void check(), QUIET_MS);
    },
    close() {
      clearTimeout(timer);
      closing.abort();
    },
  };
}

/** The call for a dry run of a draft. */
export function dryRunOf(draft: Draft): Call {
  const body = { ...bodyOf(draft.request.value), dry_run: true };
  return { method: "POST", path: PATH, body };
}

/** The result of a dry run. */
async function dryRun(
  draft: Draft,
  signal: AbortSignal,
): Promise<OrderState & { readonly kind: "possible" | "refused" }> {
  try {
    const answer = await ordered(dryRunOf(draft), signal);
    if (!("dry_run" in answer)) {
      throw new Error("The agent has made a machine, expected the result of a dry run");
    }
    const { medium, unchecked, problems } = answer;
    if (problems.length === 0) return { kind: "possible", medium, unchecked };
    return { kind: "refused", refusals: problems.flatMap(refusalsOf) };
  } catch (error) {
    return { kind: "refused", refusals: refusalsIn(error) };
  }
}

/** Makes the call of the draft. @returns the same idempotency key as long as the request stays the same */
function openCalls(draft: Draft): () => Call {
  let key = { text: "", value: "" };
  return () => {
    const body = bodyOf(draft.request.value);
    const text = JSON.stringify(body);
    if (key.text !== text) key = { text, value: newKey() };
    return { method: "POST", path: PATH, body, headers: { "idempotency-key": key.value } };
  };
}

/** Sends an order until it is answered. If an answer was lost, the agent recognizes the key. */
async function placed(
  call: Call,
  signal: AbortSignal,
  onCut: (cuts: number) => void,
): Promise<OrderState & { readonly kind: "made" | "refused" }> {
  // Ends with an answer, or when the page is left.
  for (let cuts = 1;; cuts++) {
    try {
      const made = await ordered(call, signal);
      if ("dry_run" in made) {
        throw new Error("The agent has answered with the result of a dry run, expected a machine");
      }
      return { kind: "made", uuid: made.uuid, job_uuid: made.job_uuid };
    } catch (error) {
      if (statusOf(error) !== 0) return { kind: "refused", refusals: refusalsIn(error) };
    }
    onCut(cuts);
    await pause(Math.min(RESEND_FIRST_MS * 2 ** cuts, RESEND_MAX_MS), signal);
  }
}

async function ordered(call: Call, signal: AbortSignal) {
  return await send(call, signal) as Answers["POST /agent/v1/machines"];
}

/** What openOrder() returns. @see openOrder */
export type Order = ReturnType<typeof openOrder>;

/** Whether an order is being sent. */
export function isBusy({ kind }: OrderState): boolean {
  return kind === "sending" || kind === "made";
}

/** The request without `dry_run`. */
function bodyOf({ dry_run: _, ...request }: JsonObject): JsonObject {
  return request;
}

/** A random key; randomUUID() is missing on pages without TLS. */
function newKey(): string {
  return crypto.getRandomValues(new Uint8Array(KEY_BYTES))
    .reduce((text, byte) => text + byte.toString(16).padStart(2, "0"), "");
}

function refusalsIn(error: unknown): readonly Refusal[] {
  return refusalsOf({ message: wordsOf(error), errors: fieldErrorsOf(error) });
}

/** One entry for each named field, or one for all. */
function refusalsOf(
  { message, errors }: {
    readonly message: string;
    readonly errors: readonly Schemas["FieldError"][];
  },
): readonly Refusal[] {
  if (errors.length === 0) return [{ message }];
  return errors.map(({ field, message: words }) => ({ field, message: words }));
}

function errorsOf(state: OrderState): ReadonlyMap<string, string> {
  const refusals = state.kind === "refused" ? state.refusals : [];
  return new Map(
    refusals.flatMap(({ field, message }) =>
      field === undefined ? [] : [[field, message] as const]
    ),
  );
}

interface MakingProps {
  readonly job_uuid: string;
  readonly machine_uuid: string;
}

/** The job of an order; once the machine runs, its page replaces this one. */
export function Making({ job_uuid, machine_uuid }: MakingProps): JSX.Element {
  const view = useMemo(() => openJobView(job_uuid), [job_uuid]);
  useEffect(() => () => view.close(), [view]);
  const job = view.summary.value;
  const whole = view.whole.value;
  const name = job?.machine?.alias ?? "the machine";
  useEffect(() => {
    if (job === undefined) return;
    nameTab(`${job.state}: ${name}`, job.state);
    if (job.state !== "succeeded") return;
    forgetDraft();
    announce(`${name} runs`);
    go(`/machines/${machine_uuid}`, "replace");
  }, [job?.state, name]);
  return (
    <>
      <p class="crumbs">
        <a href="/ui/machines">Machines</a>
      </p>
      <div class="page-head">
        <h1>
          Making {name} {job !== undefined && <Badge state={job.state} reason={job.reason} />}
        </h1>
      </div>
      {view.error.value !== undefined && <Banner kind="bad" title={view.error.value} />}
      {job === undefined ? <p class="muted loading" role="status">Loading</p> : (
        <>
          <Reason job={job} />
          <Step job={job} />
          {job.finished_at !== null && job.state !== "succeeded" && <Ended job={job} />}
        </>
      )}
      {job !== undefined && whole !== undefined && (
        <Timeline
          job={job}
          whole={whole}
          nowMs={job.finished_at === null ? clock.value : 0}
        />
      )}
      {job !== undefined && <Log view={view} />}
    </>
  );
}

function Step({ job }: { job: JobView }): JSX.Element | null {
  if (job.finished_at !== null) return null;
  const { task, tasks_done, tasks_total, progress } = job;
  const seconds = durationOf(job);
  return (
    <div class="making-step">
      <p role="status">
        {task?.name ?? "not started"}, {tasks_done} of {tasks_total} tasks
      </p>
      {progress !== null && (
        <>
          <Progress
            done={Number(progress.done ?? 0)}
            total={typeof progress.total === "number" ? progress.total : undefined}
            label={progressText(progress)}
          />
          <span class="muted number">{progressText(progress)}</span>
        </>
      )}
      {seconds !== null && <span class="muted number">{spanText(seconds)}</span>}
      <span class="muted">The screen opens here automatically.</span>
    </div>
  );
}

function Ended({ job }: { job: JobView }): JSX.Element {
  return (
    <p>
      <a class="button button-primary" href="/ui/new">Change the request</a>{" "}
      <a class="button button-plain" href={`/ui/jobs/${job.uuid}`}>Open the job</a>
    </p>
  );
}
