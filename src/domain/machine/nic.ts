// The network interfaces of a machine.

import {
  type Check,
  type Findings,
  integer,
  listOf,
  oneOf,
  readObject,
  text,
  uuid,
} from "../field_check.ts";
import { isCidr, isIpv4, isIpv6, isNetmask } from "../ip_address.ts";
import { isJsonObject, type JsonObject } from "../json.ts";
import { allowedNicTag, type Policy, refusedBy } from "../policy.ts";
import { REFUSED_NIC_PROPERTIES } from "./refused_properties.ts";

/** @see vmadm(8), nics.*.model */
export const NIC_MODELS = ["virtio", "e1000", "rtl8139"] as const;

/** vmadm takes at most as many addresses on one nic. */
const ADDRESSES_MAX = 20;
/** Identifiers of DHCP clients that one nic may use; vmadm takes no more. */
const DHCP_CIDS_MAX = 20;
const DHCP_CID = /^0x(?:[0-9A-Fa-f]{2}){1,254}$/;
const BLOCKED_PORTS_MAX = 64;
const PORT_MAX = 65_535;
const NIC_TAG = /^[A-Za-z0-9_/]{1,64}$/;
/** Not all zeros; the low bit of the first octet marks a group address, which no nic has. */
const MAC = /^(?!00(?::00){5}$)[0-9a-f][02468ace](?::[0-9a-f]{2}){5}$/i;

/** The check of one new nic. */
export function nicCheck(policy: Policy): Check {
  return nicWith(policy, ["nic_tag", "model"], policy.nicProperties);
}

/** The check of what changes of a nic that is there, which its `mac` names. */
export function nicChangeCheck(policy: Policy): Check {
  return nicWith(policy, ["mac"], [...policy.nicProperties, "mac"]);
}

function nicWith(policy: Policy, required: readonly string[], allowed: readonly string[]): Check {
  const refused = refusedBy(allowed, Object.keys(CHECKS), REFUSED_NIC_PROPERTIES);
  const checks = { ...CHECKS, nic_tag: allowedNicTag(policy, nicTag) };
  const shape = { checks, required, refused };
  return (value, field, findings) => {
    const nic = readObject(value, field, shape, findings);
    if (isJsonObject(value)) checkAddress(value, field, findings);
    return nic;
  };
}

/** What is wrong with the nics of a machine together. */
export function checkNics(nics: readonly unknown[], field: string, findings: Findings): void {
  const primaries = nics.filter((nic) => isJsonObject(nic) && nic.primary === true).length;
  if (primaries > 1) {
    findings.add(field, "Invalid", `must have at most one primary nic: found ${primaries}`);
  }
  const macs = nics.flatMap((nic) => isJsonObject(nic) && nic.mac !== undefined ? [nic.mac] : []);
  if (new Set(macs).size < macs.length) {
    findings.add(field, "Invalid", "must not have two nics with the same mac");
  }
  const addresses = nics.filter(isJsonObject).flatMap(addressesOf);
  const double = addresses.find((address, index) => addresses.indexOf(address) !== index);
  if (double !== undefined) {
    const words = `must not have two nics with the same address: found ${plain(double)} twice`;
    findings.add(field, "Invalid", words);
  }
}

/** What new nics would share with those that a machine has already; vmadm asks other machines only. */
export function refuseTaken(
  added: readonly JsonObject[],
  kept: readonly JsonObject[],
  field: string,
  findings: Findings,
): void {
  const macs = kept.map(({ mac }) => mac);
  const taken = kept.flatMap(addressesOf);
  for (const [index, nic] of added.entries()) {
    if (nic.mac !== undefined && macs.includes(nic.mac)) {
      findings.add(`${field}[${index}].mac`, "Invalid", "is that of a nic which the machine has");
    }
    const double = addressesOf(nic).find((address) => taken.includes(address));
    if (double === undefined) continue;
    const words = `must not have the address ${
      plain(double)
    }, which is that of another of its nics`;
    findings.add(`${field}[${index}]`, "Invalid", words);
  }
}

/** An address of addressesOf() without its network. */
function plain(address: string): string {
  return address.slice(address.indexOf(" ") + 1);
}

/** The addresses of one nic with their network: the same one on another network is another one. */
function addressesOf({ nic_tag, vlan_id = 0, ip, ips }: JsonObject): string[] {
  const given = [ip, ...(Array.isArray(ips) ? ips : [])]
    .filter((address): address is string => typeof address === "string")
    .map((address) => address.split("/")[0] ?? "")
    .filter((address) => isIpv4(address) || isIpv6(address));
  // One nic may say its address in both ways.
  return [...new Set(given)].map((address) => `${nic_tag}/${vlan_id} ${address.toLowerCase()}`);
}

function checkAddress(nic: JsonObject, field: string, findings: Findings): void {
  if (isIpv4(nic.ip) && nic.netmask === undefined) {
    findings.add(`${field}.netmask`, "Missing", "is missing, an ip needs it");
  }
  if (nic.ip === undefined && nic.netmask !== undefined) {
    findings.add(`${field}.ip`, "Missing", "is missing, a netmask says nothing without it");
  }
}

const ip: Check = (value, field, findings) => {
  if (value === "dhcp" || isIpv4(value)) return value;
  findings.add(field, "Invalid", 'must be an IPv4 address or "dhcp"');
  return undefined;
};

const ipv4: Check = (value, field, findings) => {
  if (isIpv4(value)) return value;
  findings.add(field, "Invalid", "must be an IPv4 address");
  return undefined;
};

const netmask: Check = (value, field, findings) => {
  if (isNetmask(value)) return value;
  findings.add(field, "Invalid", "must be an IPv4 netmask such as 255.255.255.0");
  return undefined;
};

const cidr: Check = (value, field, findings) => {
  if (value === "dhcp" || value === "addrconf" || isCidr(value)) return value;
  const words = 'must be an address with its prefix such as 192.0.2.7/24, "dhcp" or "addrconf"';
  findings.add(field, "Invalid", words);
  return undefined;
};

/** Document 3 calls it an integer flag, vmadm a boolean; a nic that is not primary says nothing. */
const primary: Check = (value, field, findings) => {
  if (value === true || value === 1) return true;
  if (value !== false && value !== 0) {
    findings.add(field, "Invalid", "must be 1, 0, true or false");
  }
  return undefined;
};

/** Names a nic. */
export const mac: Check = (value, field, findings) => {
  if (typeof value === "string" && MAC.test(value)) return value.toLowerCase();
  findings.add(field, "Invalid", "must be the MAC address of one nic, such as 02:08:20:aa:bb:cc");
  return undefined;
};

const nicTag = text(NIC_TAG, "a name of at most 64 letters, digits, underscores and slashes");

const CHECKS: Readonly<Record<string, Check>> = {
  nic_tag: nicTag,
  model: oneOf(NIC_MODELS),
  ip,
  netmask,
  gateway: ipv4,
  primary,
  mac,
  vlan_id: integer(0, 4095),
  ips: listOf(cidr, ADDRESSES_MAX, "addresses"),
  gateways: listOf(ipv4, ADDRESSES_MAX, "addresses"),
  mtu: integer(576, 9000),
  network_uuid: uuid,
  allowed_dhcp_cids: listOf(
    text(DHCP_CID, "0x and the bytes of a DHCP client's identifier in hexadecimal"),
    DHCP_CIDS_MAX,
    "identifiers",
  ),
  blocked_outgoing_ports: listOf(integer(1, PORT_MAX), BLOCKED_PORTS_MAX, "ports"),
};
