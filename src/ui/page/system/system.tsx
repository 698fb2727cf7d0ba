// The agent's version, rights and configuration, read-only.

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { mayChange, read, wordsOf } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import type { Answers, Schemas } from "../../client/schema.ts";
import { Banner } from "../../part/message.tsx";
import { Time } from "../../part/shown.tsx";
import { nameTab } from "../../browser/tab.ts";
import { modeText } from "../overview/host_view.ts";
import { Doctor } from "./doctor.tsx";
import { Settings } from "./settings.tsx";

/** The agent as it describes itself, read at the start and after it has read its settings again. */
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
      <h2>Walls around tasks</h2>
      {error !== null && <Banner kind="bad" title={error} />}
      <ul class="checks">
        {(value ?? []).map(({ name, ok, detail }) => (
          <li key={name}>
            <span class={`badge state-${ok ? "succeeded" : "waiting"}`}>
              {ok ? "stands" : "does not stand"}
            </span>
            <strong>{name}</strong>
            <span class="muted wrap">{detail}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** What the settings of the policy say, in words. */
const POLICY_WORDS: Readonly<Record<string, string>> = {
  allow_brand: "Brands",
  vcpus_max: "Virtual processors, at most",
  ram_mib_max: "Memory, MiB at most",
  disks_max: "Disks, at most",
  disk_mib_max: "A disk, MiB at most",
  nics_max: "Nics, at most",
  quota_gib_max: "Quota of the zone, GiB at most",
  allow_nic_tag: "Networks",
  foreign_machines: "Machines of others",
  forbid_property: "Forbidden properties",
};

function Policy({ policy }: { policy: Schemas["Host"]["policy"] }): JSX.Element {
  return (
    <section class="system-part" aria-label="Policy">
      <h2>What machines may be</h2>
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
  if (typeof value === "string") return value;
  if (value.length > 0) return value.join(", ");
  return name === "forbid_property" ? "none" : "any";
}
