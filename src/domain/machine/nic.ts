// The network interfaces of a machine.

import {
  ipv4,
  netmask,
  networkAddress,
  nicAddress,
  orDigits,
  uuid,
} from "../description/formats.ts";
import type { Description, Findings } from "../description/description.ts";
import { type Fields, object, type Relation } from "../description/object.ts";
import {
  about,
  each,
  either,
  flag,
  integer,
  kept,
  listOf,
  named,
  oneNumber,
  oneOf,
  text,
  unless,
} from "../description/value.ts";
import { isIpv4, isIpv6, PORT_MAX } from "../ip_address.ts";
import { isJsonObject, type JsonObject, objectsIn } from "../json.ts";
import {
  allowedFields,
  allowedNicTag,
  boundedList,
  type MachineBrand,
  type Policy,
  refusedBy,
} from "../policy.ts";
import { atMostOf, refusedFor, withoutOther } from "./disk.ts";
import { REFUSED_NIC_PROPERTIES } from "./refused_properties.ts";

/** @see vmadm(8), nics.*.model */
const NIC_MODELS = ["virtio", "e1000", "rtl8139"] as const;

/** Most addresses of one nic that vmadm accepts. */
const ADDRESSES_MAX = 20;
/** Most DHCP client identifiers of one nic that vmadm accepts. */
const DHCP_CIDS_MAX = 20;
const DHCP_CID = /^0x(?:[0-9A-Fa-f]{2}){1,254}$/;
/** Characters of one nic's identifiers, joined by commas. */
const DHCP_CIDS_CHARS_MAX = 1023;
const BLOCKED_PORTS_MAX = 64;
/** Smallest mtu on any network, bytes; host/inventory.ts asks the host for the largest. @see vmadm(8), nics.*.mtu */
const MTU_MIN = 576;
const MTU_MAX = 9000;
/** The name of a network. */
export const NIC_TAG = /^[A-Za-z0-9_/]{1,64}$/;
/** The names that `vmadm update` accepts for the network of an existing nic: none with a slash. */
const PLAIN_NIC_TAG = /^[A-Za-z0-9_]{1,64}$/;
/** Not all zeros. The low bit of the first octet marks a group address, which no nic has. */
const OCTETS = "[0-9A-Fa-f]?[02468ACEace](?::[0-9A-Fa-f]{1,2}){5}";
const MAC = new RegExp(`^(?!00?(?::00?){5}$)${OCTETS}$`);
/** A nic in a route. */
export const NIC_BY_MAC: RegExp = new RegExp(`^macs\\[${OCTETS}\\]$`);

/** Identifies a nic. Stored in lower case, with two digits per octet. */
export const mac: Description<string> = kept(
  text(MAC, "the MAC address of one nic, such as 02:08:20:aa:bb:cc"),
  wholeMac,
);

/** vmadm shows macs without leading zeros of their parts. */
export function wholeMac(text: string): string {
  return text.toLowerCase().replace(/(?<![0-9a-f])[0-9a-f](?![0-9a-f])/g, "0$&");
}

/** Document 3 calls it an integer flag, vmadm a boolean. False is dropped: it says nothing. */
const primary: Description<boolean> = kept(
  either<boolean | number>("1, 0, true or false", flag, oneNumber([1, 0], "1 or 0")),
  (value) => value === true || value === 1 ? true : undefined,
);

const anyTag = text(NIC_TAG, "a name of at most 64 letters, digits, underscores and slashes");

function nicFields(policy: Policy): Fields {
  return {
    nic_tag: allowedNicTag(policy, anyTag),
    model: oneOf(NIC_MODELS),
    ip: about(
      "Needs `netmask`, unless it is `dhcp` or `addrconf`. One of `ips`, if given.",
      nicAddress,
    ),
    netmask: about("Only with an `ip`.", netmask),
    gateway: ipv4,
    primary: about("For one nic at most.", primary),
    mac: about("Not a multicast address. `2:8:20:a:b:c`, as vmadm shows it, is accepted too.", mac),
    vlan_id: about("0 for none.", orDigits(integer(0, 4095))),
    ips: unless(
      listOf(
        about("Each once.", networkAddress),
        ADDRESSES_MAX,
        "addresses",
      ),
      "distinct_nics",
      (ips) => {
        const double = doubleIn(ips.filter((ip) => ip !== null).map(normalAddress));
        return double === undefined
          ? undefined
          : `must hold each address once, found ${double} twice`;
      },
    ),
    gateways: listOf(ipv4, ADDRESSES_MAX, "addresses"),
    mtu: about(
      "Bytes; by default, that of the network. At least 1500 on a physical network, and at " +
        "most the mtu of its link.",
      orDigits(integer(MTU_MIN, MTU_MAX)),
    ),
    network_uuid: about("For programs that manage networks elsewhere.", uuid),
    allowed_dhcp_cids: about(
      `Joined by commas, they have at most ${DHCP_CIDS_CHARS_MAX} characters.`,
      dhcpCids,
    ),
    blocked_outgoing_ports: listOf(
      orDigits(integer(1, PORT_MAX)),
      BLOCKED_PORTS_MAX,
      "ports",
    ),
  };
}

const dhcpCids = unless(
  listOf(
    text(DHCP_CID, "0x and the 1 to 254 bytes of a DHCP client's identifier in hexadecimal"),
    DHCP_CIDS_MAX,
    "identifiers",
  ),
  "joined_text",
  (cids) => {
    const { length } = cids.join(",");
    const words = `must have at most ${DHCP_CIDS_CHARS_MAX} characters in all, joined by commas`;
    return length <= DHCP_CIDS_CHARS_MAX ? undefined : `${words}, found ${length}`;
  },
);

/** The brand of each nic property that only one brand has. */
export const NIC_BRANDS: Readonly<Record<string, MachineBrand>> = { allowed_dhcp_cids: "kvm" };

const SCHEMA_NAMES: Readonly<Record<MachineBrand, string>> = { kvm: "KvmNic", bhyve: "BhyveNic" };

/** The nics of a new machine, or nics to add. @param brand that of the machine; without it, nics of either brand */
export function newNics(
  policy: Policy,
  brand: MachineBrand | undefined,
): Description<(JsonObject | null)[]> {
  const one = nic(nicFields(policy), ["nic_tag", "model"], policy.nicProperties, brand);
  const name = brand === undefined ? "Nic" : SCHEMA_NAMES[brand];
  return boundedList(policy, "nicsMax", named(name, one), "nics");
}

/** Changes to an existing nic, identified by its `mac`. */
export function nicChange(policy: Policy): Description<JsonObject> {
  const plain = text(PLAIN_NIC_TAG, "a name of at most 64 letters, digits and underscores");
  const tag = allowedNicTag(policy, anyTag);
  const fields = { ...nicFields(policy), nic_tag: each(tag, plain) };
  const allowed = [...policy.nicProperties, "mac"];
  return nic(fields, ["mac"], allowed, undefined, "is without an ip: name both");
}

function nic(
  fields: Fields,
  required: readonly string[],
  allowed: readonly string[],
  brand: MachineBrand | undefined,
  loneNetmask = "is without an ip: vmadm would ignore it",
): Description<JsonObject> {
  const own = withoutOther(fields, NIC_BRANDS, brand);
  return object(allowedFields(own, allowed), {
    required,
    refused: refusedFor(fields, NIC_BRANDS, brand, refusedBy(fields, REFUSED_NIC_PROPERTIES)),
    relations: [withNetmask(loneNetmask)],
  });
}

/**
 * An address needs its netmask, and is written in one of two ways.
 * @param alone words for a netmask without an address
 */
function withNetmask(alone: string): Relation {
  return {
    check({ ips }, field, findings, { ip, netmask }) {
      if (isIpv4(ip) && Array.isArray(ips) && !ips.some((one) => `${one}`.startsWith(`${ip}/`))) {
        const words = `must be one of ips, found "${ip}": vmadm ignores it beside others`;
        findings.add(`${field}.ip`, "Invalid", words, "distinct_nics");
      }
      if (isIpv4(ip) && netmask === undefined) {
        findings.add(`${field}.netmask`, "Missing", "is missing, expected the netmask of the ip");
      }
      if (ip === undefined && netmask !== undefined) {
        findings.add(`${field}.netmask`, "Invalid", alone);
      }
    },
    schema: {
      dependentRequired: { netmask: ["ip"] },
      if: { properties: { ip: { not: { enum: ["dhcp", "addrconf"] } } }, required: ["ip"] },
      then: { required: ["netmask"] },
    },
  };
}

/** Rules between the nics of one list. */
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
  const doubleMac = doubleIn(macs.map(String));
  if (doubleMac !== undefined) {
    const words = `must not have two nics with the same mac: found ${doubleMac} twice`;
    findings.add(field, "Invalid", words, "distinct_nics");
  }
  const double = doubleIn(nics.flatMap(addressesOf));
  if (double === undefined) return;
  const words = `must not have two nics with the same address: found ${double} twice`;
  findings.add(field, "Invalid", words, "distinct_nics");
}

function doubleIn(texts: readonly string[]): string | undefined {
  return texts.find((text, index) => texts.indexOf(text) !== index);
}

/** An address in lower case, its prefix without leading zeros. */
function normalAddress(address: string): string {
  return address.toLowerCase().replace(/\/0+/, "/");
}

/** Refuses what new nics share with other nics of their machine; vmadm compares only other machines. */
export function refuseTaken(
  added: readonly JsonObject[],
  kept: readonly JsonObject[],
  field: string,
  findings: Findings,
): void {
  const macs = kept.map(({ mac }) => wholeMac(String(mac)));
  for (const [index, nic] of added.entries()) {
    if (nic.mac !== undefined && macs.includes(String(nic.mac))) {
      const words = `must be new to the machine, found ${nic.mac}, which a nic of it has`;
      findings.add(`${field}[${index}].mac`, "Invalid", words);
    }
    refuseTakenAddress(nic, kept, `${field}[${index}]`, findings);
  }
}

/** Refuses a nic with an address of another nic of its machine. */
export function refuseTakenAddress(
  nic: JsonObject,
  others: readonly JsonObject[],
  path: string,
  findings: Findings,
): void {
  const taken = others.flatMap(addressesOf);
  const double = addressesOf(nic).find((address) => taken.includes(address));
  if (double === undefined) return;
  const words = `must not have the address ${double}, which is that of another of its nics`;
  findings.add(path, "Invalid", words);
}

/** The addresses of one nic. vmadm accepts each for only one nic of a machine, whatever the networks. */
function addressesOf({ ip, ips }: JsonObject): string[] {
  const given = [ip, ...(Array.isArray(ips) ? ips : [])]
    .filter((address): address is string => typeof address === "string")
    .map((address) => address.split("/")[0] ?? "")
    .filter((address) => isIpv4(address) || isIpv6(address));
  // A nic may have an address in both properties, and with several prefixes.
  return [...new Set(given.map((address) => address.toLowerCase()))];
}

/** Refuses routes through a nic that is missing or has no static address. @param field path of the routes */
export function refuseRoutes(
  routes: unknown,
  nics: readonly unknown[],
  field: string,
  findings: Findings,
): void {
  for (const [destination, by] of Object.entries(isJsonObject(routes) ? routes : {})) {
    const [, kind, name] = /^(nics|macs)\[(.+)\]$/.exec(String(by)) ?? [];
    if (kind === undefined) continue;
    const nic = kind === "nics"
      ? nics[Number(name)]
      : nics.find((one) => isJsonObject(one) && one.mac === name);
    if (isJsonObject(nic) && addressesOf(nic).length > 0) continue;
    const found = isJsonObject(nic) ? "which has no address of its own" : "which is not there";
    const words = `must name a nic that has an address of its own: found ${by}, ${found}`;
    findings.add(`${field}.${destination}`, "Invalid", words, "route_nic");
  }
}

/** Routes of a new machine lead through its own nics. */
export const ROUTES_BY_NICS: Relation = {
  check({ nics = [], routes }, field, findings, sent) {
    // A list of nics that is not a list was already reported.
    if (sent.nics !== undefined && !Array.isArray(sent.nics)) return;
    refuseRoutes(routes, Array.isArray(nics) ? nics : [], `${field}.routes`, findings);
  },
};
