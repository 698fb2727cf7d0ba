// What is known of every workflow: what was acknowledged, and what may have come about without an
// answer. A workflow is written and read in turns, so each reading has one right answer, or two.

import { canonicalJson, type JsonObject } from "../../src/domain/json.ts";
import { History, Turns } from "./history.ts";
import { PHASES, tasksOf } from "./job_rules.ts";

/** The body of a workflow, or `none` for one that is not there. */
export type WorkflowState = JsonObject | "none";

/** One workflow that was asked for. */
export class WorkflowRecord {
  readonly turns = new Turns();
  readonly history: History;
  uuid: string | undefined;
  /** What it may be: one state, or two after a request without an answer. */
  states: readonly WorkflowState[] = ["none"];

  /** @param kept whether nobody changes or removes it */
  constructor(readonly mark: string, readonly kept: boolean, clock: () => string) {
    this.history = new History(clock);
  }

  /** Whether it is known to be there, with nothing under way. */
  get exists(): boolean {
    return this.uuid !== undefined && this.states.length === 1 && this.states[0] !== "none";
  }

  /** What was sent may have come about; no answer has come yet. */
  may(become: WorkflowState): void {
    this.states = [...this.states, become];
  }

  /** What was found, by an answer or by reading. @throws {BrokenPromise} when it cannot be */
  is(found: WorkflowState, how: string): void {
    this.history.add(`${how}: ${reported(found)}`);
    const possible = this.states.some((state) => reported(state) === reported(found));
    if (!possible) {
      const wanted = this.states.map(reported).join(" or ");
      this.history.expect(`workflow ${this.uuid ?? this.mark}`, [
        `found ${reported(found)}, not ${wanted}`,
      ]);
    }
    this.states = [found];
  }
}

/** The part of a workflow that its writer decides: a task's uuid is made by the agent. */
function reported(state: WorkflowState): string {
  if (state === "none") return state;
  const { uuid: _uuid, wf_uuid: _wf, ...sent } = state;
  const chains = PHASES.map((phase) => [phase, tasksOf(state, phase).map(asSent)]);
  return canonicalJson({ ...sent, ...Object.fromEntries(chains) });
}

function asSent({ uuid: _, ...task }: JsonObject): JsonObject {
  return task;
}

/** All workflows of one state folder. */
export class WorkflowBook {
  readonly #byMark = new Map<string, WorkflowRecord>();
  readonly #clock: () => string;

  constructor(clock: () => string) {
    this.#clock = clock;
  }

  get records(): readonly WorkflowRecord[] {
    return [...this.#byMark.values()];
  }

  /** A workflow is about to be made; its mark is its name. */
  begin(mark: string, kept = false): WorkflowRecord {
    const record = new WorkflowRecord(mark, kept, this.#clock);
    this.#byMark.set(mark, record);
    return record;
  }

  /** Holds a list of all workflows, read while nobody writes, against those that there must be. */
  lookAtAll(workflows: readonly JsonObject[]): void {
    const listed = new Map(workflows.map((workflow) => [markOf(workflow), workflow]));
    if (listed.size !== workflows.length) throw new Error("Two workflows have the same mark");
    for (const record of this.records) {
      const found = listed.get(record.mark);
      if (found !== undefined) record.uuid ??= String(found.uuid);
      record.is(found ?? "none", "listed");
      listed.delete(record.mark);
    }
    const unknown = [...listed.keys()];
    if (unknown.length > 0) throw new Error(`Nobody made the workflows ${unknown.join(", ")}`);
  }
}

function markOf(workflow: JsonObject): string {
  return String(workflow.mark ?? workflow.name);
}
