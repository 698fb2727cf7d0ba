// The workflows of the agent, and a new one from its JSON.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { mayChange } from "../../client/client.ts";
import { cliOf } from "../../client/curl.ts";
import { Button } from "../../part/controls.tsx";
import { Banner, Empty } from "../../part/message.tsx";
import { Uuid } from "../../part/shown.tsx";
import { nameTab } from "../../browser/tab.ts";
import { place, setQuery } from "../../browser/route.ts";
import { NewWorkflow } from "./new_workflow.tsx";
import { CREATE_WORDS, openWorkflowList, type Workflow } from "./workflow_view.ts";

/** Every workflow; those that are part of the agent on request. */
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
        <label class="filter-search">
          <span class="sr-only">Search</span>
          <input
            type="search"
            placeholder="Search name, task"
            value={place.value.query.get("search") ?? ""}
            onInput={(event) => setQuery({ search: event.currentTarget.value })}
          />
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={builtin}
            onChange={(event) => setQuery({ builtin: event.currentTarget.checked ? "true" : null })}
          />
          <span>Built-in ones too</span>
        </label>
      </form>
      {workflows === undefined
        ? list.error.value === undefined && <p class="muted loading" role="status">Loading</p>
        : <Workflows workflows={workflows} />}
    </>
  );
}

function Workflows({ workflows }: { workflows: readonly Workflow[] }): JSX.Element {
  const search = (place.value.query.get("search") ?? "").trim().toLowerCase();
  if (workflows.length === 0) {
    return (
      <Empty
        title="There are no workflows yet"
        command={cliOf(CREATE_WORDS)}
      >
        <p class="muted">A workflow is a chain of tasks. Make one above, or from a file:</p>
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
      <Empty title="No workflow fits">
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
