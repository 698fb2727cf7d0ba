// Nics and routes as create and update receive them: addresses in their normal form, and the checks with
// specific messages, in the tool's order.

import { IPV6, isIpv4 } from "../../domain/ip_address.ts";
import { isJsonObject, type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import { crash, refusal } from "../outcome.ts";
import type { State } from "../host_folder.ts";

const TAG = /^[A-Za-z0-9_/]+$/;
const IPS_MAX = 20;
const CLIENT_IDS_MAX = 20;
/** All client identifiers joined by commas must have fewer characters than this, a limit of the link. */
const CLIENT_IDS_CHARS = 1024;
/** The mtu of every network of this host. */
const MTU_BYTES = 1500;
/** What `ip` may be instead of an address. */
const AUTOMATIC: readonly unknown[] = ["dhcp", "addrconf"];

/**
 * A nic with its MAC, and with its addresses as `ips` and `gateways`.
 * @throws {AgentError} `host` with the tool's words
 */
export function draftNic(given: JsonObject, defaultModel?: JsonValue): JsonObject {
  const nic: JsonObject = { ...given };
  if (nic.model === undefined && defaultModel !== undefined) nic.model = defaultModel;
  const { vrrp_vrid } = nic;
  nic.mac ??= vrrp_vrid === undefined ? randomMac() : vrrpMac(vrrp_vrid);
  // Falsy values are removed; anything else is kept.
  if (nic.primary) nic.primary = true;
  else delete nic.primary;
  if (nic.netmask !== undefined && prefixOf(nic.netmask) === null) {
    throw refusal(`Specified netmask value is invalid: ${String(nic.netmask)}`);
  }
  if (nic.ip !== undefined) {
    if (nic.ips === undefined) nic.ips = [addressOf(nic)];
    delete nic.ip;
  }
  if (nic.gateway !== undefined) {
    nic.gateways ??= [nic.gateway];
    delete nic.gateway;
  }
  nic.ips ??= [];
  return nic;
}

function addressOf(nic: JsonObject): string {
  const { ip, netmask } = nic;
  if (AUTOMATIC.includes(ip)) return String(ip);
  if (netmask === undefined) {
    throw refusal(`Missing .netmask option for NIC: ${JSON.stringify(nic)}`);
  }
  delete nic.netmask;
  return `${String(ip)}/${prefixOf(netmask)}`;
}

/** Bits of a netmask; null if its ones are not contiguous. */
function prefixOf(netmask: JsonValue): number | null {
  if (typeof netmask !== "string" || !isIpv4(netmask)) return null;
  const bits = netmask.split(".").map((part) => Number(part).toString(2).padStart(8, "0")).join("");
  return /^1*0*$/.test(bits) ? bits.replace(/0/g, "").length : null;
}

/** A random locally administered address, like those of the tool's interpreter. */
function randomMac(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(5));
  const rest = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  return ["e2", ...rest].join(":");
}

function vrrpMac(vrid: JsonValue): string {
  return `00:00:5e:00:01:${Number(vrid).toString(16).padStart(2, "0")}`;
}

/** An address with its prefix; the tool has no IPv4 network larger than /8. */
function isCidr(text: string, isV4Only = false): boolean {
  const [address = "", prefix = "", more] = text.split("/");
  const bits = Number.parseInt(prefix, 10);
  if (more !== undefined) return false;
  if (isIpv4(address)) return bits >= 8 && bits <= 32;
  return !isV4Only && IPV6.test(address) && bits >= 0 && bits <= 128;
}

/**
 * Checks the future nics of a machine.
 * @throws {AgentError} `host` with the tool's words
 */
export function refuseNics(nics: readonly JsonObject[]): void {
  const vrids: JsonValue[] = [];
  const macs: JsonValue[] = [];
  const ips: string[] = [];
  for (const nic of nics) {
    const { vrrp_vrid, mac = null } = nic;
    if (vrrp_vrid !== undefined) refuseSecond("VRID", vrids, vrrp_vrid);
    refuseSecond("MAC", macs, mac);
    refuseAddresses(nic, ips);
    if (vrrp_vrid !== undefined && mac !== vrrpMac(vrrp_vrid)) {
      throw refusal("Cannot set both mac and vrrp_vrid");
    }
    if (!nic.model || nic.model === "undefined") {
      throw refusal(`missing .model option for NIC: ${JSON.stringify(nic)}`);
    }
    if (!TAG.test(String(nic.nic_tag ?? ""))) {
      throw refusal(`invalid or missing .nic_tag option for NIC: ${JSON.stringify(nic)}`);
    }
    refuseClientIds(nic);
  }
  refuseRouters(nics, ips);
  if (nics.filter(({ primary }) => primary === true).length > 1) {
    throw refusal("payload specifies more than 1 primary NIC");
  }
}

function refuseSecond(what: string, seen: JsonValue[], value: JsonValue): void {
  if (seen.includes(value)) {
    throw refusal(`Cannot add multiple NICs with the same ${what}: ${String(value)}`);
  }
  seen.push(value);
}

function refuseAddresses(nic: JsonObject, seen: JsonValue[]): void {
  for (const gateway of Array.isArray(nic.gateways) ? nic.gateways : []) {
    if (!isIpv4(String(gateway))) {
      throw refusal(`Static gateways must be IPv4 addresses: ${String(gateway)}`);
    }
  }
  // It iterates over the characters of a string.
  const ips = typeof nic.ips === "string" ? [...nic.ips] : Array.isArray(nic.ips) ? nic.ips : [];
  if (ips.length > IPS_MAX) {
    throw refusal(
      `nic.*.ips contains ${ips.length} addresses, but is limited to ${IPS_MAX}`,
    );
  }
  for (const ip of ips.filter((ip) => !AUTOMATIC.includes(ip))) {
    if (!isCidr(String(ip))) throw refusal(`Invalid IP for NIC: ${JSON.stringify(nic)}`);
    refuseSecond("IP", seen, ip);
  }
}

function refuseClientIds({ allowed_dhcp_cids: ids }: JsonObject): void {
  if (!Array.isArray(ids)) return;
  if (ids.length > CLIENT_IDS_MAX) {
    throw refusal(
      `nics.*.allowed_dhcp_cids contains ${ids.length} Client Identifiers, but is limited to ` +
        CLIENT_IDS_MAX,
    );
  }
  if (ids.join(",").length >= CLIENT_IDS_CHARS) {
    throw refusal("nics.*.allowed_dhcp_cids contains too many long Client Identifiers");
  }
}

/** Nics that stand for a router of several machines. */
function refuseRouters(nics: readonly JsonObject[], ips: readonly string[]): void {
  const routers = nics.filter(({ vrrp_vrid }) => vrrp_vrid !== undefined);
  if (routers.some(({ vrrp_primary_ip }) => vrrp_primary_ip === undefined)) {
    throw refusal("vrrp_vrid set but not vrrp_primary_ip");
  }
  if (nics.length > 0 && routers.length === nics.length) {
    throw refusal("VM cannot contain only VRRP nics");
  }
  const own = ips.map((ip) => ip.split("/")[0]);
  if (routers.some(({ vrrp_primary_ip }) => !own.includes(String(vrrp_primary_ip)))) {
    throw refusal("vrrp_primary_ip must belong to the same VM");
  }
}

/**
 * Checks routes against the nics of their machine.
 * @throws {AgentError} `host` with the tool's words
 */
export function refuseRoutes(routes: JsonValue | undefined, nics: readonly JsonObject[]): void {
  for (const [to, through] of Object.entries(isJsonObject(routes) ? routes : {})) {
    const gateway = String(through);
    if (!isIpv4(to) && !isCidr(to, true)) {
      throw refusal(`Invalid route destination: "${to}" (must be IP address or CIDR)`);
    }
    if (isIpv4(gateway)) continue;
    const [, kind, name = ""] = /^(nics|macs)\[([^\]]+)\]$/.exec(gateway) ?? [];
    if (kind === undefined || (kind === "nics" && !/^\d+$/.test(name))) {
      throw refusal(
        `Invalid route gateway: "${gateway}" (must be IP address, MAC address, or nic)`,
      );
    }
    const nic = kind === "nics" ? nics[Number(name)] : nics.find(({ mac }) => mac === name);
    const ips = Array.isArray(nic?.ips) ? nic.ips : [];
    if (ips.every((ip) => AUTOMATIC.includes(ip))) {
      throw refusal(`Route gateway: "${gateway}" refers to non-existent or DHCP nic`);
    }
  }
}

/**
 * Checks nics against the networks of the host, with one line for each bad one.
 * @throws {AgentError} `host` with the tool's words
 */
export function refuseNetworks({ host }: State, nics: readonly JsonObject[]): void {
  const unknown = nics.map(({ nic_tag }) => String(nic_tag)).filter((tag) =>
    !host.nic_tags.includes(tag)
  );
  if (unknown.length > 0) {
    throw refusal([...new Set(unknown)].map((tag) => `Invalid nic tag "${tag}"`).join("\n"));
  }
  const low = nics.flatMap(({ mtu, mac, nic_tag }, index) =>
    mtu !== undefined && Number(mtu) < MTU_BYTES && !host.etherstubs.includes(String(nic_tag))
      ? [
        `nic ${index} (${String(mac)}): MTU is below the supported MTU (${MTU_BYTES}) of nic tag ` +
        `"${String(nic_tag)}"`,
      ]
      : []
  );
  if (low.length > 0) throw refusal(low.join("\n"));
}

/** The nics of a payload. @throws {AgentError} `aborted` when one is null, which ends the tool */
export function nicsIn(value: JsonValue | undefined): JsonObject[] {
  if (Array.isArray(value) && value.includes(null)) {
    throw crash("Cannot call method 'hasOwnProperty' of null");
  }
  return objectsIn(value);
}

/** A checked nic as the machine has it, with its first address and gateway as separate properties. */
export function nicOf(nic: JsonObject, index: number): JsonObject {
  const { mac = null, nic_tag = null, ips, gateways, netmask: _, ...rest } = nic;
  const [gateway] = Array.isArray(gateways) ? gateways : [];
  const all = Array.isArray(ips) ? ips.map(String) : [];
  const first = all.find((ip) => ip === "dhcp" || isCidr(ip, true));
  const [address = null, prefix] = first?.split("/") ?? [];
  const { blocked_outgoing_ports: ports } = rest;
  return {
    interface: `net${index}`,
    mac,
    nic_tag,
    ...(gateway === undefined ? {} : { gateway, gateways: gateways ?? null }),
    ...(prefix === undefined ? {} : { netmask: maskOf(Number(prefix)) }),
    ...(first === undefined ? {} : { ip: address }),
    ...(all.length === 0 ? {} : { ips: all }),
    ...rest,
    // An empty list, stored as empty text, is read back as the number 0.
    ...(ports === undefined ? {} : { blocked_outgoing_ports: numbersIn(ports) }),
  };
}

function numbersIn(ports: JsonValue): number[] {
  const texts = Array.isArray(ports) ? ports.map(String) : String(ports).split(",");
  return texts.join(",").split(",").map(Number);
}

function maskOf(prefix: number): string {
  const mask = 2 ** 32 - 2 ** (32 - prefix);
  return [24, 16, 8, 0].map((shift) => Math.floor(mask / 2 ** shift) % 256).join(".");
}
