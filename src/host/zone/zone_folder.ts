// Finding the root folder of a zone, and noticing when it becomes another one. The guest's
// hypervisor may own what is inside that folder, so nothing on the way to it may be a link, and its
// identity is compared again after every step that used its name.

import { normalize } from "@std/path";
import { AgentError } from "../../domain/error.ts";
import type { FileStatus } from "../host_files.ts";
import type { Transport } from "../transport.ts";

/** The root of a zone as it was found. */
export interface ZoneFolder {
  readonly zonepath: string;
  /** Absolute path, `<zonepath>/root`. */
  readonly path: string;
  readonly status: FileStatus;
}

const COMPONENT = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/**
 * Finds `<zonepath>/root`, every folder on the way being a real one.
 * @param zonepath As `vmadm get` reports it, e.g. `/zones/<uuid>`
 * @throws {AgentError} `forbidden` when the zonepath is not below the transport's zones, or leads
 * through a link; `not_found` when it is not there
 */
export async function findZoneFolder(transport: Transport, zonepath: string): Promise<ZoneFolder> {
  const { zonesRoot } = transport;
  const action = `Cannot use zonepath ${JSON.stringify(zonepath)}`;
  const base = zonesRoot === "/" ? "/" : `${zonesRoot}/`;
  const components = zonepath.slice(base.length).split("/");
  if (
    !zonepath.startsWith(base) || normalize(zonepath) !== zonepath ||
    !components.every((component) => COMPONENT.test(component))
  ) {
    throw new AgentError("forbidden", `${action}: expected a folder below ${zonesRoot}`);
  }
  let path = zonesRoot;
  const zones = await realFolder(transport, path, action);
  let status = zones;
  for (const component of [...components, "root"]) {
    path = path === "/" ? `/${component}` : `${path}/${component}`;
    status = await realFolder(transport, path, action);
  }
  if (status.owner !== zones.owner) {
    const owners = `user ${status.owner}, wanted ${zones.owner}`;
    throw new AgentError("forbidden", `${action}: ${JSON.stringify(path)} belongs to ${owners}`);
  }
  return { zonepath, path, status };
}

async function realFolder(
  transport: Transport,
  path: string,
  action: string,
): Promise<FileStatus> {
  const status = await transport.files.status(path);
  if (status === null) {
    throw new AgentError("not_found", `${action}: ${JSON.stringify(path)} is not there`);
  }
  if (status.kind !== "folder") {
    const found = status.kind === "link" ? "a symbolic link" : "no folder";
    throw new AgentError("forbidden", `${action}: ${JSON.stringify(path)} is ${found}`);
  }
  return status;
}

/**
 * Returns only while the zone's root is the folder that was found before.
 * @throws {AgentError} `conflict` when it is another one now
 */
export async function checkSameFolder(
  transport: Transport,
  before: ZoneFolder,
): Promise<void> {
  const now = await findZoneFolder(transport, before.zonepath);
  if (now.status.identity !== before.status.identity) {
    const message = `Cannot trust ${JSON.stringify(before.path)}: ` +
      "it was exchanged for another folder while a file was being placed";
    throw new AgentError("conflict", message);
  }
}
