// The agent's version, rights and configuration, read-only.

import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { type Call, cliOf, curlOf, mayChange, read, wordsOf } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import type { Answers, Schemas } from "../../client/schema.ts";
import { Time } from "../../part/shown.tsx";
import { modeText } from "../overview/host_facts.tsx";
import {
  Banner,
  Button,
  Command,
  Copy,
  SearchField,
  searchText,
  Terminal,
} from "../../part/controls.tsx";
import { announce, nameTab, place, setQuery } from "../../browser.ts";

/** What the agent reports about itself, read at the start and again after a reload of its settings. */
function openSystem() {
  const host = signal<Schemas["Host"] | undefined>(undefined);
  const config = signal<Answers["GET /agent/v1/config"] | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  const load = async () => {
    try {
      await Promise.all([
        read("GET /agent/v1/config", "/agent/v1/config", closing.signal)
          .then((found) => config.value = found),
        read("GET /agent/v1/host", "/agent/v1/host", closing.signal)
          .then((found) => host.value = found),
      ]);
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  const stop = follow("kind=host", { load: () => void load(), host: () => void load() });
  const close = () => {
    stop();
    closing.abort();
  };
  return { host, config, error, close };
}

/** Version, doctor, walls, policy and configuration. */
export function SystemPage(): JSX.Element {
  useEffect(() => nameTab("System"), []);
  const system = useMemo(openSystem, []);
  useEffect(() => system.close, []);
  const host = system.host.value;
  return (
    <>
      <h1>System</h1>
      {system.error.value !== undefined && <Banner kind="bad" title={system.error.value} />}
      {host !== undefined && <Facts host={host} />}
      {mayChange() && <Doctor />}
      {host !== undefined && <Walls walls={host.walls} />}
      {host !== undefined && <Policy policy={host.policy} />}
      {system.config.value !== undefined && <Settings config={system.config.value} />}
    </>
  );
}

function Facts({ host }: { host: Schemas["Host"] }): JSX.Element {
  const facts: Readonly<Record<string, ComponentChildren>> = {
    Version: host.commit === null ? host.version : `${host.version}, ${host.commit.slice(0, 12)}`,
    Host: [...new Set([host.name, modeText(host)])].join(", "),
    Runtime: `${host.runtime}, ${host.target}`,
    Process: host.pid,
    Started: <Time at={host.started_at} />,
    "For programs": (
      <>
        <a href="/metrics">Metrics</a>, <a href="/openapi.json">OpenAPI</a>,{" "}
        <a href="/readyz">Readiness</a>
      </>
    ),
  };
  return (
    <dl class="facts">
      {Object.entries(facts).map(([title, value]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Walls({ walls: { value, error } }: { walls: Schemas["Host"]["walls"] }): JSX.Element {
  return (
    <section class="system-part" aria-label="Walls">
      <h2>Sandbox checks</h2>
      {error !== null && <Banner kind="bad" title={error} />}
      <ul class="checks">
        {(value ?? []).map(({ name, ok, detail }) => (
          <li key={name}>
            <span class={`badge state-${ok ? "succeeded" : "waiting"}`}>
              {ok ? "passes" : "fails"}
            </span>
            <strong>{name}</strong>
            <span class="muted wrap">{detail}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The settings of the policy as sentences. */
const POLICY_WORDS: Readonly<Record<string, string>> = {
  allow_brand: "Brands",
  vcpus_max: "Virtual processors (maximum)",
  ram_mib_max: "Memory, MiB (maximum)",
  disks_max: "Disks (maximum)",
  disk_mib_max: "A disk, MiB at most",
  nics_max: "Nics (maximum)",
  quota_gib_max: "Zone quota, GiB (maximum)",
  allow_nic_tag: "Networks",
  foreign_machines: "Machines not created by a job",
  forbid_property: "Forbidden properties",
};

function Policy({ policy }: { policy: Schemas["Host"]["policy"] }): JSX.Element {
  return (
    <section class="system-part" aria-label="Policy">
      <h2>Machine policy</h2>
      <dl class="policy">
        {Object.entries(policy).map(([name, value]) => (
          <div key={name}>
            <dt title={name}>{POLICY_WORDS[name] ?? name}</dt>
            <dd class="wrap">{policyText(name, value)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function policyText(name: string, value: number | string | readonly string[]): string {
  if (typeof value === "number") return value.toLocaleString("en");
  if (name === "foreign_machines") {
    return value === "change" ? "tasks may change them" : "tasks may only read them";
  }
  if (typeof value === "string") return value;
  if (value.length > 0) return value.join(", ");
  return name === "forbid_property" ? "none" : "any";
}

type Config = Answers["GET /agent/v1/config"];

/** Every setting in effect, with its origin; those that somebody set are marked. */
function Settings({ config: { settings, waiting } }: { config: Config }): JSX.Element {
  const { query } = place.value;
  const search = searchText();
  const all = query.get("settings") === "all";
  const words = search.toLowerCase();
  const shown = settings.filter(({ name, meaning, text, origin }) =>
    (all || words !== "" || origin !== "default") &&
    `${name} ${meaning} ${text}`.toLowerCase().includes(words)
  );
  return (
    <section class="system-part" aria-label="Configuration">
      <h2>Configuration</h2>
      {waiting.length > 0 && (
        <Banner kind="warn" title={`These wait for a restart: ${waiting.join(", ")}`} />
      )}
      <form class="filter" role="search" onSubmit={(event) => event.preventDefault()}>
        <SearchField placeholder="Search name, meaning, value" label="Search settings" />
        <label class="check">
          <input
            type="checkbox"
            checked={all}
            onChange={(event) => setQuery({ settings: event.currentTarget.checked ? "all" : null })}
          />
          <span>Show defaults</span>
        </label>
      </form>
      {shown.length === 0
        ? (
          <p class="muted">
            {words === "" ? "Every setting has its default." : "No settings match."}
          </p>
        )
        : (
          <ul class="settings">
            {shown.map((setting) => <SettingLine key={setting.name} setting={setting} />)}
          </ul>
        )}
      <p class="muted">
        {shown.length} of {settings.length}{" "}
        settings. The agent reads those with a star again on SIGHUP.
      </p>
      <Command text={cliOf(["config", "show", "--running"])} label="command" />
    </section>
  );
}

function SettingLine({ setting }: { setting: Config["settings"][number] }): JSX.Element {
  const { name, text, origin, source, meaning, reloads } = setting;
  return (
    <li>
      <code class="wrap">{name}{reloads && "*"}</code>
      <code class="wrap setting-value">{text ?? "–"}</code>
      <span class={origin === "default" ? "muted" : "setting-set"} title={source ?? undefined}>
        {origin === "default" ? "default" : source ?? origin}
      </span>
      <span class="muted">{meaning}</span>
    </li>
  );
}

/** To be run on the agent's host: the agent itself repairs nothing on request. */
const FIX_COMMAND = "zonewright doctor --fix";

const CALL: Call = { method: "GET", path: "/agent/v1/doctor" };

type Findings = Answers["GET /agent/v1/doctor"];

/** The look of a finding and its place in the list: broken things first. */
const OUTCOMES = [
  { outcome: "fail", state: "failed" },
  { outcome: "warn", state: "waiting" },
  { outcome: "ok", state: "succeeded" },
  { outcome: "skipped", state: "canceled" },
] as const;

/** The doctor's findings, only on request: it starts programs and reads the whole database. */
function Doctor(): JSX.Element {
  const findings = useSignal<Findings | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  const busy = useSignal(false);
  const examine = async () => {
    busy.value = true;
    error.value = undefined;
    try {
      findings.value = await read("GET /agent/v1/doctor", "/agent/v1/doctor");
      announce("Doctor finished");
    } catch (failure) {
      error.value = wordsOf(failure);
    }
    busy.value = false;
  };
  return (
    <section class="system-part" aria-label="Doctor">
      <div class="page-head">
        <h2>Doctor</h2>
        <Button disabled={busy.value} onClick={examine}>
          {busy.value ? "Examining" : "Examine the host"}
        </Button>
      </div>
      {error.value !== undefined && <Banner kind="bad" title={error.value} />}
      {findings.value === undefined
        ? (
          <p class="muted">
            It examines everything that the agent needs, and changes nothing. To repair what can be
            repaired, type on the host:{" "}
            <Copy text={FIX_COMMAND} label="command">
              <code>{FIX_COMMAND}</code>
            </Copy>
          </p>
        )
        : <Checks findings={findings.value} />}
      {/* Without an address the command examines the host that it is typed on. */}
      <Terminal cli={cliOf(["doctor"], location.origin, true)} curl={curlOf(CALL)} />
    </section>
  );
}

function Checks({ findings: { examined_at, checks } }: { findings: Findings }): JSX.Element {
  const place = (outcome: string) => OUTCOMES.findIndex((one) => one.outcome === outcome);
  const inOrder = checks.toSorted((a, b) => place(a.outcome) - place(b.outcome));
  return (
    <>
      <p class="muted">
        Examined <Time at={examined_at} />
      </p>
      <ul class="checks">
        {inOrder.map(({ name, outcome, detail, fix }) => (
          <li key={name}>
            <span class={`badge state-${OUTCOMES[place(outcome)]?.state ?? "queued"}`}>
              {outcome}
            </span>
            <strong>{name}</strong>
            <span class="wrap">
              <span class="muted">{detail}</span>
              {fix !== undefined && <span class="check-fix">Fix: {fix}</span>}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
