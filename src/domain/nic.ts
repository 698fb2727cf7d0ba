// The network interfaces of a machine.

import {
  type Check,
  type Findings,
  integer,
  listOf,
  oneOf,
  readObject,
  text,
} from "./field_check.ts";
import { isCidr, isIpv4, isNetmask } from "./ip_address.ts";
import { isJsonObject, type JsonObject } from "./json.ts";
import { OTHER_NIC_PROPERTIES, type Policy, refusedBy } from "./policy.ts";
import { allowedNicTag } from "./policy_check.ts";

/** @see vmadm(8), nics.*.model */
export const NIC_MODELS = ["virtio", "e1000", "rtl8139"] as const;

/** vmadm takes at most as many addresses on one nic. */
const ADDRESSES_MAX = 20;
const NIC_TAG = /^[A-Za-z0-9_/]{1,64}$/;
/** Not all zeros; the low bit of the first octet marks a group address, which no nic has. */
const MAC = /^(?!00(?::00){5}$)[0-9a-f][02468ace](?::[0-9a-f]{2}){5}$/i;

/** The check of one nic. */
export function nicCheck(policy: Policy): Check {
  const refused = refusedBy(policy.nicProperties, Object.keys(CHECKS), OTHER_NIC_PROPERTIES);
  const checks = { ...CHECKS, nic_tag: allowedNicTag(policy, nicTag) };
  const shape = { checks, required: ["nic_tag", "model"], refused };
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

const mac: Check = (value, field, findings) => {
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
};
