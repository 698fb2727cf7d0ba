// What GET /agent/v1/host is made of in tests without a managed host.

import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import type { AgentSources } from "../../src/http/routes/agent.ts";
import type { HostSources } from "../../src/http/routes/host.ts";
import type { KeptReading } from "../../src/http/answer/cached_reading.ts";
import type { Store } from "../../src/store/store.ts";
import { T0 } from "../support/job.ts";

/** A reader that has read this. */
export function readerOf<T>(value: T): () => Promise<KeptReading<T>> {
  return () => Promise.resolve({ read_at: T0, error: null, value });
}

/** A reader that fails so. */
export function failingReader(error: string): () => Promise<KeptReading<never>> {
  return () => Promise.resolve({ read_at: T0, error, value: null });
}

/** Readings of a host on which all is well. */
export const READINGS: HostSources["readings"] = {
  system: readerOf({
    hostname: "gz-7",
    platform: "20260101T000000Z",
    cpu: "a processor",
    cpus: 16,
    ram_mib: 65_536,
    hvm: true,
  }),
  pool: readerOf({ name: "zones", used_bytes: 1, free_bytes: 1024 ** 4 }),
  networks: readerOf(["admin"]),
  machines: readerOf({ total: 1, by_state: { running: 1 } }),
  walls: readerOf([{ name: "network", ok: true, detail: "a network of its own" }]),
  disk: readerOf({ folder: "/var/lib/zonewright", free_bytes: 1024 ** 4 }),
};

/** A host on which all is well, with those changes. */
export function hostSources(store: Store, changes: Partial<HostSources> = {}): HostSources {
  return {
    store,
    now: () => T0,
    policy: DEFAULT_POLICY,
    facts: () =>
      Promise.resolve({
        name: "gz-7",
        mode: "ssh",
        version: "0.1.0",
        commit: null,
        runtime: "deno 2",
        target: "x86_64-unknown-linux-gnu",
        pid: 4711,
        started_at: T0,
      }),
    slots: () => ({ total: 4, busy: 1 }),
    index: () => ({ upstream: "https://index.example.com", interval_seconds: 60 }),
    cacheBytesMax: 1024 ** 3,
    settingsWaiting: () => [],
    settingsProblem: () => null,
    readiness: () => Promise.resolve({ ready: true, checks: {} }),
    readings: READINGS,
    ...changes,
  };
}

/** An agent that has one setting, and a doctor who has looked at two things. */
export const AGENT_SOURCES: AgentSources = {
  settings: () => [{
    name: "slots",
    value: 8,
    text: "8",
    origin: "file",
    source: "/etc/zonewright/zonewright.toml",
    meaning: "jobs that run at the same time",
    reloads: false,
  }],
  settingsWaiting: () => ["listen"],
  diagnoses: readerOf([
    {
      name: "disk",
      outcome: "warn",
      detail: "full",
      fix: "zonewright media list",
      repaired: false,
    },
    {
      name: "guests",
      outcome: "ok",
      detail: "all 1 walls stand",
      parts: [{ name: "network", ok: true, detail: "a network of its own" }],
      repaired: false,
    },
  ]),
};
