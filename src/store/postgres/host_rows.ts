// The rows of hosts, and the hosts that they describe.

import type { RegisteredHost } from "../../domain/host.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Taking } from "../../domain/taking.ts";
import { type FoundHost, hostNamed, type ListedHost, listedHost } from "../host_store.ts";
import type { Transaction } from "./connection.ts";

/** For SELECT on `hosts`. */
export const HOST_COLUMNS =
  `uuid, incarnation, name, version, capabilities, slots, brands, address, public_key,
  allow_workflow, allow_caller, generation, seen_at, lease_ms, cordoned, forgotten, away`;

/** A row of HOST_COLUMNS; lists are still JSON texts. */
export interface HostRow
  extends Omit<RegisteredHost, HostList>, Readonly<Record<HostList, string>> {
  readonly incarnation: string;
  readonly away: boolean;
}

/** Columns that contain a list of words as JSON. */
type HostList = "capabilities" | "brands" | keyof Taking;

/** A host as lists show it now. */
export function listed(
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
export async function selectHosts(tx: Transaction): Promise<ListedHost[]> {
  const rows = await tx.rows<HostRow>(`SELECT ${HOST_COLUMNS} FROM hosts ORDER BY name, uuid`);
  return rows.map((row) => listed(row, tx.now));
}

/** Finds a host by uuid or name. */
export async function findHost(tx: Transaction, name: string): Promise<FoundHost> {
  // The server accepts no NUL in a text, so no stored name contains one.
  if (name.includes("\0")) return { kind: "not_found" };
  const rows = await tx.rows<HostRow>(
    `SELECT ${HOST_COLUMNS} FROM hosts WHERE uuid = $1 OR name = $2 ORDER BY uuid`,
    name.toLowerCase(),
    name,
  );
  return hostNamed(rows.map((row) => listed(row, tx.now)), name);
}
