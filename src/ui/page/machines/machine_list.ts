// The machines of the host, read at the start and again when a job of one has begun or ended.

import { signal } from "@preact/signals";
import { readAged, wordsOf } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import { clock } from "../../part/shown.tsx";
import type { Schemas } from "../../client/schema.ts";

/** A machine as the list shows it. */
export type ListedMachine = Schemas["Machine"];

/** Milliseconds in which events are collected before the list is read again: it is one call of vmadm. */
const READ_DELAY_MS = 250;

/** Seconds for which a list that vmadm gave is worth showing until it has given the next one: a day. */
const KEPT_SECONDS = 86_400;

/**
 * The list of a page: first the one that the agent has kept, since vmadm may take seconds on a host with
 * hundreds of machines, then what vmadm says.
 */
export function openMachineList() {
  const machines = signal<readonly ListedMachine[] | undefined>(undefined);
  /** When vmadm gave the list, while it is asked again. */
  const staleSince = signal<string | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  let timer: number | undefined;
  const ask = async (query: string) => {
    const path = `/agent/v1/machines${query}`;
    const { answer, age } = await readAged("GET /agent/v1/machines", path, closing.signal);
    machines.value = answer.toSorted(byName);
    const since = age === undefined ? undefined : new Date(clock.peek() - age * 1000);
    staleSince.value = since?.toISOString();
  };
  const load = async () => {
    timer = undefined;
    try {
      if (machines.peek() === undefined) await ask(`?max_age=${KEPT_SECONDS}`);
      else await ask("");
      if (staleSince.peek() !== undefined) await ask("");
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
    staleSince,
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
