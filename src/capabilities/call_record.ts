// What the timeline of a job tells of the capability calls of one execution, written by the agent:
// an entry for each call that acts, and one at the end that counts all calls when there were others.
// A task may make a hundred thousand calls, so entries are bounded and the rest is only counted; a
// task that made no calls, or only notes, which are in the info already, leaves nothing.

import type { JobUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { ErrorCode } from "../domain/error.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { Log } from "../metrics/log.ts";
import type { CapabilityName } from "../sandbox/protocol.ts";
import { CALL_RULES } from "./calls.ts";

/** Entries about single calls of one execution; further ones are only counted. */
export const CALL_ENTRIES_MAX = 200;
/** Entries about calls for which a job has room when its tasks have filled its info. */
const CALL_ENTRIES_SPARE = 20_000;

/** How a call ended: `ok`, or the code of its error. */
export type CallEnd = "ok" | ErrorCode;

/** One call that has ended. */
export interface EndedCall {
  readonly name: CapabilityName;
  readonly args: readonly JsonValue[];
  readonly ms: number;
  readonly ended: CallEnd;
}

interface Count {
  count: number;
  failed: number;
  ms: number;
}

/** The record of one execution. */
export interface CallRecord {
  /** Counts a call; one that acts has its entry written when this settles. Never rejects. */
  add(call: EndedCall): Promise<void>;
  /** Writes the counts. What is written next shares the commit. */
  close(notesDropped: number): void;
}

/** What a record is written with. */
export interface RecordDeps {
  readonly store: {
    readonly info: {
      append(
        uuid: JobUuid,
        entry: JsonObject,
        now: Instant,
        entriesMax?: number,
      ): Promise<unknown>;
    };
  };
  readonly log: Log;
  readonly now: () => Instant;
  /** Entries that tasks may write into one job's info. */
  readonly infoEntriesMax?: number;
}

/** Opens an empty record. */
export function openCallRecord(
  { store, log, now, infoEntriesMax }: RecordDeps,
  job_uuid: JobUuid,
  task: string,
): CallRecord {
  const counts = new Map<CapabilityName, Count>();
  // No task can crowd out what is told of it.
  const entriesMax = infoEntriesMax === undefined ? undefined : infoEntriesMax + CALL_ENTRIES_SPARE;
  let entries = 0;
  let untold = false;
  const write = async (entry: JsonObject) => {
    try {
      await store.info.append(job_uuid, { task, ...entry }, now(), entriesMax);
    } catch (error) {
      // The call has happened; that it is not told is no reason to fail it.
      log.warn("call was not recorded", { job_uuid, task_name: task, error });
    }
  };
  return {
    async add({ name, args, ms, ended }) {
      const { kind, brief } = CALL_RULES[name];
      const count = counts.get(name) ?? { count: 0, failed: 0, ms: 0 };
      count.count += 1;
      count.ms += ms;
      if (ended !== "ok") count.failed += 1;
      counts.set(name, count);
      const toldAlone = kind === "act" && entries < CALL_ENTRIES_MAX;
      if (!toldAlone && (kind !== "note" || ended !== "ok")) untold = true;
      if (!toldAlone) return;
      entries += 1;
      await write({ zonewright_call: { name, args: brief(args), ms: Math.round(ms), ended } });
    },
    close(notesDropped) {
      if (!untold && notesDropped === 0) return;
      const told = [...counts].map(([name, { count, failed, ms }]): [string, JsonObject] => [
        name,
        { count, ...(failed > 0 ? { failed } : {}), ms: Math.round(ms) },
      ]);
      const dropped = notesDropped > 0 ? { notes_dropped: notesDropped } : {};
      // Not waited for: the end of the task is recorded right behind it.
      void write({ zonewright_calls: Object.fromEntries(told), ...dropped });
    },
  };
}
