// Rows of the host of a store that no other agent shares: whether it may claim, and what its jobs show about it.

import type { JobHost, RegisteredHost } from "../../domain/host.ts";
import type { HostUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Taking } from "../../domain/taking.ts";
import { type ListedHost, listedHost } from "../host_store.ts";
import type { Connection } from "./connection.ts";

/** Cache key of the host. */
const OWN_HOST = "own host";

/** A host as a row. */
interface LocalHostRow extends
  Omit<
    RegisteredHost,
    "capabilities" | "brands" | "seen_at" | "cordoned" | "forgotten" | "public_key" | keyof Taking
  > {
  /** Lists, as JSON. */
  readonly capabilities: string;
  readonly brands: string;
  readonly cordoned: number;
}

/** The host as its jobs show it; undefined before it has registered. */
export function ownHost(db: Connection): JobHost | undefined {
  return db.cached(OWN_HOST, "", () => {
    const row = selectOwnHost(db);
    const value = row === undefined ? undefined : {
      uuid: row.uuid,
      name: row.name,
      state: row.cordoned === 1 ? "cordoned" as const : "connected" as const,
    };
    return { value, chars: 0 };
  });
}

function selectOwnHost(
  db: Connection,
): Pick<LocalHostRow, "uuid" | "name" | "cordoned"> | undefined {
  return db.row("SELECT uuid, name, cordoned FROM hosts");
}

/** Whether a filter names a host that has no job in this store. */
export function isOtherHost(db: Connection, host: HostUuid | undefined): boolean {
  return host !== undefined && host !== ownHost(db)?.uuid;
}

/** Whether the host of the store claims nothing at present. */
export function isCordoned(db: Connection): boolean {
  return ownHost(db)?.state === "cordoned";
}

/** Call after a change of the host. */
export function forgetHost(db: Connection): void {
  db.forget(OWN_HOST, "");
}

/** The host in a list; none before it has registered. */
export function selectHosts(db: Connection, now: Instant): ListedHost[] {
  const rows = db.rows<LocalHostRow>(
    `SELECT uuid, name, version, capabilities, slots, brands, address, generation, lease_ms, cordoned
       FROM hosts`,
  );
  return rows.map(({ capabilities, brands, cordoned, ...row }) => {
    const host = {
      ...row,
      // The store wrote these texts from lists of words.
      capabilities: JSON.parse(capabilities) as string[],
      brands: JSON.parse(brands) as string[],
      // No other agent reads this store.
      public_key: null,
      allow_workflow: [],
      allow_caller: [],
      seen_at: now,
      cordoned: cordoned === 1,
      forgotten: false,
    };
    return listedHost(host, now);
  });
}
