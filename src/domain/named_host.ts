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
