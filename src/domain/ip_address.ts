// IP addresses as texts: recognized, never resolved.

/** The highest port of TCP and UDP. */
export const PORT_MAX = 65_535;

const OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const QUAD = `${OCTET}(?:\\.${OCTET}){3}`;
/** Four decimal parts without leading zeros, which some programs read as octal. */
export const IPV4: RegExp = new RegExp(`^${QUAD}$`);

/** A pattern of `least` to `most` groups of an IPv6 address, separated by colons. */
function groups(least: number, most: number): string {
  if (most === 0) return "";
  const group = "[0-9A-Fa-f]{1,4}";
  const some = `${group}(?::${group}){${Math.max(0, least - 1)},${most - 1}}`;
  return least === 0 ? `(?:${some})?` : some;
}

/** Eight groups, or fewer around the place of those that are zero. */
const SEXTETS = [
  groups(8, 8),
  ...Array.from({ length: 8 }, (_, left) => `${groups(left, left)}::${groups(0, 7 - left)}`),
].join("|");
/** The hexadecimal form of RFC 4291, without a zone and without a dotted tail. */
export const IPV6: RegExp = new RegExp(`^(?:${SEXTETS})$`);

const PREFIX_32 = "(?:0{0,2}[1-9]|0?[12][0-9]|0?3[0-2])";
const PREFIX_128 = "(?:0{0,2}[1-9]|0?[1-9][0-9]|1[01][0-9]|12[0-8])";
/** An IPv4 address with the length of its prefix, such as `192.0.2.7/24`. */
export const IPV4_NETWORK: RegExp = new RegExp(`^${QUAD}/${PREFIX_32}$`);
/** An IPv6 address with the length of its prefix. */
export const IPV6_NETWORK: RegExp = new RegExp(`^(?:${SEXTETS})/${PREFIX_128}$`);

/** A pattern of the texts that match one of these, each of which matches a whole text. */
export function anyOf(...patterns: readonly RegExp[]): RegExp {
  const inner = patterns.map(({ source }) => source.replace(/^\^/, "").replace(/\$$/, ""));
  return new RegExp(`^(?:${inner.join("|")})$`);
}

/** Where a route leads: an IPv4 address or network. */
export const DESTINATION: RegExp = anyOf(IPV4, IPV4_NETWORK);

/** Every IPv4 netmask except 0.0.0.0: ones, then zeros. */
export const NETMASKS: readonly string[] = Array.from(
  { length: 32 },
  (_, zeros) =>
    [24, 16, 8, 0].map((shift) => ((2 ** 32 - 2 ** zeros) / 2 ** shift) & 255).join("."),
);

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;

/** Whether an address or a name is a loopback one. */
export function isLoopback(hostname: string): boolean {
  return LOOPBACK.test(hostname);
}

/** Whether a value is an IPv4 address. */
export function isIpv4(value: unknown): value is string {
  return typeof value === "string" && IPV4.test(value);
}

/** Whether a value is an IPv6 address. */
export function isIpv6(value: unknown): value is string {
  return typeof value === "string" && IPV6.test(value);
}

/** The eight numbers of an IPv6 address in any form without a zone; undefined for another text. */
export function ipv6Groups(address: string): number[] | undefined {
  // A zone such as %eth0 only occurs on addresses of the link.
  if (!URL.canParse(`http://[${address}]/`)) return undefined;
  const normal = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [head = "", tail] = normal.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array<string>(8 - left.length - right.length).fill("0");
  return [...left, ...zeros, ...right].map((group) => parseInt(group, 16));
}

/** The default ports of the schemes. */
const OWN_PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

/**
 * Whether an address leads to one of the hosts that an operator named, such as `hooks.example.org`
 * or `hooks.example.org:8443`. A name without a port means the default port of the scheme, which a
 * name may also state: `example.org:443` is where `https://example.org/` leads.
 */
export function leadsToNamed(url: URL, named: readonly string[]): boolean {
  const { host, hostname, port, protocol } = url;
  return named.includes(host) || named.includes(`${hostname}:${port || OWN_PORTS[protocol]}`);
}
