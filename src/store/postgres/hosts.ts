// The hosts of a shared store: their registration, and how they are cordoned, admitted and forgotten.

import { hostEvent } from "../../domain/event.ts";
import { isHeard } from "../../domain/host.ts";
import type { HostUuid } from "../../domain/id.ts";
import { ANY_HOST } from "../../domain/job/workflow.ts";
import {
  type ForgetOutcome,
  type HostJobs,
  type HostRegistration,
  type HostStore,
  type ListedHost,
  type RegisterOutcome,
} from "../host_store.ts";
import type { SharedDatabase, Transaction } from "./connection.ts";
import { insertEvent } from "./job/events.ts";
import { hostNotice } from "./notices.ts";
import { RowChanged } from "./errors.ts";
import { countLostJobs, failLostJobs, LOST_AT_ONCE } from "./job/host_lost.ts";
import { noteOutage, noteReturn } from "./job/leases.ts";
import { findHost, HOST_COLUMNS, type HostRow, listed, selectHosts } from "./host_rows.ts";

/** Opens the part of the store about hosts. @param own this agent's host, which sends the callbacks of a lost host */
export function openHosts(db: SharedDatabase, own: string): HostStore {
  return {
    register: (registration) => db.write((tx) => register(tx, registration)),
    list: () => db.read(selectHosts),
    find: (name) => db.read((tx) => findHost(tx, name)),
    jobs: () => db.read(countHostJobs),
    cordon: (uuid) => db.write((tx) => admit(tx, uuid, "cordoned")),
    uncordon: (uuid) => db.write((tx) => admit(tx, uuid, "open")),
    forget: async (uuid) => {
      const outcome = await db.write((tx) => forget(tx, uuid));
      if (outcome.kind !== "forgotten") return outcome;
      // The loop ends with the jobs of the host, since a forgotten host gets no new ones.
      for (let found = LOST_AT_ONCE; found === LOST_AT_ONCE;) {
        found = await db.write((tx) => failLostJobs(tx, own));
      }
      return outcome;
    },
  };
}

async function countHostJobs(tx: Transaction): Promise<ReadonlyMap<HostUuid, HostJobs>> {
  const rows = await tx.rows<HostJobs & { readonly host: HostUuid }>(
    `SELECT host, sum(running)::bigint AS running, sum(queued)::bigint AS queued FROM (
       SELECT runner_id AS host, count(*) AS running, 0 AS queued
         FROM jobs WHERE runner_id IS NOT NULL GROUP BY runner_id
       UNION ALL
       SELECT queue, 0, count(*) FROM jobs
        WHERE turn IS NOT NULL AND queue <> '${ANY_HOST}' GROUP BY queue
       UNION ALL
       SELECT queue, 0, count(*) FROM jobs
        WHERE claimable_at IS NOT NULL AND turn IS NULL AND queue <> '${ANY_HOST}' GROUP BY queue) AS counted
      GROUP BY host`,
  );
  return new Map(rows.map(({ host, ...jobs }) => [host, jobs]));
}

/** Locks the row of a host until the end of the transaction. */
function lockHost(tx: Transaction, uuid: HostUuid): Promise<HostRow | undefined> {
  return tx.row<HostRow>(`SELECT ${HOST_COLUMNS} FROM hosts WHERE uuid = $1 FOR UPDATE`, uuid);
}

async function register(
  tx: Transaction,
  { uuid, incarnation, earlier, facts, lease_ms }: HostRegistration,
): Promise<RegisterOutcome> {
  const found = await lockHost(tx, uuid);
  const known = found === undefined || found.incarnation === incarnation ||
    earlier.some((life) => life === found.incarnation);
  if (!known && isHeard(found, tx.now)) return { kind: "held", host: listed(found, tx.now) };
  await noteOutage(tx);
  const written = await tx.run(
    `INSERT INTO hosts (uuid, incarnation, name, version, capabilities, slots, brands, address,
                        generation, seen_at, lease_ms, public_key, allow_workflow, allow_caller)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9, $10, $12, $13, $14)
     ON CONFLICT (uuid) DO UPDATE
        SET incarnation = $2, name = $3, version = $4, capabilities = $5, slots = $6, brands = $7,
            address = $8, generation = hosts.generation + (hosts.incarnation <> $2)::int,
            seen_at = $9, lease_ms = $10, public_key = $12, allow_workflow = $13, allow_caller = $14,
            away = false
      WHERE hosts.incarnation = $11`,
    uuid,
    incarnation,
    facts.name,
    facts.version,
    JSON.stringify(facts.capabilities),
    facts.slots,
    JSON.stringify(facts.brands),
    facts.address,
    tx.now,
    Math.round(lease_ms),
    found?.incarnation ?? incarnation,
    facts.public_key,
    JSON.stringify(facts.allow_workflow),
    JSON.stringify(facts.allow_caller),
  );
  const row = written === 1 ? await lockHost(tx, uuid) : undefined;
  if (row === undefined) {
    throw new RowChanged(`Cannot register host ${uuid}: another agent has just registered it`);
  }
  if (found === undefined) await insertEvent(tx, hostEvent(row.uuid, "registered", row.name));
  else if (found.away) await noteReturn(tx, row);
  return { kind: "registered", host: listed(row, tx.now) };
}

async function admit(
  tx: Transaction,
  uuid: HostUuid,
  admission: "open" | "cordoned",
): Promise<ListedHost | undefined> {
  const found = await lockHost(tx, uuid);
  if (found === undefined) return undefined;
  const cordoned = admission === "cordoned";
  // Cordoning a forgotten host does not readmit it.
  const to = { cordoned, forgotten: cordoned && found.forgotten };
  return await change(tx, found, to, cordoned ? "cordoned" : "uncordoned");
}

async function forget(tx: Transaction, uuid: HostUuid): Promise<ForgetOutcome> {
  const found = await lockHost(tx, uuid);
  if (found === undefined) return { kind: "not_found" };
  if (!found.forgotten && isHeard(found, tx.now)) {
    return { kind: "heard", host: listed(found, tx.now) };
  }
  const to = { cordoned: found.cordoned, forgotten: true };
  const host = await change(tx, found, to, "forgotten");
  // Counted in this transaction, because other agents may fail some of these jobs before this one does.
  return { kind: "forgotten", host, failed_jobs: await countLostJobs(tx, uuid) };
}

async function change(
  tx: Transaction,
  row: HostRow,
  to: Pick<HostRow, "cordoned" | "forgotten">,
  said: "cordoned" | "uncordoned" | "forgotten",
): Promise<ListedHost> {
  const changed = await tx.run(
    `UPDATE hosts SET cordoned = $2, forgotten = $3
      WHERE uuid = $1 AND (cordoned <> $2 OR forgotten <> $3)`,
    row.uuid,
    to.cordoned,
    to.forgotten,
  );
  if (changed > 0) await insertEvent(tx, hostEvent(row.uuid, said, row.name));
  tx.notify(hostNotice(row.uuid));
  return listed({ ...row, ...to }, tx.now);
}
