// The request as JSON, beside its form: what is typed here changes the form, and the other way round.

import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { Button } from "../../part/controls.tsx";
import type { Draft } from "./draft.ts";

/** The id of the text. */
export const EDITOR_ID = "request-json";
const PROBLEM_ID = `${EDITOR_ID}-problem`;
/** Lines of the text that are shown at least and at most. */
const ROWS_MIN = 18;
const ROWS_MAX = 44;

/** The text, and where it breaks off. */
export function Editor({ draft, disabled }: { draft: Draft; disabled: boolean }): JSX.Element {
  const box = useRef<HTMLTextAreaElement>(null);
  const problem = draft.problem.value;
  const lines = draft.text.value.split("\n").length;
  const goThere = (at: number) => {
    box.current?.focus();
    box.current?.setSelectionRange(at, at + 1);
  };
  return (
    <section class="request-json" aria-label="JSON">
      <label for={EDITOR_ID}>Request as JSON</label>
      <textarea
        id={EDITOR_ID}
        ref={box}
        spellcheck={false}
        autocomplete="off"
        wrap="off"
        rows={Math.min(Math.max(lines, ROWS_MIN), ROWS_MAX)}
        disabled={disabled}
        value={draft.text.value}
        aria-invalid={problem !== undefined}
        aria-describedby={problem === undefined ? undefined : PROBLEM_ID}
        onInput={({ currentTarget }) => draft.edit(currentTarget.value)}
      />
      <div id={PROBLEM_ID} role="status">
        {problem !== undefined && (
          <>
            <p class="field-error">{problem.message}</p>
            <p class="hint">The form waits as it is until the JSON can be read.</p>
          </>
        )}
      </div>
      {problem !== undefined && (
        <div class="request-json-actions">
          {problem.at !== undefined && (
            <Button onClick={() => goThere(problem.at ?? 0)}>Go there</Button>
          )}
          <Button onClick={draft.restore}>Back to the last that could be read</Button>
        </div>
      )}
    </section>
  );
}
