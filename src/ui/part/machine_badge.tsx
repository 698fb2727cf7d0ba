// The state of a machine, in vmadm's word.

import type { JSX } from "preact";

/** The classes of the states that are common; others look like `stopped`. */
const KINDS: Readonly<Record<string, string>> = {
  running: "succeeded",
  stopped: "canceled",
  installed: "canceled",
  absent: "running",
  provisioning: "running",
  stopping: "waiting",
  shutting_down: "waiting",
  failed: "failed",
  incomplete: "failed",
};
const OTHER_KIND = "queued";

/** What a state is called; `absent` is the agent's own word, while a job makes the machine. */
export function machineStateText(state: string): string {
  return state === "absent" ? "being made" : state.replaceAll("_", " ");
}

/** A machine's state as a word with its colour and form. */
export function MachineBadge({ state }: { state: string }): JSX.Element {
  return (
    <span class={`badge state-${KINDS[state] ?? OTHER_KIND}`}>
      {machineStateText(state)}
    </span>
  );
}
