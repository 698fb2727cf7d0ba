// The list of machines. The filter is part of the address, so links keep it.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { cliOf, CREATE_WORDS, mayChange, readAged, wordsOf } from "../../client/client.ts";
import { Banner, Button, Empty, SearchField, searchText, Tabs } from "../../part/controls.tsx";
import { addressesText, mibText } from "../../part/device.tsx";
import {
  HostName,
  hostsChanged,
  HostSelect,
  hostsError,
  isOfHost,
  readHosts,
  useHosts,
} from "../../part/hosts.tsx";
import { Rows } from "../../part/rows.tsx";
import { clock, MachineBadge, machineStateText, Time, Uuid } from "../../part/shown.tsx";
import { nameTab, place, setQuery } from "../../browser.ts";
import { signal } from "@preact/signals";
import { follow } from "../../client/events.ts";
import type { Schemas } from "../../client/schema.ts";
import { Leftovers, openLeftoverList } from "./leftovers.tsx";

/** The page that lists machines; openMachineList() reads them. */
export function MachinesPage(): JSX.Element {
  useEffect(() => nameTab("Machines"), []);
  const left = useMemo(openLeftoverList, []);
  const list = useMemo(() => openMachineList(left.load), []);
  useEffect(() => () => {
    list.close();
    left.close();
  }, []);
  const staleSince = list.staleSince.value;
  const error = list.error.value ?? left.error.value ?? hostsError.value;
  // While vmadm is still being asked, an old empty list says nothing.
  const known = list.machines.value;
  const machines = known?.length === 0 && staleSince !== undefined ? undefined : known;
  return (
    <>
      <div class="page-head">
        <h1>Machines</h1>
        {machines !== undefined && staleSince !== undefined && (
          <p class="as-of muted" role="status" title="Asking vmadm again">
            as of <Time at={staleSince} />
          </p>
        )}
        {mayChange() && <a class="button button-primary" href="/ui/new">New machine</a>}
      </div>
      {error !== undefined && (
        <Banner kind="bad" title={error}>
          <Button onClick={list.again}>Try again</Button>
        </Banner>
      )}
      <Leftovers list={left} machines={machines ?? []} />
      {machines === undefined
        ? list.error.value === undefined && (
          <p class="muted loading" role="status">Asking vmadm for the machines</p>
        )
        : machines.length === 0
        ? <NoMachines />
        : <Machines machines={machines} />}
    </>
  );
}

function NoMachines(): JSX.Element {
  const several = useHosts().length > 0;
  return (
    <Empty
      title={several ? "No host has machines" : "This host has no machines"}
      command={cliOf(CREATE_WORDS)}
    >
      {mayChange() && (
        <p>
          <a href="/ui/new">Create the first one</a>
        </p>
      )}
      <p class="muted">From a description and an ISO, in a terminal:</p>
    </Empty>
  );
}

function Machines({ machines }: { machines: readonly ListedMachine[] }): JSX.Element {
  const { query } = place.value;
  const search = searchText();
  const state = query.get("state") ?? "";
  const host = query.get("host");
  const found = machines.filter((machine) =>
    isOfHost(machine, host) && hasText(machine, search.trim().toLowerCase())
  );
  const rows = state === "" ? found : found.filter((machine) => machine.state === state);
  return (
    <>
      <StateTabs machines={found} state={state} />
      <form class="filter" role="search" onSubmit={(event) => event.preventDefault()}>
        <SearchField placeholder="Search name, uuid, address" />
        <HostSelect />
        {(search !== "" || host !== null) && (
          <Button
            kind="quiet"
            onClick={() => setQuery({ search: null, host: null })}
          >
            Clear
          </Button>
        )}
      </form>
      <div id="machines" role="tabpanel" aria-label="Machines of this state">
        {rows.length === 0
          ? (
            <Empty title="No machines match this filter">
              <p>
                <a href="/ui/machines">Show all machines</a>
              </p>
            </Empty>
          )
          : <MachineRows rows={rows} />}
      </div>
    </>
  );
}

function StateTabs(
  { machines, state }: { machines: readonly ListedMachine[]; state: string },
): JSX.Element {
  // A link may name a state that no machine is in any more.
  const states = new Set(["running", "stopped", ...machines.map((machine) => machine.state)]);
  if (state !== "") states.add(state);
  const tabs = [...states].map((key) => {
    const text = machineStateText(key);
    const title = text.charAt(0).toUpperCase() + text.slice(1);
    return { key, title, count: machines.filter((machine) => machine.state === key).length };
  });
  return (
    <Tabs
      tabs={[{ key: "", title: "All", count: machines.length }, ...tabs]}
      current={state}
      label="State"
      controls="machines"
      onChange={(key) => setQuery({ state: key })}
    />
  );
}

const COLUMNS: readonly { readonly key: string; readonly title: string }[] = [
  { key: "state", title: "State" },
  { key: "name", title: "Machine" },
  { key: "address", title: "Address" },
  { key: "brand", title: "Brand" },
  { key: "ram", title: "Memory" },
  { key: "disk", title: "Disks" },
  { key: "medium", title: "Medium" },
  { key: "created", title: "Created" },
];
/** The columns when several hosts share the store. */
const WITH_HOST = COLUMNS.toSpliced(3, 0, { key: "host", title: "Host" });

function MachineRows({ rows }: { rows: readonly ListedMachine[] }): JSX.Element {
  const several = useHosts().length > 0;
  return (
    <>
      <Rows
        label="Machines"
        name={several ? "machines-table machines-table-host" : "machines-table"}
        columns={several ? WITH_HOST : COLUMNS}
        rows={rows}
        keyOf={({ uuid }) => uuid}
        cellsOf={cellsOf}
        onEnd={() => {}}
      />
      <p class="rows-end" role="status">
        {rows.length.toLocaleString("en")} {rows.length === 1 ? "machine" : "machines"}
      </p>
    </>
  );
}

function cellsOf(machine: ListedMachine): Record<string, JSX.Element | string | null> {
  const { uuid, alias, brand, ram, vcpus, medium, state, disks, nics, created_at } = machine;
  const total = disks.reduce(
    (sum, { size, media }) => sum + (media === "cdrom" ? 0 : size ?? 0),
    0,
  );
  const addresses = addressesText(nics);
  return {
    state: <MachineBadge state={state} />,
    name: (
      <>
        <a class="job-link" href={`/ui/machines/${uuid}`}>{alias ?? "unnamed"}</a>
        <Uuid uuid={uuid} of={alias ?? "this machine"} />
      </>
    ),
    address: <span class="number" title={addresses}>{addresses}</span>,
    host: <HostCell machine={machine} />,
    brand: <span class="muted">{brand}</span>,
    ram: (
      <span class="number" title={`${vcpus ?? "?"} vcpus`}>
        {ram === null ? "" : mibText(ram)}
      </span>
    ),
    disk: <span class="number">{total === 0 ? "" : mibText(total)}</span>,
    medium: <span class="muted" title={medium ?? undefined}>{medium}</span>,
    created: created_at === null ? null : <Time at={created_at} />,
  };
}

/** The host, and when it reported the machine, if another host's agent answered. */
function HostCell({ machine }: { machine: ListedMachine }): JSX.Element {
  return (
    <>
      <HostName of={machine} />
      {machine.reported_at !== null && (
        <span class="reported muted">
          <Time at={machine.reported_at} />
        </span>
      )}
    </>
  );
}

/** A machine as the list shows it. */
interface ListedMachine extends Readonly<Schemas["Machine"]> {
  /** When another host reported it; null for a machine of the agent's own host. */
  readonly reported_at: string | null;
}

function listed(machine: Schemas["Machine"]): ListedMachine {
  const { age_seconds } = machine;
  const reported_at = age_seconds === null ? null : instantBefore(age_seconds);
  return { ...machine, reported_at };
}

function instantBefore(seconds: number): string {
  return new Date(clock.peek() - seconds * 1000).toISOString();
}

/** Milliseconds in which events are collected before the list is read again: each read is a call of vmadm. */
const READ_DELAY_MS = 250;

/** Seconds for which an old list of vmadm is shown until the next one arrives: a day. */
const KEPT_SECONDS = 86_400;

/**
 * The list of a page, read at the start and again when a job of a machine has started or ended:
 * first the one kept by the agent, since vmadm may take seconds on a host with hundreds of
 * machines, then vmadm's answer.
 * @param onRead called whenever the list was read: other parts of the page may have changed too
 */
function openMachineList(onRead: () => void) {
  const machines = signal<readonly ListedMachine[] | undefined>(undefined);
  /** When vmadm gave the shown list, while it is being asked again. */
  const staleSince = signal<string | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  let timer: number | undefined;
  const ask = async (query: string) => {
    const path = `/agent/v1/machines${query}`;
    const { answer, age } = await readAged("GET /agent/v1/machines", path, closing.signal);
    machines.value = answer.map(listed).toSorted(byName);
    staleSince.value = age === undefined ? undefined : instantBefore(age);
  };
  const load = async () => {
    timer = undefined;
    onRead();
    try {
      if (machines.peek() === undefined) await ask(`?max_age=${KEPT_SECONDS}`);
      else await ask("");
      if (staleSince.peek() !== undefined) await ask("");
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  const stop = follow("kind=machine,host", {
    load: () => void load(),
    host: hostsChanged,
    machine: () => timer ??= setTimeout(() => void load(), READ_DELAY_MS),
  });
  return {
    machines,
    staleSince,
    error,
    again: () => {
      void load();
      void readHosts();
    },
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

/** Whether the listed values of a machine contain a text. @param text in lower case */
function hasText(machine: ListedMachine, text: string): boolean {
  const { uuid, alias, brand, state, nics } = machine;
  const texts = [uuid, alias, brand, state, ...nics.flatMap(({ ips, mac }) => [...ips, mac])];
  return texts.some((one) => one?.toLowerCase().includes(text) ?? false);
}
