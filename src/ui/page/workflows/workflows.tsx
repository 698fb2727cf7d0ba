// The workflows of the agent, and a new one from its JSON.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { type Call, cliOf, curlOf, mayChange, send, wordsOf } from "../../client/client.ts";
import { Banner, Button, Empty, SearchField, searchText, Terminal } from "../../part/controls.tsx";
import { Uuid } from "../../part/shown.tsx";
import { announce, go, nameTab, place, setQuery } from "../../browser.ts";
import {
  CREATE_WORDS,
  openWorkflowList,
  validate,
  validateCallOf,
  type Workflow,
} from "./workflow_view.ts";
import type { Schemas } from "../../client/schema.ts";

/** Every workflow; those of the agent itself on request. */
export function WorkflowsPage(): JSX.Element {
  useEffect(() => nameTab("Workflows"), []);
  const builtin = place.value.query.get("builtin") === "true";
  const list = useMemo(() => openWorkflowList(builtin), [builtin]);
  useEffect(() => () => list.close(), [list]);
  const writes = useSignal(false);
  const workflows = list.workflows.value;
  return (
    <>
      <div class="page-head">
        <h1>Workflows</h1>
        {mayChange() && <Button onClick={() => writes.value = true}>New workflow…</Button>}
      </div>
      {writes.value && <NewWorkflow onClose={() => writes.value = false} />}
      {list.error.value !== undefined && <Banner kind="bad" title={list.error.value} />}
      <form class="filter" role="search" onSubmit={(event) => event.preventDefault()}>
        <SearchField placeholder="Search name, task" />
        <label class="check">
          <input
            type="checkbox"
            checked={builtin}
            onChange={(event) => setQuery({ builtin: event.currentTarget.checked ? "true" : null })}
          />
          <span>Show built-in workflows</span>
        </label>
      </form>
      {workflows === undefined
        ? list.error.value === undefined && <p class="muted loading" role="status">Loading</p>
        : <Workflows workflows={workflows} />}
    </>
  );
}

function Workflows({ workflows }: { workflows: readonly Workflow[] }): JSX.Element {
  const search = searchText().trim().toLowerCase();
  if (workflows.length === 0) {
    return (
      <Empty
        title="There are no workflows yet"
        command={cliOf(CREATE_WORDS)}
      >
        <p class="muted">
          A workflow is a chain of tasks. {mayChange() ? "Create one above, or from" : "From"}{" "}
          a file:
        </p>
      </Empty>
    );
  }
  const shown = workflows.filter(({ name, chain }) =>
    [name, ...chain.map((task) => task.name ?? "")].some((text) =>
      text.toLowerCase().includes(search)
    )
  );
  if (shown.length === 0) {
    return (
      <Empty title="No workflows match">
        <p>
          <a href="/ui/workflows">Show all workflows</a>
        </p>
      </Empty>
    );
  }
  return (
    <ul class="workflows">
      {shown.map(({ uuid, name, chain }) => (
        <li key={uuid}>
          <a class="job-link" href={`/ui/workflows/${uuid}`}>{name}</a>
          <Uuid uuid={uuid} of={name} />
          <span class="muted cut">
            {chain.length === 0 ? "no task" : chain.map((task) => task.name ?? "task").join(" → ")}
          </span>
          <a href={`/ui/jobs?name=${encodeURIComponent(name)}`} aria-label={`Jobs of ${name}`}>
            Jobs
          </a>
        </li>
      ))}
    </ul>
  );
}

const EXAMPLE = `{
  "name": "hello",
  "chain": [
    {
      "name": "greet",
      "body": "(job, cb) => { log.info('hello', { to: job.params.to }); cb(null, 'said'); }"
    }
  ]
}`;

/** The agent's judgement of the text: what it would store, or why not. */
type Verdict = { readonly kind: "good" | "bad"; readonly title: string };

/**
 * Creates a workflow from its JSON; the agent checks it first. The form stays open until it is
 * closed.
 */
function NewWorkflow({ onClose }: { onClose: () => void }): JSX.Element {
  const text = useSignal(EXAMPLE);
  const said = useSignal<Verdict | undefined>(undefined);
  const parsed = jsonOf(text.value);
  const call: Call = { method: "POST", path: "/workflows", body: parsed };
  const asked = async (work: () => Promise<Verdict>) => {
    try {
      if (parsed === undefined) JSON.parse(text.value);
      said.value = await work();
    } catch (failure) {
      said.value = { kind: "bad", title: wordsOf(failure) };
    }
  };
  const check = () =>
    asked(async () => {
      const { name, tasks } = await validate(parsed);
      return {
        kind: "good",
        title: `"${name}" is valid: ${tasks} ${tasks === 1 ? "task" : "tasks"}`,
      };
    });
  const create = () =>
    asked(async () => {
      const { uuid, name } = await send(call) as Schemas["Workflow"];
      announce(`${name} was created`);
      go(`/workflows/${uuid}`);
      return { kind: "good", title: `${name} was created` };
    });
  return (
    <section class="card new-workflow" aria-label="New workflow">
      <label class="field">
        <span>Workflow, as JSON</span>
        <textarea
          rows={14}
          spellcheck={false}
          value={text}
          onInput={(event) => {
            text.value = event.currentTarget.value;
            said.value = undefined;
          }}
        />
      </label>
      <div class="verdict" role="status">
        {said.value !== undefined && <Banner kind={said.value.kind} title={said.value.title} />}
      </div>
      <div class="actions">
        <Button kind="primary" onClick={create}>Create</Button>
        <Button onClick={check}>Validate</Button>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      <Terminal cli={cliOf(CREATE_WORDS)} curl={curlOf(call)} />
      <Terminal
        title="Validate it from a terminal"
        cli="zonewright workflow validate -f workflow.json"
        curl={curlOf(validateCallOf(parsed))}
      />
    </section>
  );
}

/** @returns undefined for what is not JSON */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The error is shown when the user asks for the check.
    return undefined;
  }
}
