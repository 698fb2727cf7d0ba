// The hosts of the store, when there are several: lists show the host of each row, and can be limited to one.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { read, wordsOf } from "../client/client.ts";
import type { Schemas } from "../client/schema.ts";
import { place, setQuery } from "../browser.ts";

type StoreHost = Schemas["ListedHost"];

/** Milliseconds in which events are collected before the hosts are read again. */
const HOSTS_DELAY_MS = 200;
/** Milliseconds between two reads of the hosts: no event reports their silence or load. */
export const HOSTS_READ_MS = 5_000;

const hosts = signal<readonly StoreHost[]>([]);
/** Why the hosts could not be read. */
export const hostsError = signal<string | undefined>(undefined);
/** Number of parts of the page that show hosts. */
let parts = 0;
let reading = new AbortController();
let timer: number | undefined;
let ticking: number | undefined;

/** Reads the hosts again. */
export async function readHosts(): Promise<void> {
  clearTimeout(timer);
  timer = undefined;
  reading.abort();
  const { signal: mine } = reading = new AbortController();
  try {
    hosts.value = await read("GET /agent/v1/hosts", "/agent/v1/hosts", mine);
    hostsError.value = undefined;
  } catch (failure) {
    if (!mine.aborted) hostsError.value = wordsOf(failure);
  }
}

/** Reads the hosts soon, once for many events of the kind `host`. */
export function hostsChanged(): void {
  timer ??= setTimeout(() => void readHosts(), HOSTS_DELAY_MS);
}

/** The hosts of the store; empty if there is only this one. */
export function useHosts(): readonly StoreHost[] {
  useEffect(() => {
    parts += 1;
    if (parts === 1) {
      void readHosts();
      // The stream of a single job or machine carries no events about hosts.
      ticking = setInterval(() => {
        const isDue = hosts.peek().length > 1 || hostsError.peek() !== undefined;
        if (!document.hidden && isDue) void readHosts();
      }, HOSTS_READ_MS);
    }
    return () => {
      parts -= 1;
      if (parts > 0) return;
      clearInterval(ticking);
      clearTimeout(timer);
      timer = undefined;
      reading.abort();
    };
  }, []);
  return hosts.value.length > 1 ? hosts.value : [];
}

/** A host to choose: its name, or its uuid if others have the name, and the text to show. */
interface HostChoice {
  readonly key: string;
  readonly label: string;
}

/** The hosts to choose from; empty if there is only this one. */
export function useHostChoices(): readonly HostChoice[] {
  const several = useHosts();
  return several.map(({ uuid, name, state }) => ({
    key: several.filter((host) => host.name === name).length === 1 ? name : uuid,
    label: state === "connected" ? name : `${name}, ${state}`,
  }));
}

/** Limits a list to one host; nothing if there is only one. */
export function HostSelect(): JSX.Element | null {
  const several = useHosts();
  const choices = useHostChoices();
  const chosen = place.value.query.get("host") ?? "";
  if (several.length === 0 && chosen === "") return null;
  const at = several.findIndex(({ uuid, name }) => uuid === chosen || name === chosen);
  return (
    <label>
      <span>Host</span>
      <select
        value={choices[at]?.key ?? chosen}
        onChange={(event) => setQuery({ host: event.currentTarget.value })}
      >
        <option value="">any</option>
        {choices.map(({ key, label }) => <option key={key} value={key}>{label}</option>)}
        {chosen !== "" && at === -1 && <option value={chosen}>{chosen}</option>}
      </select>
    </label>
  );
}

interface OfHost {
  readonly host?: string | null | undefined;
  readonly host_uuid?: string | null | undefined;
}

/** The host among the facts of a page; nothing if there is only one. */
export function HostFact({ of }: { of: OfHost }): JSX.Element | null {
  if (useHosts().length === 0) return null;
  return (
    <div>
      <dt>Host</dt>
      <dd class="wrap">
        <HostName of={of} />
      </dd>
    </div>
  );
}

/** The host in front of other text; nothing if there is only one. */
export function HostBefore({ of, end }: { of: OfHost; end: string }): JSX.Element | null {
  if (useHosts().length === 0) return null;
  return (
    <>
      <HostName of={of} />
      {end}
    </>
  );
}

/** The name of a host, and its state unless it is connected. */
export function HostName({ of: { host, host_uuid } }: { of: OfHost }): JSX.Element {
  const state = hosts.value.find(({ uuid }) => uuid === host_uuid)?.state ?? "connected";
  return (
    <span class="host-of" title={host_uuid ?? undefined}>
      {host ?? "any"}
      {state !== "connected" && <span class="host-state">, {state}</span>}
    </span>
  );
}

/** Whether something belongs to the host that a filter names by uuid or name. */
export function isOfHost({ host, host_uuid }: OfHost, named: string | null): boolean {
  return named === null || named === "" || host_uuid === named || host === named;
}
