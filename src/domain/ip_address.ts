// IP addresses as texts: recognized, never resolved.

const OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const IPV4 = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`);
const IPV6_CHARS_MAX = 39;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;

/** Whether an address, or the name that stands for it, is reached from this host alone. */
export function isLoopback(hostname: string): boolean {
  return LOOPBACK.test(hostname);
}

/** Four decimal parts without leading zeros, which some programs read as octal. */
export function isIpv4(value: unknown): value is string {
  return typeof value === "string" && IPV4.test(value);
}

/** The hexadecimal form of RFC 4291, without a zone and without a dotted tail. */
export function isIpv6(value: unknown): value is string {
  if (typeof value !== "string" || value.length > IPV6_CHARS_MAX) return false;
  const halves = value.split("::");
  if (halves.length > 2) return false;
  const groups = halves.flatMap((half) => half === "" ? [] : half.split(":"));
  if (!groups.every((group) => /^[0-9A-Fa-f]{1,4}$/.test(group))) return false;
  return halves.length === 2 ? groups.length <= 7 : groups.length === 8;
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

/** An IPv4 netmask: ones, then zeros; neither is missing. */
export function isNetmask(value: unknown): value is string {
  if (!isIpv4(value)) return false;
  const bits = value.split(".").map((part) => Number(part).toString(2).padStart(8, "0")).join("");
  return /^1+0+$/.test(bits);
}

/** An address with the length of its prefix, such as `192.0.2.7/24`. */
export function isCidr(value: unknown): value is string {
  if (typeof value !== "string") return false;
  const parts = /^([^/]+)\/(\d{1,3})$/.exec(value);
  if (parts === null) return false;
  const bits = Number(parts[2]);
  return (isIpv4(parts[1]) && bits >= 1 && bits <= 32) ||
    (isIpv6(parts[1]) && bits >= 1 && bits <= 128);
}

// Hosts as an operator names them: `hooks.example.org`, or with a port `hooks.example.org:8443`.

/** The ports that an address need not tell. */
const OWN_PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

/**
 * Whether an address leads to one of the named hosts. A name without a port means the scheme's own
 * one, which a name may also spell out: `example.org:443` is where `https://example.org/` leads.
 */
export function leadsToNamed(url: URL, named: readonly string[]): boolean {
  const { host, hostname, port, protocol } = url;
  return named.includes(host) || named.includes(`${hostname}:${port || OWN_PORTS[protocol]}`);
}
