// The host of a store that no other agent shares. Who asks the store has heard of its host: it is never away, and
// cannot be forgotten.

import { hostEvent } from "../../domain/event.ts";
import type { RegisteredHost } from "../../domain/host.ts";
import type { HostUuid } from "../../domain/id.ts";
import type { Instant, Now } from "../../domain/instant.ts";
import {
  type HostJobs,
  hostNamed,
  type HostRegistration,
  type HostStore,
  type ListedHost,
  listedHost,
} from "../host_store.ts";
import type { Connection } from "./connection.ts";
import { insertEvent } from "./events.ts";
import { countsOfAll } from "./job/counts.ts";

/** The key of what is cached of the host. */
const CORDON = "cordon of the host";

/** A host as a row. */
interface LocalHostRow extends
  Omit<
    RegisteredHost,
    "capabilities" | "brands" | "seen_at" | "cordoned" | "forgotten" | "public_key"
  > {
  /** Lists, as JSON. */
  readonly capabilities: string;
  readonly brands: string;
  readonly cordoned: number;
}

/** The part of the store about its host. */
export function openHosts(db: Connection, now: Now): HostStore {
  const list = () => db.durably(() => selectHosts(db, now()));
  const cordon = (uuid: HostUuid, cordoned: boolean) =>
    db.write("host_cordon", () => writeCordon(db, uuid, cordoned, now()));
  return {
    register: async (registration) => ({
      kind: "registered",
      host: await db.write("host_register", () => register(db, registration, now())),
    }),
    list,
    find: async (name) => hostNamed(await list(), name),
    jobs: () => db.durably(() => countHostJobs(db)),
    cordon: (uuid) => cordon(uuid, true),
    uncordon: (uuid) => cordon(uuid, false),
    forget: async (uuid) => {
      const host = (await list()).find((one) => one.uuid === uuid);
      return host === undefined ? { kind: "not_found" } : { kind: "heard", host };
    },
  };
}

/** Whether the host of the store claims nothing at present. */
export function isCordoned(db: Connection): boolean {
  return db.kept(CORDON, "", () => ({
    value: db.row("SELECT 1 FROM hosts WHERE cordoned = 1") !== undefined,
    chars: 0,
  }));
}

function selectHosts(db: Connection, now: Instant): ListedHost[] {
  const rows = db.rows<LocalHostRow>(
    `SELECT uuid, name, version, capabilities, slots, brands, address, generation, lease_ms, cordoned
       FROM hosts`,
  );
  return rows.map(({ capabilities, brands, cordoned, ...row }) => {
    const host = {
      ...row,
      // The texts were made by this store from lists of words.
      capabilities: JSON.parse(capabilities) as string[],
      brands: JSON.parse(brands) as string[],
      seen_at: now,
      cordoned: cordoned === 1,
      forgotten: false,
      // Nobody else reads this store.
      public_key: null,
    };
    return listedHost(host, now);
  });
}

/** Every job is one of the host. */
function countHostJobs(db: Connection): ReadonlyMap<HostUuid, HostJobs> {
  const rows = db.rows<{ readonly uuid: HostUuid; readonly running: number }>(
    "SELECT uuid, (SELECT count(*) FROM jobs WHERE runner_id IS NOT NULL) AS running FROM hosts",
  );
  const { queued } = countsOfAll(db);
  return new Map(rows.map(({ uuid, running }) => [uuid, { running, queued }]));
}

/** Replaces the host of another runner, as after the state folder was copied. */
function register(
  db: Connection,
  { life: { runner_id, incarnation }, facts, lease_ms }: HostRegistration,
  now: Instant,
): ListedHost {
  db.run("DELETE FROM hosts WHERE uuid <> ?", runner_id);
  const isNew = db.row("SELECT 1 FROM hosts") === undefined;
  db.run(
    `INSERT INTO hosts (uuid, incarnation, name, version, capabilities, slots, brands, address,
                        generation, lease_ms)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9)
     ON CONFLICT (uuid) DO UPDATE
        SET incarnation = ?2, name = ?3, version = ?4, capabilities = ?5, slots = ?6, brands = ?7,
            address = ?8, generation = generation + (incarnation <> ?2), lease_ms = ?9`,
    runner_id,
    incarnation,
    facts.name,
    facts.version,
    JSON.stringify(facts.capabilities),
    facts.slots,
    JSON.stringify(facts.brands),
    facts.address,
    Math.round(lease_ms),
  );
  db.forget(CORDON, "");
  const [host] = selectHosts(db, now);
  if (host === undefined) throw new Error(`Cannot register host ${runner_id}: its row is missing`);
  if (isNew) insertEvent(db, hostEvent(host.uuid, "registered", host.name), now);
  return host;
}

function writeCordon(
  db: Connection,
  uuid: HostUuid,
  cordoned: boolean,
  now: Instant,
): ListedHost | undefined {
  const changed = db.run(
    "UPDATE hosts SET cordoned = ?1 WHERE uuid = ?2 AND cordoned <> ?1",
    Number(cordoned),
    uuid,
  );
  db.forget(CORDON, "");
  const host = selectHosts(db, now).find((one) => one.uuid === uuid);
  if (host === undefined || changed === 0) return host;
  const change = cordoned ? "cordoned" : "uncordoned";
  insertEvent(db, hostEvent(uuid, change, host.name), now);
  return host;
}
