// The hosts of the store, where it has several: lists show the host of each row, and can be narrowed to one.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { read } from "../client/client.ts";
import type { Schemas } from "../client/schema.ts";
import { place, setQuery } from "../browser/route.ts";

type StoreHost = Schemas["ListedHost"];

/** As they were read when the first part of a page asked for them. */
const hosts = signal<readonly StoreHost[]>([]);
let asking = 0;

/** The hosts of the store; none where this one is alone. */
export function useHosts(): readonly StoreHost[] {
  useEffect(() => {
    asking += 1;
    if (asking === 1) {
      read("GET /agent/v1/hosts", "/agent/v1/hosts")
        .then((found) => hosts.value = found)
        // The list beside it says what is wrong.
        .catch(() => {});
    }
    return () => void (asking -= 1);
  }, []);
  return hosts.value.length > 1 ? hosts.value : [];
}

/** Chooses the host that a list is narrowed to; nothing where there is only one. */
export function HostSelect(): JSX.Element | null {
  const several = useHosts();
  const chosen = place.value.query.get("host") ?? "";
  if (several.length === 0 && chosen === "") return null;
  const keyOf = ({ uuid, name }: StoreHost) =>
    several.filter((host) => host.name === name).length === 1 ? name : uuid;
  const known = several.find(({ uuid, name }) => uuid === chosen || name === chosen);
  return (
    <label>
      <span>Host</span>
      <select
        value={known === undefined ? chosen : keyOf(known)}
        onChange={(event) => setQuery({ host: event.currentTarget.value })}
      >
        <option value="">any</option>
        {several.map((host) => (
          <option key={host.uuid} value={keyOf(host)}>
            {host.state === "connected" ? host.name : `${host.name}, ${host.state}`}
          </option>
        ))}
        {chosen !== "" && known === undefined && <option value={chosen}>{chosen}</option>}
      </select>
    </label>
  );
}

interface OfHost {
  readonly host?: string | null | undefined;
  readonly host_uuid?: string | null | undefined;
}

/** Whether something is of the host that a filter names, by its uuid or its name. */
export function isOfHost({ host, host_uuid }: OfHost, named: string | null): boolean {
  return named === null || named === "" || host_uuid === named || host === named;
}
