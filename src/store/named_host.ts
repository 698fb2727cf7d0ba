// The host that a caller names by its uuid or its name, or an error that says why none is meant.

import { AgentError, unreachable } from "../domain/error.ts";
import { HOST_CHARS_MAX } from "../domain/host.ts";
import type { HostUuid } from "../domain/id.ts";
import type { ListedHost, NoHost } from "./host_store.ts";
import type { Store } from "./store.ts";

/** Names as errors quote them: a path may have one of any length. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, HOST_CHARS_MAX));
}

/** The host that a path or a query names. @throws {AgentError} `not_found`; `invalid_argument` for several */
export async function hostNamedBy(
  name: string,
  { hosts }: Pick<Store, "hosts">,
): Promise<ListedHost> {
  const found = await hosts.find(name);
  switch (found.kind) {
    case "found":
      return found.host;
    case "not_found":
      throw new AgentError(
        "not_found",
        `Cannot find host ${quoted(name)}: expected a uuid or a name`,
      );
    case "ambiguous": {
      const { uuids } = found;
      const errors = uuids.map((message) => ({ field: "host", code: "Invalid" as const, message }));
      const message = `Cannot choose host ${quoted(name)}: ${uuids.length} hosts have this name: ` +
        `expected one of the uuids ${uuids.join(", ")}`;
      throw new AgentError("invalid_argument", message, { errors });
    }
    default:
      return unreachable(found);
  }
}

/** As hostNamedBy(); undefined for the host of this agent. @throws {AgentError} as hostNamedBy() */
export async function otherHost(
  name: string,
  { store, hostUuid }: { readonly store: Pick<Store, "hosts">; readonly hostUuid: HostUuid },
): Promise<ListedHost | undefined> {
  const host = await hostNamedBy(name, store);
  return host.uuid === hostUuid ? undefined : host;
}

/**
 * The host that a field of a request names.
 * @param action such as `Cannot list jobs`
 * @throws {AgentError} `conflict` naming `field`
 */
export async function hostOf(
  name: string,
  { hosts }: Pick<Store, "hosts">,
  action: string,
  field: string,
): Promise<ListedHost> {
  const found = await hosts.find(name);
  if (found.kind === "found") return found.host;
  const reason = found.kind === "ambiguous" ? found.kind : "unknown";
  throw noHost({ host: name, reason }, action, field);
}

/** The error for a field that names no host which can be used. */
export function noHost(
  { host, reason }: Omit<NoHost, "kind">,
  action: string,
  field: string,
): AgentError {
  const why = {
    unknown: "is not registered: expected the uuid or the name of a host",
    ambiguous: "is the name of several hosts: expected a uuid",
    forgotten: "was forgotten: it takes no job until it is uncordoned",
  }[reason];
  const message = `${action}: host ${quoted(host)} ${why}`;
  return new AgentError("conflict", message, {
    errors: [{ field, code: "Invalid", message }],
  });
}
