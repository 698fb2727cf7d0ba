// Changes to several jobs at once. Each job is changed on its own: a refusal does not affect the others.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Call, cliOf, curlOf, send, wordsOf } from "../../client/client.ts";
import { Banner, Button, Dialog } from "../../part/controls.tsx";
import { announce } from "../../browser.ts";
import { canCancel, canRetry } from "../job/actions.tsx";
import { type JobSummary, readFitting } from "./job_list.ts";

interface Change {
  readonly verb: "Cancel" | "Retry";
  readonly jobs: readonly JobSummary[];
  readonly callOf: (uuid: string) => Call;
  readonly words: (uuid: string) => readonly string[];
}

/** Most commands that a dialog shows; the rest differ only in their uuids. */
const COMMANDS_MAX = 100;

interface SelectionProps {
  readonly jobs: readonly JobSummary[];
  /** The filter of the list, for acting on every job that matches. */
  readonly filter: URLSearchParams;
  readonly onSelect: (jobs: readonly JobSummary[]) => void;
}

/** The bar of the selected jobs; nothing without any. */
export function Selection({ jobs, filter, onSelect }: SelectionProps): JSX.Element | null {
  const [open, setOpen] = useState<Change["verb"]>();
  if (jobs.length === 0) return null;
  const changes = changesOf(jobs);
  const change = changes.find(({ verb }) => verb === open);
  return (
    <div class="selection" role="region" aria-label="Selected jobs">
      <strong role="status">{jobs.length.toLocaleString("en")} selected</strong>
      <SelectFitting filter={filter} onSelect={onSelect} />
      {changes.map(({ verb, jobs: fitting }) => (
        <Button
          key={verb}
          disabled={fitting.length === 0}
          onClick={() => setOpen(verb)}
        >
          {verb} {fitting.length.toLocaleString("en")}
        </Button>
      ))}
      <Button kind="quiet" onClick={() => onSelect([])}>Clear</Button>
      {change !== undefined && (
        <ChangeDialog
          change={change}
          onDone={() => onSelect([])}
          onClose={() => setOpen(undefined)}
        />
      )}
    </div>
  );
}

/** Selects every job that matches the filter, even those not read yet. */
function SelectFitting(
  { filter, onSelect }: Pick<SelectionProps, "filter" | "onSelect">,
): JSX.Element {
  const [read, setRead] = useState<number>();
  const [error, setError] = useState<string>();
  const select = async () => {
    setError(undefined);
    setRead(0);
    try {
      onSelect(await readFitting(filter, setRead));
    } catch (failure) {
      setError(wordsOf(failure));
    }
    setRead(undefined);
  };
  return (
    <>
      <Button disabled={read !== undefined} onClick={select}>
        {read === undefined ? "Select all that match" : `Reading, ${read.toLocaleString("en")}`}
      </Button>
      {error !== undefined && <Banner kind="bad" title={error} />}
    </>
  );
}

/** Which selected jobs can be canceled, and which retried. */
function changesOf(jobs: readonly JobSummary[]): readonly Change[] {
  return [{
    verb: "Cancel",
    jobs: jobs.filter(canCancel),
    callOf: (uuid) => ({ method: "POST", path: `/jobs/${uuid}/cancel` }),
    words: (uuid) => ["job", "cancel", uuid, "--yes"],
  }, {
    verb: "Retry",
    jobs: jobs.filter(canRetry),
    callOf: (uuid) => ({ method: "POST", path: `/agent/v1/jobs/${uuid}/retry` }),
    words: (uuid) => ["job", "retry", uuid],
  }];
}

interface ChangeDialogProps {
  readonly change: Change;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function ChangeDialog({ change, onDone, onClose }: ChangeDialogProps): JSX.Element {
  // The jobs continue meanwhile, but the requested change stays the same.
  const [{ verb, jobs, callOf, words }] = useState(change);
  const [done, setDone] = useState(0);
  const number = `${jobs.length.toLocaleString("en")} ${jobs.length === 1 ? "job" : "jobs"}`;
  const some = jobs.slice(0, COMMANDS_MAX);
  const confirm = async () => {
    const refused: string[] = [];
    for (const [at, { uuid }] of jobs.entries()) {
      await send(callOf(uuid)).catch((error) => refused.push(wordsOf(error)));
      setDone(at + 1);
    }
    if (refused.length > 0) {
      throw new Error(`${refused.length} of ${number} refused: ${refused[0]}`);
    }
    announce(`${verb}: ${number}`);
    onDone();
  };
  return (
    <Dialog
      title={`${verb} ${number}?`}
      verb={`${verb} ${number}`}
      danger={verb === "Cancel"}
      cli={some.map(({ uuid }) => cliOf(words(uuid))).join("\n")}
      curl={some.map(({ uuid }) => curlOf(callOf(uuid))).join("\n")}
      onConfirm={confirm}
      onClose={onClose}
    >
      <ul class="dialog-list">
        {jobs.slice(0, 5).map(({ uuid, name }) => (
          <li key={uuid}>
            {name} <code class="muted">{uuid.slice(0, 8)}</code>
          </li>
        ))}
        {jobs.length > 5 && <li class="muted">and {jobs.length - 5} more</li>}
      </ul>
      {done > 0 && <p role="status">{done} of {number}</p>}
    </Dialog>
  );
}
