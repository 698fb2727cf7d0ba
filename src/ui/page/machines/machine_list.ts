// The machines of the host, read at the start and again when a job of one has begun or ended.

import { signal } from "@preact/signals";
import { read, session, wordsOf } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import type { Schemas } from "../../client/schema.ts";

/** A machine as the list shows it. */
export type ListedMachine = Schemas["Machine"];

/** Milliseconds in which events are collected before the list is read again: it is one call of vmadm. */
const READ_DELAY_MS = 250;

/**
 * The list as this tab last read it, and who read it: shown again until vmadm has answered, which may take
 * seconds on a host with hundreds of machines.
 */
let last:
  | { readonly caller: string | null; readonly machines: readonly ListedMachine[] }
  | undefined;

/** The list of a page. */
export function openMachineList() {
  const caller = session.peek()?.caller ?? null;
  const machines = signal(last?.caller === caller ? last.machines : undefined);
  /** Whether the list is the one of an earlier visit. */
  const stale = signal(true);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  let timer: number | undefined;
  const load = async () => {
    timer = undefined;
    try {
      const found = await read("GET /agent/v1/machines", "/agent/v1/machines", closing.signal);
      machines.value = found.toSorted(byName);
      last = { caller, machines: machines.value };
      stale.value = false;
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  const stop = follow("kind=machine", {
    load: () => void load(),
    machine: () => timer ??= setTimeout(() => void load(), READ_DELAY_MS),
  });
  return {
    machines,
    stale,
    error,
    close: () => {
      stop();
      clearTimeout(timer);
      closing.abort();
    },
  };
}

/** Machines without a name come last. */
function byName(a: ListedMachine, b: ListedMachine): number {
  if (a.alias === null || b.alias === null) {
    return Number(a.alias === null) - Number(b.alias === null);
  }
  return a.alias.localeCompare(b.alias, "en", { numeric: true });
}

/** Whether a machine has a text in what the list shows of it. @param text in lower case */
export function hasText(machine: ListedMachine, text: string): boolean {
  const { uuid, alias, brand, state, nics } = machine;
  const texts = [uuid, alias, brand, state, ...nics.flatMap(({ ips, mac }) => [...ips, mac])];
  return texts.some((one) => one?.toLowerCase().includes(text) ?? false);
}
