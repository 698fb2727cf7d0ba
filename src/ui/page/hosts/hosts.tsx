// The hosts that share the store: their states, what runs on each, and actions on them.

import { signal, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { type Call, cliOf, curlOf, mayChange, read, send, wordsOf } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import type { Schemas } from "../../client/schema.ts";
import { announce, nameTab } from "../../browser.ts";
import { Banner, Button, Dialog } from "../../part/controls.tsx";
import { HOSTS_READ_MS } from "../../part/hosts.tsx";
import { spanText, Uuid } from "../../part/shown.tsx";

type ListedHost = Schemas["ListedHost"];

/** The list of hosts, read again after a change and from time to time. */
function openHostList() {
  const hosts = signal<readonly ListedHost[] | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  const load = async () => {
    try {
      hosts.value = await read("GET /agent/v1/hosts", "/agent/v1/hosts", closing.signal);
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  const stop = follow("kind=host", { load: () => void load(), host: () => void load() });
  const timer = setInterval(() => {
    if (!document.hidden) void load();
  }, HOSTS_READ_MS);
  const close = () => {
    stop();
    clearInterval(timer);
    closing.abort();
  };
  return { hosts, error, again: () => void load(), close };
}

/** The page of hosts, with the actions on each. */
export function HostsPage(): JSX.Element {
  useEffect(() => nameTab("Hosts"), []);
  const list = useMemo(openHostList, []);
  useEffect(() => list.close, []);
  const asked = useSignal<{ host: ListedHost; action: HostAction } | undefined>(undefined);
  const hosts = list.hosts.value;
  return (
    <>
      <h1>Hosts</h1>
      {list.error.value !== undefined && <Banner kind="bad" title={list.error.value} />}
      {hosts !== undefined && (
        <ul class="hosts">
          {hosts.map((host) => (
            <HostLine
              key={host.uuid}
              host={host}
              onAsk={(action) => asked.value = { host, action }}
            />
          ))}
        </ul>
      )}
      {asked.value !== undefined && (
        <HostDialog
          key={`${asked.value.action} ${asked.value.host.uuid}`}
          {...asked.value}
          onDone={list.again}
          onClose={() => asked.value = undefined}
        />
      )}
    </>
  );
}

/** The state of a job whose colours a host's state has. */
const COLOR_OF_STATE: Readonly<Record<ListedHost["state"], string>> = {
  connected: "succeeded",
  away: "failed",
  cordoned: "waiting",
  forgotten: "canceled",
};

function HostLine(
  { host, onAsk }: { host: ListedHost; onAsk: (action: HostAction) => void },
): JSX.Element {
  const { uuid, name, state, this_host, running, queued, slots, version, age_seconds } = host;
  return (
    <li>
      <span class={`badge state-${COLOR_OF_STATE[state]}`}>{state}</span>
      <span class="host-name">
        <strong class="wrap">{name}</strong>
        {this_host && <span class="muted">this host</span>}
        <Uuid uuid={uuid} of={name} />
      </span>
      <span class="muted">
        {running} of {slots} slots busy, {queued} queued, heard {spanText(age_seconds)} ago, version
        {" "}
        {version}
      </span>
      {mayChange() && <HostActions host={host} onAsk={onAsk} />}
    </li>
  );
}

/** Actions on a host; each is confirmed first. */
type HostAction = "cordon" | "uncordon" | "forget";

function HostActions(
  { host, onAsk }: { host: ListedHost; onAsk: (action: HostAction) => void },
): JSX.Element {
  const { name, state, cordoned, forgotten } = host;
  const admission = cordoned || forgotten ? "uncordon" : "cordon";
  return (
    <span class="host-actions">
      <Button label={`${verbOf(admission)} ${name}`} onClick={() => onAsk(admission)}>
        {verbOf(admission)}…
      </Button>
      {state === "away" && (
        <Button
          kind="danger"
          label={`Forget ${name}`}
          onClick={() => onAsk("forget")}
        >
          Forget…
        </Button>
      )}
    </span>
  );
}

function verbOf(action: HostAction): string {
  return action.charAt(0).toUpperCase() + action.slice(1);
}

const NOTES: Readonly<Record<HostAction, string>> = {
  cordon: "It claims no new jobs. Running jobs go on, and queued jobs wait for it.",
  uncordon: "It claims jobs again, starting with those that waited for it.",
  forget:
    "Its unfinished jobs fail, which frees their targets and machines. If it returns, it does nothing until " +
    "it is uncordoned.",
};

interface HostDialogProps {
  readonly host: ListedHost;
  readonly action: HostAction;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function HostDialog({ host, action, onDone, onClose }: HostDialogProps): JSX.Element {
  const { uuid, name } = host;
  const path = `/agent/v1/hosts/${uuid}`;
  const call: Call = action === "forget"
    ? { method: "DELETE", path }
    : { method: "POST", path: `${path}/${action}`, body: {} };
  const verb = `${verbOf(action)} ${name}`;
  return (
    <Dialog
      title={`${verb}?`}
      verb={verb}
      danger={action === "forget"}
      curl={curlOf(call)}
      cli={cliOf(["host", action, uuid])}
      onConfirm={async () => {
        await send(call);
        announce(`${name}: done`);
        onDone();
      }}
      onClose={onClose}
    >
      <p class="muted">{NOTES[action]}</p>
    </Dialog>
  );
}
