// The form that makes a job: a field for each param that a job of the workflow had, or all of them as JSON.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { type Call, cliOf, curlOf, send, wordsOf } from "../../client/client.ts";
import { Banner, Button, Terminal } from "../../part/controls.tsx";
import { announce, go } from "../../browser.ts";
import type { ParamField, Workflow } from "./workflow_view.ts";

interface RunFormProps {
  readonly workflow: Workflow;
  readonly fields: readonly ParamField[];
}

/** Runs a workflow; what it made is shown next. */
export function RunForm({ workflow, fields }: RunFormProps): JSX.Element {
  const asJson = useSignal(fields.length === 0);
  const values = useSignal<Readonly<Record<string, string>>>(
    Object.fromEntries(fields.map(({ name, value }) => [name, textOf(value)])),
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

/** A value as a field shows it. */
function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What was typed: JSON where it is a number, a list or the like, else the text. An empty field is no param. */
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
