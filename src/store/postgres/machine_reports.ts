// What hosts have reported about their machines: the differences of one host, and the machines of all others.

import type { HostUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { JsonObject } from "../../domain/json.ts";
import { textOrNull } from "../../domain/machine/shown.ts";
import type { MachineFilter, MachinePage } from "../machine_store.ts";
import type { MachineReport, MachineReportStore, ReportedMachines } from "../report_store.ts";
import type { SharedDatabase, Transaction } from "./connection.ts";
import { selectHosts } from "./host_rows.ts";
import { ownerOf } from "./job/owner.ts";
import { isText, Values } from "./statements.ts";

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
      machines.map((machine) => textOrNull(machine[name])?.replaceAll("\0", "\ufffd") ?? null)
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
