// The network interfaces of a machine.

import { ipv4, ipv4OrDhcp, netmask, networkAddress, uuid } from "../description/formats.ts";
import type { Findings } from "../description/findings.ts";
import { type Fields, object, type Relation } from "../description/object.ts";
import {
  about,
  type Description,
  either,
  flag,
  integer,
  kept,
  listOf,
  named,
  oneNumber,
  oneOf,
  text,
} from "../description/value.ts";
import { isIpv4, isIpv6, PORT_MAX } from "../ip_address.ts";
import { type JsonObject, objectsIn } from "../json.ts";
import { allowedFields, allowedNicTag, boundedList, type Policy, refusedBy } from "../policy.ts";
import { atMostOf } from "./disk.ts";
import { REFUSED_NIC_PROPERTIES } from "./refused_properties.ts";

/** @see vmadm(8), nics.*.model */
export const NIC_MODELS = ["virtio", "e1000", "rtl8139"] as const;

/** vmadm takes at most as many addresses on one nic. */
const ADDRESSES_MAX = 20;
/** Identifiers of DHCP clients that one nic may use; vmadm takes no more. */
const DHCP_CIDS_MAX = 20;
const DHCP_CID = /^0x(?:[0-9A-Fa-f]{2}){1,254}$/;
const BLOCKED_PORTS_MAX = 64;
/** The name of a network. */
export const NIC_TAG = /^[A-Za-z0-9_/]{1,64}$/;
/** Not all zeros; the low bit of the first octet marks a group address, which no nic has. */
const MAC = /^(?!00(?::00){5}$)[0-9A-Fa-f][02468ACEace](?::[0-9A-Fa-f]{2}){5}$/;

/** Names a nic; kept in lower case. */
export const mac: Description<string> = kept(
  text(MAC, "the MAC address of one nic, such as 02:08:20:aa:bb:cc"),
  (value) => value.toLowerCase(),
);

/** Document 3 calls it an integer flag, vmadm a boolean; a nic that is not primary says nothing. */
const primary: Description<boolean> = kept(
  either<boolean | number>("1, 0, true or false", flag, oneNumber([1, 0], "1 or 0")),
  (value) => value === true || value === 1 ? true : undefined,
);

/** Every field of a nic. */
function nicFields(policy: Policy): Fields {
  return {
    nic_tag: allowedNicTag(
      policy,
      text(NIC_TAG, "a name of at most 64 letters, digits, underscores and slashes"),
    ),
    model: oneOf(NIC_MODELS),
    ip: about("Needs `netmask`, unless it is `dhcp`.", ipv4OrDhcp),
    netmask: about("A mask, such as 255.255.255.0; only with an `ip`.", netmask),
    gateway: ipv4,
    primary: about("Of one nic at most.", primary),
    mac: about("Of one nic: neither a group's address nor all zeros.", mac),
    vlan_id: about("0 for none.", integer(0, 4095)),
    ips: listOf(
      about("An address with its prefix, `dhcp` or `addrconf`.", networkAddress),
      ADDRESSES_MAX,
      "addresses",
    ),
    gateways: listOf(ipv4, ADDRESSES_MAX, "addresses"),
    mtu: about("Bytes.", integer(576, 9000)),
    network_uuid: about("For programs that keep networks elsewhere.", uuid),
    allowed_dhcp_cids: listOf(
      text(DHCP_CID, "0x and the bytes of a DHCP client's identifier in hexadecimal"),
      DHCP_CIDS_MAX,
      "identifiers",
    ),
    blocked_outgoing_ports: listOf(integer(1, PORT_MAX), BLOCKED_PORTS_MAX, "ports"),
  };
}

/** The nics of a new machine, or those that one gets. */
export function newNics(policy: Policy): Description<(JsonObject | null)[]> {
  return boundedList(
    policy,
    "nicsMax",
    named("Nic", nic(policy, ["nic_tag", "model"], policy.nicProperties)),
    "nics",
  );
}

/** What changes of a nic that is there, which its `mac` names. */
export function nicChange(policy: Policy): Description<JsonObject> {
  return nic(policy, ["mac"], [...policy.nicProperties, "mac"]);
}

function nic(
  policy: Policy,
  required: readonly string[],
  allowed: readonly string[],
): Description<JsonObject> {
  const fields = nicFields(policy);
  return object(allowedFields(fields, allowed), {
    required,
    refused: refusedBy(fields, REFUSED_NIC_PROPERTIES),
    relations: [WITH_NETMASK],
  });
}

const WITH_NETMASK: Relation = {
  check(_, field, findings, { ip, netmask }) {
    if (isIpv4(ip) && netmask === undefined) {
      findings.add(`${field}.netmask`, "Missing", "is missing, an ip needs it");
    }
    if (ip === undefined && netmask !== undefined) {
      findings.add(`${field}.ip`, "Missing", "is missing, a netmask needs it");
    }
  },
  schema: {
    dependentRequired: { netmask: ["ip"] },
    if: { properties: { ip: { not: { const: "dhcp" } } }, required: ["ip"] },
    then: { required: ["netmask"] },
  },
};

/** What the nics of one list are to one another. */
export function nicRelations(name: string): readonly Relation[] {
  return [
    atMostOf(
      name,
      1,
      { primary: { enum: [1, true] } },
      ({ primary }) => primary === true,
      (found) => `must have at most one primary nic: found ${found}`,
    ),
    {
      check(object, field, findings) {
        refuseDoubles(objectsIn(object[name]), `${field}.${name}`, findings);
      },
    },
  ];
}

function refuseDoubles(nics: readonly JsonObject[], field: string, findings: Findings): void {
  const macs = nics.flatMap(({ mac }) => mac === undefined ? [] : [mac]);
  if (new Set(macs).size < macs.length) {
    findings.add(field, "Invalid", "must not have two nics with the same mac", "distinct_nics");
  }
  const addresses = nics.flatMap(addressesOf);
  const double = addresses.find((address, index) => addresses.indexOf(address) !== index);
  if (double === undefined) return;
  const words = `must not have two nics with the same address: found ${plain(double)} twice`;
  findings.add(field, "Invalid", words, "distinct_nics");
}

/** Refuses what new nics share with those that the machine has; vmadm compares other machines only. */
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

/** The addresses of one nic with their network: on another network the same address is another one. */
function addressesOf({ nic_tag, vlan_id = 0, ip, ips }: JsonObject): string[] {
  const given = [ip, ...(Array.isArray(ips) ? ips : [])]
    .filter((address): address is string => typeof address === "string")
    .map((address) => address.split("/")[0] ?? "")
    .filter((address) => isIpv4(address) || isIpv6(address));
  // One nic may name its address in both ways.
  return [...new Set(given)].map((address) => `${nic_tag}/${vlan_id} ${address.toLowerCase()}`);
}
