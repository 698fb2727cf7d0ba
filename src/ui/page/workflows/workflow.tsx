// One workflow: its tasks with their sources, the form that runs it, and its newest jobs.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { type Call, cliOf, curlOf, mayChange, send, wordsOf } from "../../client/client.ts";
import type { Schemas } from "../../client/schema.ts";
import { Banner, type BannerKind, Button, Dialog, Empty, Terminal } from "../../part/controls.tsx";
import { isThere, JobLines, Source, spanText, Uuid, valueText } from "../../part/shown.tsx";
import { announce, go, nameTab, type PageProps } from "../../browser.ts";
import {
  openWorkflow,
  type ParamField,
  paramFieldsOf,
  validate,
  validateCallOf,
  type Workflow,
} from "./workflow_view.ts";

/** Shows the tasks and newest jobs of a workflow, and runs, checks or deletes it. */
export function WorkflowPage({ params: { uuid = "" } }: PageProps): JSX.Element {
  const view = useMemo(() => openWorkflow(uuid), [uuid]);
  useEffect(() => () => view.close(), [view]);
  const workflow = view.workflow.value;
  const jobs = view.jobs.value;
  useEffect(() => nameTab(workflow?.name ?? "Workflow"), [workflow?.name]);
  return (
    <>
      <p class="crumbs">
        <a href="/ui/workflows">Workflows</a>
      </p>
      {workflow === undefined && view.error.value !== undefined && <h1>Workflow</h1>}
      {view.error.value !== undefined && <Banner kind="bad" title={view.error.value} />}
      {workflow === undefined
        ? view.error.value === undefined && <p class="muted loading" role="status">Loading</p>
        : (
          <>
            <Head workflow={workflow} />
            {mayChange() && jobs !== undefined && (
              <RunForm workflow={workflow} fields={paramFieldsOf(jobs)} />
            )}
            <Chains workflow={workflow} />
            {jobs !== undefined && jobs.length > 0 && <Jobs workflow={workflow} jobs={jobs} />}
          </>
        )}
    </>
  );
}

function Head({ workflow }: { workflow: Workflow }): JSX.Element {
  const { uuid, name, timeout, secret_params = [] } = workflow;
  const removes = useSignal(false);
  const said = useSignal<{ kind: BannerKind; title: string } | undefined>(undefined);
  const check = async () => {
    try {
      const { tasks } = await validate(workflow);
      said.value = { kind: "good", title: `Valid for this agent: ${tasks} tasks` };
    } catch (failure) {
      said.value = { kind: "bad", title: wordsOf(failure) };
    }
  };
  return (
    <>
      <div class="page-head">
        <h1>{name}</h1>
        {mayChange() && (
          <div class="actions">
            <Button onClick={check}>Validate</Button>
            <Button kind="danger" onClick={() => removes.value = true}>Delete…</Button>
          </div>
        )}
      </div>
      <div class="verdict" role="status">
        {said.value !== undefined && <Banner kind={said.value.kind} title={said.value.title} />}
      </div>
      <dl class="facts">
        <div>
          <dt>Workflow</dt>
          <dd>
            <Uuid uuid={uuid} of={name} />
          </dd>
        </div>
        {isThere(timeout) && (
          <div>
            <dt>Timeout</dt>
            <dd class="number">{spanText(timeout)}</dd>
          </div>
        )}
        {secret_params.length > 0 && (
          <div>
            <dt>Secret params</dt>
            <dd>{secret_params.join(", ")}</dd>
          </div>
        )}
      </dl>
      {mayChange() && (
        <Terminal
          title="Validate it from a terminal"
          cli={`${cliOf(["workflow", "get", uuid, "--json"])} | zonewright workflow validate -f -`}
          curl={curlOf(validateCallOf(workflow))}
        />
      )}
      {removes.value && <RemovalDialog workflow={workflow} onClose={() => removes.value = false} />}
    </>
  );
}

function RemovalDialog(
  { workflow: { uuid, name }, onClose }: { workflow: Workflow; onClose: () => void },
): JSX.Element {
  const call: Call = { method: "DELETE", path: `/workflows/${uuid}` };
  return (
    <Dialog
      title={`Delete ${name}?`}
      verb={`Delete ${name}`}
      danger
      curl={curlOf(call)}
      cli={cliOf(["workflow", "delete", uuid, "--yes"])}
      onConfirm={async () => {
        await send(call);
        announce(`${name} is deleted`);
        go("/workflows");
      }}
      onClose={onClose}
    >
      <p class="muted">Its jobs stay: each has its own copy of the tasks. This cannot be undone.</p>
    </Dialog>
  );
}

/** The purpose of each chain. */
const PHASES: Readonly<Record<string, string>> = {
  chain: "Tasks",
  onerror: "If a task fails (onerror)",
  oncancel: "If it is canceled (oncancel)",
};

function Chains({ workflow }: { workflow: Workflow }): JSX.Element {
  const { chain, onerror, oncancel = [] } = workflow;
  return (
    <>
      {Object.entries({ chain, onerror, oncancel }).map(([phase, tasks]) =>
        tasks.length > 0 && (
          <section key={phase} class="chain" aria-label={phase}>
            <h2>{PHASES[phase]}</h2>
            <div class="timeline">
              {tasks.map((task, at) => <TaskSource key={task.uuid} task={task} open={at === 0} />)}
            </div>
          </section>
        )
      )}
      {chain.length === 0 && <Empty title="Its chain has no tasks" />}
    </>
  );
}

function TaskSource({ task, open }: { task: Schemas["Task"]; open: boolean }): JSX.Element {
  const { uuid, name, body, fallback, retry, timeout } = task;
  const facts = [
    retry === undefined ? null : `retry ${retry}`,
    isThere(timeout) ? `timeout ${spanText(timeout)}` : null,
    fallback === undefined ? null : "has a fallback",
  ].filter(isThere);
  return (
    <details class="task" open={open}>
      <summary class="chain-task">
        <span class="task-name">{name ?? uuid}</span>
        <span class="muted">{facts.join(", ")}</span>
      </summary>
      <div class="task-detail">
        <Source text={body} label={`Source of ${name ?? uuid}`} />
        {fallback !== undefined && (
          <>
            <h3>Fallback</h3>
            <Source text={fallback} label={`Fallback of ${name ?? uuid}`} />
          </>
        )}
      </div>
    </details>
  );
}

interface JobsProps {
  readonly workflow: Workflow;
  readonly jobs: readonly Schemas["JobSummary"][];
}

/** Jobs to show; the list of jobs has all of them. */
const LINES_SHOWN = 10;

function Jobs({ workflow: { name }, jobs }: JobsProps): JSX.Element {
  return (
    <section class="machine-jobs" aria-label="Its jobs">
      <h2>Latest jobs</h2>
      <JobLines jobs={jobs.slice(0, LINES_SHOWN)} />
      <p>
        <a href={`/ui/jobs?name=${encodeURIComponent(name)}`}>All jobs of this workflow</a>
      </p>
    </section>
  );
}

interface RunFormProps {
  readonly workflow: Workflow;
  readonly fields: readonly ParamField[];
}

/**
 * Runs a workflow, and then shows the new job. It has a field for each param that its jobs had, or
 * all params as JSON.
 */
function RunForm({ workflow, fields }: RunFormProps): JSX.Element {
  const asJson = useSignal(fields.length === 0);
  const values = useSignal<Readonly<Record<string, string>>>(
    Object.fromEntries(fields.map(({ name, value }) => [name, valueText(value)])),
  );
  const json = useSignal("{}");
  const target = useSignal("");
  const error = useSignal<string | undefined>(undefined);
  const params = asJson.value ? json.value : JSON.stringify(paramsOf(values.value));
  const call = callOf(workflow.uuid, params, target.value);
  const run = async (event: Event) => {
    event.preventDefault();
    error.value = undefined;
    try {
      JSON.parse(params);
      const { uuid } = await send(call) as { readonly uuid: string };
      announce(`A job of ${workflow.name} was created`);
      go(`/jobs/${uuid}`);
    } catch (failure) {
      error.value = wordsOf(failure);
    }
  };
  return (
    <form class="card run-form" onSubmit={run} aria-label={`Run ${workflow.name}`}>
      <h2>Run</h2>
      {fields.length > 0 && (
        <JsonSwitch
          on={asJson.value}
          onChange={(on) => {
            asJson.value = on;
            if (on) json.value = JSON.stringify(paramsOf(values.value), null, 2);
          }}
        />
      )}
      <div class="run-fields">
        <TargetField target={target} />
        {asJson.value ? <JsonField text={json} /> : (
          <ParamInputs
            workflow={workflow}
            values={values}
            names={fields.map(({ name }) => name)}
          />
        )}
      </div>
      {error.value !== undefined && (
        <div role="alert">
          <Banner kind="bad" title={error.value} />
        </div>
      )}
      <div class="actions">
        <Button kind="primary" type="submit">Run</Button>
      </div>
      <Terminal cli={cliOf(wordsFor(workflow.name, params, target.value))} curl={curlOf(call)} />
    </form>
  );
}

function JsonSwitch(
  { on, onChange }: { on: boolean; onChange: (on: boolean) => void },
): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={on}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>Params as JSON</span>
    </label>
  );
}

function TargetField({ target }: { target: { value: string } }): JSX.Element {
  return (
    <label class="field">
      <span>Target</span>
      <input
        type="text"
        placeholder="none"
        value={target.value}
        onInput={(event) => target.value = event.currentTarget.value}
      />
    </label>
  );
}

interface ParamInputsProps {
  readonly workflow: Workflow;
  readonly names: readonly string[];
  readonly values: { value: Readonly<Record<string, string>> };
}

function ParamInputs({ workflow, names, values }: ParamInputsProps): JSX.Element {
  return (
    <>
      {names.map((name) => {
        const shared = {
          autocomplete: "off",
          value: values.value[name] ?? "",
          onInput: ({ currentTarget }: Event & { readonly currentTarget: HTMLInputElement }) =>
            values.value = { ...values.value, [name]: currentTarget.value },
        } as const;
        return (
          <label key={name} class="field">
            <span>{name}</span>
            {workflow.secret_params?.includes(name) === true
              ? <input type="password" {...shared} />
              : <input type="text" {...shared} />}
          </label>
        );
      })}
    </>
  );
}

function JsonField({ text }: { text: { value: string } }): JSX.Element {
  return (
    <label class="field run-json">
      <span>Params, as JSON</span>
      <textarea
        rows={5}
        spellcheck={false}
        value={text.value}
        onInput={(event) => text.value = event.currentTarget.value}
      />
    </label>
  );
}

/** A typed value: JSON if it is a number, a list or the like, else the text. An empty field is not a param. */
function paramsOf(values: Readonly<Record<string, string>>): Record<string, unknown> {
  const typed = Object.entries(values).filter(([, text]) => text !== "");
  return Object.fromEntries(typed.map(([name, text]) => [name, valueIn(text)]));
}

function valueIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Most params are plain words.
    return text;
  }
}

function callOf(workflow: string, params: string, target: string): Call {
  const given = valueIn(params);
  const body = {
    ...(typeof given === "object" && given !== null ? given : {}),
    ...(target === "" ? {} : { target }),
    workflow,
  };
  return { method: "POST", path: "/jobs", body };
}

function wordsFor(name: string, params: string, target: string): string[] {
  const words = ["job", "run", name];
  for (const [key, value] of Object.entries(valueIn(params) ?? {})) {
    words.push(
      "-p",
      typeof value === "string" ? `${key}=${value}` : `${key}:=${JSON.stringify(value)}`,
    );
  }
  if (target !== "") words.push("--target", target);
  return [...words, "--follow"];
}
