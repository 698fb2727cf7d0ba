// Which servers the agent may be sent to. Others write the index, anyone who may create a job chooses a URL, and the
// agent can reach hosts in its network that they cannot. So addresses of this host, link-local ones and private
// networks are refused unless the operator allows them.
//
// A name is resolved here and again by fetch(), which takes no address. If its address changes in between, the server
// must still prove the name by its certificate, since https is required unless the operator allows http. Allowing
// http gives up that protection.

import { AgentError } from "../../domain/error.ts";
import { ipv6Groups, isIpv4, leadsToNamed } from "../../domain/ip_address.ts";
import { withMaskedAddress } from "../../domain/masking.ts";
import { transientError } from "./retry.ts";

/** All addresses of a host name, as the system resolves it. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

/** Uses the name servers and the hosts file of this host. */
export const systemResolve: Resolve = async (hostname) => {
  const answers = await Promise.all(
    (["A", "AAAA"] as const).map((type) => addressesOf(hostname, type)),
  );
  return answers.flat();
};

async function addressesOf(hostname: string, type: "A" | "AAAA"): Promise<string[]> {
  try {
    return await Deno.resolveDns(hostname, type);
  } catch (error) {
    // Most names have addresses of one family only.
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** What decides whether an address may be reached. */
export interface Reach {
  readonly allowHttp: boolean;
  /** Hosts that the operator allowed, public or not; a port is part of the name. */
  readonly namedHosts: readonly string[];
  readonly resolve: Resolve;
}

/**
 * Refuses an address by its form: anything but https (and http where allowed), and user names.
 * @throws {AgentError} `upstream`
 */
export function parseRemote(text: string, reach: Pick<Reach, "allowHttp">, base?: URL): URL {
  const url = URL.parse(text, base);
  const shown = JSON.stringify(withMaskedAddress(text).slice(0, 200));
  if (url === null) {
    throw new AgentError(
      "upstream",
      `Cannot connect to ${shown}, expected a URL such as https://host/path`,
    );
  }
  if (url.protocol !== "https:" && !(reach.allowHttp && url.protocol === "http:")) {
    const wanted = reach.allowHttp ? "https: or http:" : "https:";
    throw new AgentError("upstream", `Cannot connect to ${shown}, expected an ${wanted} address`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new AgentError(
      "upstream",
      `Cannot connect to ${url.host}: the URL contains a user name or a password, expected neither`,
    );
  }
  return url;
}

/**
 * Refuses a host that is, or resolves to, a non-public address, unless the operator named it.
 * @throws {AgentError} `upstream`
 */
export async function requirePublic(url: URL, reach: Reach): Promise<void> {
  if (leadsToNamed(url, reach.namedHosts)) return;
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const literal = host.includes(":") || isIpv4(host);
  const addresses = literal ? [host] : await resolved(host, reach.resolve);
  const bad = addresses.find((address) => !isPublicAddress(address));
  if (bad !== undefined) {
    const message = `Cannot connect to ${url.host}: its address ${bad} is not public, and the ` +
      "setting download_host does not name it";
    throw new AgentError("upstream", message);
  }
}

async function resolved(host: string, resolve: Resolve): Promise<readonly string[]> {
  let addresses: readonly string[];
  try {
    addresses = await resolve(host);
  } catch (cause) {
    const message = `Cannot connect to ${host}: the name does not resolve`;
    throw transientError(message, 0, cause);
  }
  if (addresses.length === 0) {
    throw new AgentError("upstream", `Cannot connect to ${host}: the name does not resolve`);
  }
  return addresses;
}

/** IPv4 networks that are not public: RFC 6890 and its successors. */
const IPV4_NOT_PUBLIC: readonly (readonly [number, number, number])[] = [
  [0, 0, 8],
  [10, 0, 8],
  [100, 64, 10],
  [127, 0, 8],
  [169, 254, 16],
  [172, 16, 12],
  [192, 0, 24],
  [192, 168, 16],
  [198, 18, 15],
  [224, 0, 4],
  [240, 0, 4],
];

/** Whether an address, as text, is on the public internet. */
export function isPublicAddress(address: string): boolean {
  if (isIpv4(address)) return isPublicIpv4(address.split(".").map(Number));
  const groups = ipv6Groups(address);
  if (groups === undefined) return false;
  const [first, second] = groups as [number, number, ...number[]];
  const tail = groups.slice(6).flatMap((group) => [group >> 8, group & 0xff]);
  const zeros = (count: number) => groups.slice(0, count).every((group) => group === 0);
  // ::, ::1 and the mapped, compatible and translated forms of IPv4.
  if (zeros(6) || zeros(5) && groups[5] === 0xffff) return isPublicIpv4(tail);
  // Beyond its first 96 bits the prefix is for local use: RFC 8215.
  if (first === 0x64 && second === 0xff9b) {
    return groups.slice(2, 6).every((group) => group === 0) && isPublicIpv4(tail);
  }
  // A 6to4 address contains the address of its router.
  if (first === 0x2002) {
    return isPublicIpv4(groups.slice(1, 3).flatMap((group) => [group >> 8, group & 0xff]));
  }
  // Global unicast is 2000::/3; unique local, link-local and multicast are outside.
  return first >> 13 === 1 && !(first === 0x2001 && second === 0);
}

function isPublicIpv4(octets: readonly number[]): boolean {
  const [a, b] = octets as [number, number, number, number];
  return !IPV4_NOT_PUBLIC.some(([first, second, bits]) => {
    if (bits === 24) return a === first && b === second && octets[2] === 0;
    const mask = (0xffff << (16 - bits)) & 0xffff;
    return (((a << 8) | b) & mask) === (((first << 8) | second) & mask);
  });
}
