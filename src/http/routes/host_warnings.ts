// The warnings of the host's page: what they are about, and the command that shows more.

import { type ShapeOf, TEXT, whole } from "../../domain/description/answer.ts";
import { type HostPool, sizeText, type Wall, wallsText } from "../../domain/host.ts";
import { MS_PER_SECOND } from "../../domain/instant.ts";
import type { IndexSync } from "../../store/store.ts";
import type { KeptRead, KeptReading } from "../answer/cached_reading.ts";
import type { ReadinessReport } from "./monitoring.ts";

/** Something that an operator should know, in an answer. */
export const WARNING = whole("Something that an operator should know.", {
  code: { ...TEXT, description: "A word for scripts." },
  message: TEXT,
  hint: { ...TEXT, description: "The command that shows more, or what to do." },
});

type Warning = ShapeOf<typeof WARNING>;

/** Free space in the pool below which there is a warning. */
const POOL_FREE_BYTES_FINE = 10 * 1024 ** 3;

/** What is looked at for warnings. */
interface WarnedOf {
  /** The name of the host in commands. */
  readonly host: string;
  /** What was read from the store, now or earlier. */
  readonly kept: KeptRead<unknown>;
  readonly readiness: ReadinessReport;
  readonly sync: IndexSync | undefined;
  readonly readings: {
    readonly pool: KeptReading<HostPool>;
    readonly walls: KeptReading<readonly Wall[]>;
    readonly system: KeptReading<unknown>;
    readonly networks: KeptReading<unknown>;
  };
  /** Machines of failed jobs that are not yet removed. */
  readonly leftovers: number;
  readonly settings: {
    /** Names of settings whose new value waits for a restart. */
    readonly waiting: readonly string[];
    /** Why the last reload failed; null if it did not. */
    readonly problem: string | null;
  };
}

/** Usually none. */
export function warningsOf(of: WarnedOf): Warning[] {
  return [
    ...awayWarnings(of.kept),
    ...readinessWarnings(of.readiness, of.host),
    ...indexWarnings(of.sync, of.readiness),
    ...readingWarnings(of.readings),
    ...leftoverWarnings(of.leftovers),
    ...settingWarnings(of.settings),
  ];
}

function warning(code: string, message: string, hint: string): Warning {
  return { code, message, hint };
}

/** The doctor of the agent that warns, not that of the caller's machine. */
const DOCTOR = "zonewright doctor --running";

/** The command that shows more about a check of /readyz. */
const CHECK_HINTS = {
  store: `${DOCTOR} --run store`,
  disk: `${DOCTOR} --run disk`,
  guests: `${DOCTOR} --run guests`,
  host: `${DOCTOR} --run vmadm`,
  index: "zonewright image status",
} as const;

function readinessWarnings({ checks }: ReadinessReport, host: string): Warning[] {
  const isFull = checks.disk?.status === "failed";
  const hints: Readonly<Record<string, string>> = {
    ...CHECK_HINTS,
    // A full disk stops the database too, which is sound.
    ...(isFull ? { store: CHECK_HINTS.disk } : {}),
    admission: `zonewright host uncordon ${host}`,
  };
  return Object.entries(checks)
    .filter(([, { status }]) => status !== "ok")
    .map(([name, { detail }]) => warning(name, `${name}: ${detail}`, hints[name] ?? DOCTOR));
}

/** A sync that failed; an index that is old for that reason has its warning already. */
function indexWarnings(sync: IndexSync | undefined, { checks }: ReadinessReport): Warning[] {
  if (sync?.outcome !== "failed" || checks.index?.status !== "ok") return [];
  const [problem] = sync.problems;
  const why = problem === undefined ? "" : `: ${problem.message}`;
  return [warning("index", `the last sync of the image index failed${why}`, CHECK_HINTS.index)];
}

function readingWarnings({ pool, walls, system, networks }: WarnedOf["readings"]): Warning[] {
  const unread = Object.entries({ pool, walls, system, networks })
    .flatMap(([name, { error }]) => error === null ? [] : [[name, error] as const])
    .map(([name, error]) =>
      warning(`${name}_unread`, `${name} could not be read: ${error}`, DOCTOR)
    );
  const free = pool.value?.free_bytes ?? Number.POSITIVE_INFINITY;
  const low = free >= POOL_FREE_BYTES_FINE ? [] : [warning(
    "pool_low",
    `the pool ${pool.value?.name} has ${sizeText(free)} free, expected ${
      sizeText(POOL_FREE_BYTES_FINE)
    }`,
    "zonewright machine list",
  )];
  const isOpen = walls.value?.some(({ ok }) => !ok) ?? false;
  const openWalls = isOpen
    ? [warning("walls_open", wallsText(walls.value ?? []), `${DOCTOR} --run guests`)]
    : [];
  return [...unread, ...low, ...openWalls];
}

function awayWarnings({ value, staleMs }: KeptRead<unknown>): Warning[] {
  if (staleMs === undefined) return [];
  const known = value === null
    ? "not known"
    : `those of ${Math.round(staleMs / MS_PER_SECOND)} s ago`;
  const words = `the database does not answer: jobs and leftovers are ${known}`;
  return [warning("database_away", words, `${DOCTOR} --run database`)];
}

function leftoverWarnings(count: number): Warning[] {
  if (count === 0) return [];
  const message = count === 1
    ? "1 machine of a failed job is not yet removed"
    : `${count} machines of failed jobs are not yet removed`;
  return [warning("leftovers", message, "zonewright machine leftovers")];
}

function settingWarnings({ waiting, problem }: WarnedOf["settings"]): Warning[] {
  const unread = problem === null ? [] : [warning(
    "settings_not_reloaded",
    `the settings were not reloaded, and the earlier ones apply: ${problem}`,
    "zonewright config check",
  )];
  if (waiting.length === 0) return unread;
  const message = `changed settings wait for a restart: ${waiting.join(", ")}`;
  return [...unread, warning("settings_waiting", message, "restart the agent")];
}
