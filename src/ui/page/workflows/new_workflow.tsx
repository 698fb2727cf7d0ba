// A new workflow from its JSON: checked by the agent before it is kept.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { type Call, send, wordsOf } from "../../client/client.ts";
import { cliOf, curlOf } from "../../client/curl.ts";
import type { Schemas } from "../../client/schema.ts";
import { Button } from "../../part/controls.tsx";
import { Terminal } from "../../part/dialog.tsx";
import { Banner } from "../../part/message.tsx";
import { announce } from "../../browser/tab.ts";
import { go } from "../../browser/route.ts";
import { CREATE_WORDS, validate, validateCallOf } from "./workflow_view.ts";

const EXAMPLE = `{
  "name": "hello",
  "chain": [
    {
      "name": "greet",
      "body": "(job, cb) => { log.info('hello', { to: job.params.to }); cb(null, 'said'); }"
    }
  ]
}`;

/** What the agent said of the text: what it would keep, or why not. */
type Verdict = { readonly kind: "good" | "bad"; readonly title: string };

/** The form; it stays until it is closed. */
export function NewWorkflow({ onClose }: { onClose: () => void }): JSX.Element {
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
      announce(`${name} was made`);
      go(`/workflows/${uuid}`);
      return { kind: "good", title: `${name} was made` };
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

/** @returns undefined for what is no JSON */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The error is shown when somebody asks for it.
    return undefined;
  }
}
