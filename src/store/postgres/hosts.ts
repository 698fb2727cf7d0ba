// The rows of hosts in a shared store, and of the machines that they report.

import { hostEvent } from "../../domain/event.ts";
import { isHeard, type RegisteredHost } from "../../domain/host.ts";
import type { HostUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Taking } from "../../domain/job/taking.ts";
import { ANY_HOST } from "../../domain/job/workflow.ts";
import type { JsonObject } from "../../domain/json.ts";
import { textOf } from "../../domain/machine/shown.ts";
import {
  type ForgetOutcome,
  type FoundHost,
  type HostJobs,
  hostNamed,
  type HostRegistration,
  type HostStore,
  type ListedHost,
  listedHost,
  type RegisterOutcome,
} from "../host_store.ts";
import type { MachineFilter, MachinePage } from "../machine_store.ts";
import type { MachineReport, MachineReportStore, ReportedMachines } from "../report_store.ts";
import type { SharedDatabase, Transaction } from "./connection.ts";
import { insertEvent } from "./events.ts";
import { hostNotice } from "./notices.ts";
import { RowChanged } from "./errors.ts";
import { isText, Values } from "./statements.ts";
import { countLostJobs, failLostJobs, LOST_AT_ONCE } from "./job/host_lost.ts";
import { noteOutage, noteReturn } from "./job/leases.ts";
import { ownerOf } from "./job/owner.ts";

const COLUMNS = `uuid, incarnation, name, version, capabilities, slots, brands, address, public_key,
  allow_workflow, allow_caller, generation, seen_at, lease_ms, cordoned, forgotten, away`;

/** A row of COLUMNS; lists are still JSON texts. */
interface HostRow extends Omit<RegisteredHost, HostList>, Readonly<Record<HostList, string>> {
  readonly incarnation: string;
  readonly away: boolean;
}

/** Columns that contain a list of words as JSON. */
type HostList = "capabilities" | "brands" | keyof Taking;

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

function listed(
  { incarnation: _, away: _away, ...row }: HostRow,
  now: Instant,
): ListedHost {
  // This store made the texts from lists of words.
  const words = (name: HostList) => JSON.parse(row[name]) as string[];
  return listedHost({
    ...row,
    capabilities: words("capabilities"),
    brands: words("brands"),
    allow_workflow: words("allow_workflow"),
    allow_caller: words("allow_caller"),
  }, now);
}

/** All hosts, in the order of their names. */
async function selectHosts(tx: Transaction): Promise<ListedHost[]> {
  const rows = await tx.rows<HostRow>(`SELECT ${COLUMNS} FROM hosts ORDER BY name, uuid`);
  return rows.map((row) => listed(row, tx.now));
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

/** Finds a host by uuid or name. */
export async function findHost(tx: Transaction, name: string): Promise<FoundHost> {
  // The server accepts no NUL in a text, so no stored name contains one.
  if (name.includes("\0")) return { kind: "not_found" };
  const rows = await tx.rows<HostRow>(
    `SELECT ${COLUMNS} FROM hosts WHERE uuid = $1 OR name = $2 ORDER BY uuid`,
    name.toLowerCase(),
    name,
  );
  return hostNamed(rows.map((row) => listed(row, tx.now)), name);
}

/** Locks the row of a host until the end of the transaction. */
function lockHost(tx: Transaction, uuid: HostUuid): Promise<HostRow | undefined> {
  return tx.row<HostRow>(`SELECT ${COLUMNS} FROM hosts WHERE uuid = $1 FOR UPDATE`, uuid);
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

/** Opens the part of the store about reported machines. @param own the host of this agent */
export function openMachineReports(db: SharedDatabase, own: string): MachineReportStore {
  return {
    report: (report) => db.write((tx) => writeReport(tx, own, report)),
    list: (filter, page) => db.read((tx) => selectReported(tx, own, filter, page)),
    hosts: () => db.read(async (tx) => ({ now: tx.now, hosts: await selectHosts(tx) })),
    ownerOf: (uuid) => db.read((tx) => ownerOf(tx, uuid, own)),
  };
}

async function writeReport(
  tx: Transaction,
  own: string,
  { machines, gone }: MachineReport,
): Promise<void> {
  if (gone === null) await deleteUnlisted(tx, own, machines.map(({ uuid }) => String(uuid)));
  else if (gone.length > 0) await deleteReported(tx, own, gone);
  if (machines.length > 0) await upsertReported(tx, own, machines);
  await upsertReport(tx, own);
}

async function deleteUnlisted(
  tx: Transaction,
  own: string,
  listed: readonly string[],
): Promise<void> {
  await tx.run("DELETE FROM reported_machines WHERE host = $1 AND uuid <> ALL($2)", own, listed);
}

async function deleteReported(
  tx: Transaction,
  own: string,
  gone: readonly string[],
): Promise<void> {
  await tx.run("DELETE FROM reported_machines WHERE host = $1 AND uuid = ANY($2)", own, gone);
}

async function upsertReported(
  tx: Transaction,
  own: string,
  machines: readonly JsonObject[],
): Promise<void> {
  await tx.run(
    `INSERT INTO reported_machines (host, uuid, machine, state, brand, alias)
     SELECT $1, reported.* FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) AS reported
     ON CONFLICT (host, uuid) DO UPDATE SET machine = excluded.machine, state = excluded.state,
       brand = excluded.brand, alias = excluded.alias`,
    own,
    machines.map(({ uuid }) => String(uuid)),
    machines.map((machine) => JSON.stringify(machine)),
    ...["state", "brand", "alias"].map((name) =>
      machines.map((machine) => textOf(machine[name])?.replaceAll("\0", "\ufffd") ?? null)
    ),
  );
}

/** Notes when the host has reported. */
async function upsertReport(tx: Transaction, own: string): Promise<void> {
  await tx.run(
    `INSERT INTO machine_reports (host, reported_at) VALUES ($1, $2)
     ON CONFLICT (host) DO UPDATE SET reported_at = $2`,
    own,
    tx.now,
  );
}

async function selectReported(
  tx: Transaction,
  own: string,
  filter: MachineFilter,
  { limit, offset, without }: MachinePage,
): Promise<ReportedMachines> {
  const values = new Values();
  const found = reportedBy(own, filter, without, values);
  const count = await countReported(tx, found, values);
  const rows = limit === 0 ? [] : await selectReportedRows(tx, found, values, limit, offset);
  const machines = rows.map(({ machine, ...row }) => ({
    ...row,
    // An agent made the text from an object.
    machine: JSON.parse(machine) as JsonObject,
  }));
  return { now: tx.now, machines, count };
}

/** SQL for the machines of other hosts that match a filter. Of several hosts that report one, the first by name has it. */
function reportedBy(
  own: string,
  { state, brand, alias, host }: MachineFilter,
  without: readonly string[],
  values: Values,
): string {
  const matches = Object.entries({ state, brand, alias, host }).map(([name, text]) =>
    text === undefined ? "" : ` AND ${isText(`m.${name}`, text, values)}`
  ).join("");
  return `FROM reported_machines m JOIN hosts h ON h.uuid = m.host
      WHERE m.host <> ${values.add(own)} AND NOT h.forgotten
        AND m.uuid <> ALL(${values.add(without)}::text[])
        AND NOT EXISTS (SELECT 1 FROM reported_machines n JOIN hosts g ON g.uuid = n.host
              WHERE n.uuid = m.uuid AND n.host <> ${values.add(own)} AND NOT g.forgotten
                AND (g.name, g.uuid) < (h.name, h.uuid))${matches}`;
}

/** @param found as reportedBy() returns it, with its values */
async function countReported(tx: Transaction, found: string, values: Values): Promise<number> {
  const sql = `SELECT count(*) AS machines ${found}`;
  return (await tx.row<{ machines: number }>(sql, ...values.all))?.machines ?? 0;
}

/** @param found as reportedBy() returns it, with its values */
async function selectReportedRows(
  tx: Transaction,
  found: string,
  values: Values,
  limit: number,
  offset: number,
): Promise<ReportedRow[]> {
  return await tx.rows<ReportedRow>(
    `SELECT host, name, machine, (SELECT reported_at FROM machine_reports r WHERE r.host = page.host)
       FROM (SELECT m.host, h.name, m.uuid, m.machine ${found}
              ORDER BY h.name, m.host, m.uuid
              LIMIT ${values.add(limit)} OFFSET ${values.add(offset)}) AS page
      ORDER BY name, host, uuid`,
    ...values.all,
  );
}

/** A row of a reported machine. */
interface ReportedRow {
  readonly host: HostUuid;
  readonly name: string;
  readonly reported_at: Instant;
  readonly machine: string;
}
