// The disks and nics of a machine.

import type { JSX } from "preact";
import type { Schemas } from "../client/schema.ts";
import { Copy } from "./controls.tsx";

type Disk = Schemas["MachineDisk"];
type Nic = Schemas["MachineNic"];

const GIB_MIB = 1_024;

/** MiB in the largest unit that reads well: `512 MiB`, `10 GiB`, `1.5 GiB`. */
export function mibText(mib: number): string {
  if (mib < GIB_MIB) return `${mib} MiB`;
  const gib = mib / GIB_MIB;
  return `${Number.isInteger(gib) ? gib.toLocaleString("en") : gib.toFixed(1)} GiB`;
}

/** The addresses of all nics, without prefix lengths. */
export function addressesText(nics: readonly Nic[]): string {
  return nics.flatMap(({ ips }) => ips.map(withoutPrefix)).join(", ");
}

function withoutPrefix(ip: string): string {
  return ip.replace(/\/\d+$/, "");
}

/** One line for each disk. */
export function Disks({ disks }: { disks: readonly Disk[] }): JSX.Element {
  if (disks.length === 0) return <p class="muted">None</p>;
  return (
    <ul class="devices">
      {disks.map(({ path, media, model, size, boot }, at) => (
        <li key={path ?? at}>
          <strong>{media === "cdrom" ? "CD" : size === null ? "Disk" : mibText(size)}</strong>
          <span class="muted">
            {[model, boot === true ? "boots" : null].filter(Boolean).join(", ")}
          </span>
          {path !== null && <code class="wrap">{path}</code>}
        </li>
      ))}
    </ul>
  );
}

/** One line for each nic. */
export function Nics({ nics }: { nics: readonly Nic[] }): JSX.Element {
  if (nics.length === 0) return <p class="muted">None</p>;
  return (
    <ul class="devices">
      {nics.map((nic, at) => (
        <li key={nic.mac ?? at}>
          <strong>{nic.interface ?? `net${at}`}</strong>
          {nic.ips.map((ip) => (
            <Copy key={ip} text={withoutPrefix(ip)} label="address">
              <code>{ip}</code>
            </Copy>
          ))}
          <span class="muted">{networkText(nic)}</span>
          {nic.mac !== null && <code class="muted">{nic.mac}</code>}
        </li>
      ))}
    </ul>
  );
}

function networkText({ nic_tag, vlan_id, gateway, model }: Nic): string {
  const texts = [
    nic_tag,
    vlan_id === null ? null : `VLAN ${vlan_id}`,
    gateway === null ? null : `gateway ${gateway}`,
    model,
  ];
  return texts.filter((text) => text !== null && text !== "").join(", ");
}
