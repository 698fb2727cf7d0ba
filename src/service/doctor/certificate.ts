// What the doctor has to know of a certificate: until when it is good, and for which names.

/** One certificate of a chain. */
export interface CertificateFacts {
  readonly subject: string;
  /** Milliseconds since 1970. */
  readonly fromMs: number;
  readonly untilMs: number;
  /** Names and addresses, as callers write them: `host.example`, `*.example`, `192.0.2.1`, `2001:db8::1`. */
  readonly names: readonly string[];
}

const BLOCK = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Reads a chain; the server's own certificate is the first.
 * @throws {Error} for text that no certificate can be read from
 */
export async function readChain(pem: string): Promise<readonly CertificateFacts[]> {
  const blocks = pem.match(BLOCK) ?? [];
  if (blocks.length === 0) throw new Error("there is no certificate in it");
  const { X509Certificate } = await import("node:crypto");
  return blocks.map((block) => {
    const { subject, validFrom, validTo } = new X509Certificate(block);
    return {
      subject: subject.replaceAll("\n", ", "),
      fromMs: Date.parse(validFrom),
      untilMs: Date.parse(validTo),
      names: namesIn(Uint8Array.from(atob(block.replace(/-----[^-]+-----|\s/g, "")), codeOf)),
    };
  });
}

function codeOf(char: string): number {
  return char.charCodeAt(0);
}

/** The identifier of subjectAltName, 2.5.29.17, as it stands in a certificate. */
const ALT_NAME = [0x06, 0x03, 0x55, 0x1d, 0x11];
const BOOLEAN = 0x01;
const DNS_NAME = 0x82;
const IP_ADDRESS = 0x87;

/**
 * The alternative names, which are all that callers look at. Runtimes before 2.7 do not tell them.
 * @see RFC 5280, 4.2.1.6
 */
function namesIn(der: Uint8Array): string[] {
  const at = der.findIndex((_, start) => ALT_NAME.every((byte, n) => der[start + n] === byte));
  if (at < 0) return [];
  let value = elementAt(der, at + ALT_NAME.length);
  if (value?.tag === BOOLEAN) value = elementAt(der, value.end);
  // An octet string around a sequence of names.
  const list = value === undefined ? undefined : elementAt(der, value.start);
  const names: string[] = [];
  for (let next = list?.start; list !== undefined && next !== undefined && next < list.end;) {
    const one = elementAt(der, next);
    if (one === undefined) break;
    const bytes = der.subarray(one.start, one.end);
    if (one.tag === DNS_NAME) names.push(new TextDecoder().decode(bytes).toLowerCase());
    if (one.tag === IP_ADDRESS) names.push(addressText(bytes));
    next = one.end;
  }
  return names;
}

/** Where the content of an element begins and ends; undefined for what is none. */
function elementAt(
  der: Uint8Array,
  at: number,
): { tag: number; start: number; end: number } | undefined {
  const [tag, first = 0x80] = der.subarray(at, at + 2);
  if (tag === undefined || first === 0x80) return undefined;
  const more = first < 0x80 ? 0 : first & 0x7f;
  let length = first;
  if (more > 0) {
    length = der.subarray(at + 2, at + 2 + more).reduce((sum, byte) => sum * 256 + byte, 0);
  }
  const start = at + 2 + more;
  return start + length > der.length ? undefined : { tag, start, end: start + length };
}

function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = Array.from(
    { length: bytes.length / 2 },
    (_, n) => ((bytes[2 * n] ?? 0) * 256 + (bytes[2 * n + 1] ?? 0)).toString(16),
  );
  return shortAddress(groups.join(":"));
}

/** An address of IPv6 as everybody writes it, which the parser of addresses in URLs knows. */
function shortAddress(text: string): string {
  return URL.canParse(`http://[${text}]`)
    ? new URL(`http://[${text}]`).hostname.slice(1, -1)
    : text;
}

/** Whether a certificate with these names is one for a host; a star stands for one label. */
export function covers(names: readonly string[], host: string): boolean {
  const wanted = host.includes(":") ? shortAddress(host) : host.toLowerCase();
  return names.some((name) =>
    name === wanted ||
    name.startsWith("*.") && wanted.includes(".") &&
      name.slice(1) === wanted.slice(wanted.indexOf("."))
  );
}
