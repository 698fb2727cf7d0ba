// Calls to and from the agents of other hosts, and the reports that let them list this host's machines.

import { AgentError, systemReason } from "../domain/error.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { openCallCheck, openPeerBook } from "../http/peers/check.ts";
import { openPeers, type Peers } from "../http/peers/peers.ts";
import { reportMachines } from "../machines/reports.ts";
import { Notifier } from "../runtime/notifier.ts";
import type { HostKey } from "../state_dir/host_key.ts";
import type { Store } from "../store/store.ts";
import type { SharedParts } from "./shared_parts.ts";
import type { OwnHost } from "./store.ts";

interface CallingHost {
  readonly own: OwnHost;
  /** Undefined when no other agent shares the store. */
  readonly key: HostKey | undefined;
  readonly vmadm: Vmadm;
}

/**
 * Opens calls to and from the agents of other hosts, and the reports of this host's machines.
 * @returns a vmadm that reports the machines it changes; `peers` is undefined when no other agent shares the store
 * @throws {AgentError} `invalid_argument` for an unusable authority
 */
export async function openAgentPeers(
  { config, log, opened }: Pick<SharedParts, "config" | "log" | "opened">,
  { machineReports: reports }: Pick<Store, "machineReports">,
  { own, key, vmadm }: CallingHost,
): Promise<{ readonly vmadm: Vmadm; readonly peers: Peers | undefined }> {
  if (reports === null || key === undefined) return { vmadm, peers: undefined };
  const changed = new Notifier();
  const authority = config.peer_ca_file.value;
  const authorities = authority === null ? [] : [await readAuthority(authority)];
  const nowMs = () => performance.now();
  const book = openPeerBook(() => reports.hosts(), nowMs);
  const check = openCallCheck({ own, scope: config.peer_scope.value, book, nowMs });
  const reporting = reportMachines({ reports, vmadm, changed, log });
  opened("reports of machines", () => reporting.stop());
  const peers = openPeers({ own, privateKey: key.privateKey, authorities, book, reports, check });
  return { vmadm: withChanges(vmadm, () => changed.notify()), peers };
}

/** Reports each call that has changed a machine, or may have. @returns the same vmadm */
function withChanges(vmadm: Vmadm, changed: () => void): Vmadm {
  const then =
    <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) => (...args: Args) =>
      call(...args).finally(changed);
  return {
    ...vmadm,
    create: then(vmadm.create),
    boot: then(vmadm.boot),
    stop: then(vmadm.stop),
    reboot: then(vmadm.reboot),
    update: then(vmadm.update),
    delete: then(vmadm.delete),
    removeLeft: then(vmadm.removeLeft),
  };
}

async function readAuthority(path: string): Promise<string> {
  try {
    const pem = await Deno.readTextFile(path);
    if (pem.includes("-----BEGIN CERTIFICATE-----")) return pem;
    throw new Error("it contains no certificate");
  } catch (cause) {
    const message = `Cannot use peer_ca_file ${path}: ${
      systemReason(cause)
    }, expected certificates (PEM)`;
    throw new AgentError("invalid_argument", message, { cause });
  }
}
