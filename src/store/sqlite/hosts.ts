// The host of a store that no other agent shares: its registration, and whether it is cordoned.

import { hostEvent } from "../../domain/event.ts";
import type { HostUuid } from "../../domain/id.ts";
import type { Instant, Now } from "../../domain/instant.ts";
import {
  type HostJobs,
  hostNamed,
  type HostRegistration,
  type HostStore,
  type ListedHost,
} from "../host_store.ts";
import type { Connection } from "./connection.ts";
import { insertEvent } from "./job/events.ts";
import { forgetHost, selectHosts } from "./host_rows.ts";
import { countsOfAll } from "./job/counts.ts";
import type { WaitingClaims } from "./job/waiting_claims.ts";

/** The only host. Its own agent asks the store, so it is never away and cannot be forgotten. */
export function hostStore(db: Connection, begun: WaitingClaims, now: Now): HostStore {
  const list = () => db.durably(() => selectHosts(db, now()));
  const cordon = (uuid: HostUuid, cordoned: boolean) => {
    begun.write();
    return db.write("host_cordon", () => writeCordon(db, uuid, cordoned, now()));
  };
  return {
    register: async (registration) => ({
      kind: "registered",
      host: await db.write("host_register", () => registerHost(db, registration, now())),
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

/** Registers the host, in place of that of another runner, for example after the state folder was copied. */
function registerHost(
  db: Connection,
  registration: HostRegistration,
  now: Instant,
): ListedHost {
  const { uuid } = registration;
  deleteOtherHosts(db, uuid);
  const isNew = selectHosts(db, now).length === 0;
  upsertHost(db, registration);
  forgetHost(db);
  const [host] = selectHosts(db, now);
  if (host === undefined) throw new Error(`Cannot register host ${uuid}: its row is missing`);
  if (isNew) insertEvent(db, hostEvent(host.uuid, "registered", host.name), now);
  return host;
}

function deleteOtherHosts(db: Connection, uuid: HostUuid): void {
  db.run("DELETE FROM hosts WHERE uuid <> ?", uuid);
}

function upsertHost(
  db: Connection,
  { uuid, incarnation, facts, lease_ms }: HostRegistration,
): void {
  db.run(
    `INSERT INTO hosts (uuid, incarnation, name, version, capabilities, slots, brands, address,
                        generation, lease_ms)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9)
     ON CONFLICT (uuid) DO UPDATE
        SET incarnation = ?2, name = ?3, version = ?4, capabilities = ?5, slots = ?6, brands = ?7,
            address = ?8, generation = generation + (incarnation <> ?2), lease_ms = ?9`,
    uuid,
    incarnation,
    facts.name,
    facts.version,
    JSON.stringify(facts.capabilities),
    facts.slots,
    JSON.stringify(facts.brands),
    facts.address,
    Math.round(lease_ms),
  );
}

/** Cordons the host or ends that. @returns undefined when it is another host */
function writeCordon(
  db: Connection,
  uuid: HostUuid,
  cordoned: boolean,
  now: Instant,
): ListedHost | undefined {
  const changed = updateCordon(db, uuid, cordoned);
  forgetHost(db);
  const host = selectHosts(db, now).find((one) => one.uuid === uuid);
  if (host === undefined || !changed) return host;
  const change = cordoned ? "cordoned" : "uncordoned";
  insertEvent(db, hostEvent(uuid, change, host.name), now);
  db.notify({ kind: "host" });
  return host;
}

/** @returns false when it was so already */
function updateCordon(db: Connection, uuid: HostUuid, cordoned: boolean): boolean {
  const sql = "UPDATE hosts SET cordoned = ?1 WHERE uuid = ?2 AND cordoned <> ?1";
  return db.run(sql, Number(cordoned), uuid) > 0;
}

/** The running and queued jobs of the host: all of the store belong to it. */
function countHostJobs(db: Connection): ReadonlyMap<HostUuid, HostJobs> {
  const rows = db.rows<{ readonly uuid: HostUuid; readonly running: number }>(
    "SELECT uuid, (SELECT count(*) FROM jobs WHERE runner_id IS NOT NULL) AS running FROM hosts",
  );
  const { queued } = countsOfAll(db);
  return new Map(rows.map(({ uuid, running }) => [uuid, { running, queued }]));
}
