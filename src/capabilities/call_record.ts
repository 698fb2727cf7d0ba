// The record of one execution's capability calls in the job's timeline: an entry for each call that
// acts, and a final entry with counts when there were other calls. A task may make a hundred
// thousand calls, so entries are bounded and the rest is only counted. A task without calls, or
// with notes only, which are in the info already, leaves no record.

import type { ErrorCode } from "../domain/error.ts";
import type { Instant } from "../domain/instant.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { Log } from "../metrics/log.ts";
import type { InfoStore } from "../store/store.ts";
import type { CapabilityName } from "../wall/protocol.ts";
import { CALL_RULES, type CapabilityLimits, type Insist, type Noted } from "./capability.ts";

/** Entries for single calls of one execution; further calls are only counted. */
export const CALL_ENTRIES_MAX = 200;
/** Entries for calls that a job still accepts after its tasks have filled its info. */
const CALL_ENTRIES_SPARE = 20_000;

/** Result of a call: `ok`, or the code of its error. */
export type CallEnd = "ok" | ErrorCode;

interface EndedCall {
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

interface CallRecord {
  /** Counts a call; its entry, if it acts, is written when this settles. Never rejects. */
  add(call: EndedCall, insist: Insist): Promise<void>;
  /** Writes the counts, in one commit with the next write. */
  close(notesDropped: number): void;
}

interface RecordDeps {
  readonly store: { readonly info: Pick<InfoStore, "append"> };
  readonly log: Log;
  readonly now: () => Instant;
  readonly limits: Pick<CapabilityLimits, "infoEntriesMax">;
}

/**
 * Records the calls of one task in the info of its job. If a record cannot be written, that is logged and the
 * call continues.
 */
export function openCallRecord(
  { store, log, now, limits }: RecordDeps,
  { job_uuid, task_name: task, attempt }: Noted,
): CallRecord {
  const counts = new Map<CapabilityName, Count>();
  // Tasks cannot use up the room for these entries.
  const entriesMax = limits.infoEntriesMax + CALL_ENTRIES_SPARE;
  let entries = 0;
  let needsCounts = false;
  const write = async (entry: JsonObject, insist: Insist = (call) => call()) => {
    const [at, call] = [now(), crypto.randomUUID()];
    const append = () =>
      store.info.append(job_uuid, { task, ...entry }, at, entriesMax, attempt, call);
    try {
      await insist(append);
    } catch (error) {
      // The call has happened; a missing record is not a reason to fail it.
      log.warn("call was not recorded", { job_uuid, task_name: task, error });
    }
  };
  return {
    async add({ name, args, ms, ended }, insist) {
      const { kind, brief } = CALL_RULES[name];
      const count = counts.get(name) ?? { count: 0, failed: 0, ms: 0 };
      count.count += 1;
      count.ms += ms;
      if (ended !== "ok") count.failed += 1;
      counts.set(name, count);
      const hasEntry = kind === "act" && entries < CALL_ENTRIES_MAX;
      if (!hasEntry && (kind !== "note" || ended !== "ok")) needsCounts = true;
      if (!hasEntry) return;
      entries += 1;
      const call = { name, args: brief(args), ms: Math.round(ms), ended };
      await write({ zonewright_call: call }, insist);
    },
    close(notesDropped) {
      if (!needsCounts && notesDropped === 0) return;
      const shown = [...counts].map(([name, { count, failed, ms }]): [string, JsonObject] => [
        name,
        { count, ...(failed > 0 ? { failed } : {}), ms: Math.round(ms) },
      ]);
      const dropped = notesDropped > 0 ? { notes_dropped: notesDropped } : {};
      // Not awaited: the end of the task is written right after it, in the same commit.
      void write({ zonewright_calls: Object.fromEntries(shown), ...dropped });
    },
  };
}
