// Checks of access: the tokens, the certificate and the audit file, as configured, and whether the agent answers
// where the configuration says that it listens. Of a certificate it matters when it expires, and which names it
// covers.

import { dirname } from "@std/path";
import { bytesOfBase64 } from "../../domain/bytes.ts";
import { AgentError, ERROR_CODES, messageOf, systemReason } from "../../domain/error.ts";
import { isJsonObject, type JsonValue } from "../../domain/json.ts";
import { DAY_SECONDS, MS_PER_SECOND, type Now } from "../../domain/instant.ts";
import type { Token } from "../../domain/token.ts";
import { OTHERS } from "../../runtime/regular_file.ts";
import { type HealthCheck, type HealthFinding, ok, skipped } from "./check.ts";
import { closeFile, lstatOf, modeOf, statOf } from "./folders.ts";
import { serviceCommand } from "../manager.ts";

/** A certificate that ends within so many days should have been renewed. */
const DAYS_LEFT_MIN = 30;

interface TokenPlace {
  readonly path: string;
  readonly needed: boolean;
  /** Reads them as the agent does. @throws {AgentError} */
  readonly read: (path: string) => Promise<readonly Token[]>;
}

/** The file of the tokens: closed to others, undamaged, and not empty when tokens are required. */
export function tokensCheck({ path, needed, read }: TokenPlace): HealthCheck {
  return {
    name: "tokens",
    about: "the tokens are intact, closed to others, and present where required",
    async examine(): Promise<HealthFinding> {
      const found = await lstatOf(path);
      if (found?.isFile && isOpen(found)) return openToOthers(path, found);
      const fix = "zonewright token create --name NAME --scope admin";
      let tokens: readonly Token[];
      try {
        tokens = await read(path);
      } catch (error) {
        const again = `move ${path} away, then ${fix}: every caller needs a new one`;
        return { outcome: "fail", detail: wordsOf(error), fix: again };
      }
      const admins = tokens.filter(({ scope }) => scope === "admin").length;
      const detail = `${tokens.length} tokens, ${admins} of them admin`;
      if (tokens.length > 0) return ok(detail);
      if (!needed) return skipped("there are none, and none is required");
      return { outcome: "fail", detail: "a token is required, and there is none", fix };
    },
  };
}

/** The certificate, and the addresses it is served at. */
export interface TlsPlace {
  readonly certPath: string | null;
  readonly keyPath: string | null;
  /** Names and addresses that callers use. */
  readonly hosts: readonly string[];
  readonly now: Now;
  /** Checks that TLS can be served with both. @throws {AgentError} */
  readonly prove: (files: { certPath: string; keyPath: string }) => Promise<unknown>;
}

/** The certificate: readable, matching its key, not about to expire, and valid for the names in use. */
export function tlsCheck({ certPath, keyPath, hosts, now, prove }: TlsPlace): HealthCheck {
  return {
    name: "tls",
    about: "the certificate fits its key, is valid for a month, and covers the listen addresses",
    async examine(): Promise<HealthFinding> {
      if (certPath === null || keyPath === null) return skipped("no certificate is configured");
      const key = await statOf(keyPath);
      if (key !== undefined && isOpen(key)) {
        const detail = `${keyPath} has mode ${modeOf(key)}, expected 600`;
        return { outcome: "fail", detail, fix: `chmod 600 ${keyPath}` };
      }
      try {
        await prove({ certPath, keyPath });
        const chain = await readChain(await Deno.readTextFile(certPath));
        return judged(certPath, chain, hosts, Date.parse(now()));
      } catch (error) {
        const fix = "set tls_cert (PEM with its chain) and tls_key, then reload";
        return { outcome: "fail", detail: wordsOf(error), fix };
      }
    },
  };
}

function judged(
  path: string,
  chain: Awaited<ReturnType<typeof readChain>>,
  hosts: readonly string[],
  atMs: number,
): HealthFinding {
  const fix = "renew tls_cert and tls_key, then reload the service";
  const untilMs = Math.min(...chain.map((one) => one.untilMs));
  const ending = chain.find((one) => one.untilMs === untilMs);
  const until = new Date(untilMs).toISOString();
  const whose = chain[0] === ending ? path : `${path}: that of ${ending?.subject}`;
  if (untilMs <= atMs) return { outcome: "fail", detail: `${whose}: it ended at ${until}`, fix };
  const early = chain.find((one) => one.fromMs > atMs);
  if (early !== undefined) {
    const from = new Date(early.fromMs).toISOString();
    const clock = "set the clock, or use a valid certificate";
    return { outcome: "fail", detail: `${path}: it is valid only from ${from}`, fix: clock };
  }
  const days = Math.floor((untilMs - atMs) / MS_PER_SECOND / DAY_SECONDS);
  if (days < DAYS_LEFT_MIN) {
    return { outcome: "warn", detail: `${whose}: it ends in ${days} days, at ${until}`, fix };
  }
  const names = chain[0]?.names ?? [];
  const missing = hosts.filter((host) => !covers(names, host));
  if (missing.length > 0) {
    const named = names.length === 0 ? "nothing" : names.join(", ");
    const detail = `${path} names ${named}, and not ${missing.join(", ")}`;
    return { outcome: "warn", detail, fix: "callers using those names will refuse it: add them" };
  }
  return ok(`${path}, for ${names.join(", ")}, ${days} days left`);
}

/** The audit file: a regular file that can be written, and that nobody else can read. */
export function auditFileCheck(path: string | null): HealthCheck {
  return {
    name: "audit",
    about: "the audit file can be written, and is closed to others",
    async examine(): Promise<HealthFinding> {
      if (path === null) return skipped("no audit_file is configured");
      const found = await lstatOf(path);
      if (found === undefined) {
        const folder = dirname(path);
        if ((await statOf(folder))?.isDirectory) return ok(`${path} is created at the next start`);
        const detail = `${folder} is missing, or not a folder: the agent will not start`;
        return { outcome: "fail", detail, fix: `mkdir -p ${folder}` };
      }
      if (!found.isFile) return { outcome: "fail", detail: `${path} is not a regular file` };
      if (isOpen(found)) return openToOthers(path, found);
      try {
        (await Deno.open(path, { append: true })).close();
      } catch (error) {
        return { outcome: "fail", detail: `${path} cannot be written: ${systemReason(error)}` };
      }
      return ok(`${path}, ${found.size} bytes`);
    },
  };
}

/** The token for the upstream of the index. */
export function indexTokenCheck({ path, read }: {
  readonly path: string | null;
  /** Reads the file as the agent does. @throws {AgentError} when it cannot be used */
  readonly read: (path: string) => Promise<unknown>;
}): HealthCheck {
  return {
    name: "index-token",
    about: "only the owner can read the file of the index token",
    async examine(): Promise<HealthFinding> {
      if (path === null) return skipped("none is configured");
      const found = await statOf(path);
      if (found?.isFile && isOpen(found)) return openToOthers(path, found);
      try {
        await read(path);
      } catch (error) {
        return { outcome: "fail", detail: wordsOf(error), fix: `put it into ${path}, mode 0600` };
      }
      return ok(path);
    },
  };
}

const ANSWER_MS = 5_000;
/** More than each check of the agent may take. */
const READY_MS = 15_000;

interface ListenPlaces {
  readonly tcp: { readonly hostname: string; readonly port: number } | null;
  readonly socket: string | null;
  /** The file of the certificate with which TLS is spoken on the port; null for plain HTTP. */
  readonly tlsCert: string | null;
}

/** Whether an agent answers. An agent that requires a token, which the doctor does not have, has answered too. */
export function agentCheck(places: ListenPlaces): HealthCheck {
  return {
    name: "agent",
    about: "an agent answers where the configuration says",
    async examine() {
      if (places.socket === null && places.tcp?.port === 0) {
        return skipped("the system chose its port");
      }
      const { url, place, client } = await wayTo(places);
      try {
        const response = await fetch(`${url}/ping`, {
          signal: AbortSignal.timeout(ANSWER_MS),
          ...(client === undefined ? {} : { client }),
        });
        const text = await response.text();
        if (response.status === ERROR_CODES.unauthorized.status) {
          return ok(`${place}, which requires a token`);
        }
        if (!response.ok) return { outcome: "fail", detail: `${place} answers ${response.status}` };
        const pid = /"pid":\s*(\d+)/.exec(text)?.[1] ?? "unknown";
        const guests = await readyGuests(url, client);
        if (guests === undefined || guests.status === "ok") return ok(`${place}, pid ${pid}`);
        const outcome = guests.status === "warn" ? "warn" : "fail";
        return { outcome, detail: `${place}, pid ${pid}: ${guests.detail}` };
      } catch (error) {
        // The cause says what went wrong; on some runtimes the message does too.
        const inner = error instanceof Error && error.cause !== undefined ? error.cause : error;
        return withoutAnswer(place, messageOf(inner));
      } finally {
        client?.close();
      }
    },
  };
}

/** What the agent itself says of its guests; undefined when it does not tell a caller without a token. */
async function readyGuests(
  url: string,
  client: Deno.HttpClient | undefined,
): Promise<{ status: JsonValue; detail: string } | undefined> {
  try {
    const response = await fetch(`${url}/readyz`, {
      signal: AbortSignal.timeout(READY_MS),
      ...(client === undefined ? {} : { client }),
    });
    const answer: unknown = await response.json();
    const { guests } = isJsonObject(answer) && isJsonObject(answer.checks) ? answer.checks : {};
    if (!isJsonObject(guests)) return undefined;
    return { status: guests.status ?? null, detail: `${guests.detail}` };
  } catch {
    return undefined; // It has answered before; another check says what is slow.
  }
}

/** A certificate rarely names the listening address: callers use a name. */
function withoutAnswer(place: string, words: string): HealthFinding {
  if (/certificate not valid for name/i.test(words)) return ok(`${place}, under another name`);
  if (/certificate/i.test(words)) {
    return { outcome: "warn", detail: `${place}: ${words}`, fix: "renew tls_cert, then reload" };
  }
  const fix = serviceCommand() ?? "zonewright install systemd, or zonewright serve";
  // The last part is the system's; those before it name layers of the runtime.
  const reason = systemReason(new Error(words.split(": ").at(-1)));
  return { outcome: "warn", detail: `nothing answers at ${place}: ${reason}`, fix };
}

/** Prefers the socket to TLS: it needs no trusted certificate. */
async function wayTo(
  { tcp, socket, tlsCert }: ListenPlaces,
): Promise<{ url: string; place: string; client?: Deno.HttpClient }> {
  if (socket !== null && (tcp === null || tlsCert !== null)) {
    const client = Deno.createHttpClient({ proxy: { transport: "unix", path: socket } });
    return { url: "http://localhost", place: `unix:${socket}`, client };
  }
  const host = tcp?.hostname.includes(":") ? `[${tcp.hostname}]` : tcp?.hostname;
  const address = `${host}:${tcp?.port}`;
  if (tlsCert === null) return { url: `http://${address}`, place: `http://${address}` };
  const client = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(tlsCert)] });
  return { url: `https://${address}`, place: `https://${address}`, client };
}

function isOpen({ mode }: Deno.FileInfo): boolean {
  return ((mode ?? 0) & OTHERS) !== 0;
}

/** Reports a file that only the agent needs to read, but others can. */
function openToOthers(path: string, found: Deno.FileInfo): HealthFinding {
  return {
    outcome: "fail",
    detail: `${path} has mode ${modeOf(found)}, expected 600`,
    fix: `chmod 600 ${path}`,
    repair: () => closeFile(path),
  };
}

function wordsOf(error: unknown): string {
  return error instanceof AgentError ? error.message : messageOf(error);
}

interface CertificateFacts {
  readonly subject: string;
  /** When it becomes valid, milliseconds since 1970. */
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
      names: namesIn(bytesOfBase64(block.replace(/-----[^-]+-----|\s/g, ""))),
    };
  });
}

/** The identifier of subjectAltName, 2.5.29.17, as encoded in a certificate. */
const ALT_NAME = [0x06, 0x03, 0x55, 0x1d, 0x11];
const BOOLEAN = 0x01;
const DNS_NAME = 0x82;
const IP_ADDRESS = 0x87;

/**
 * The alternative names, which are all that callers look at. Runtimes before 2.7 do not report them.
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

/** An IPv6 address in its usual short form, as the URL parser writes it. */
function shortAddress(text: string): string {
  return URL.canParse(`http://[${text}]`)
    ? new URL(`http://[${text}]`).hostname.slice(1, -1)
    : text;
}

/** Whether a certificate with these names covers a host; a star matches one label. */
export function covers(names: readonly string[], host: string): boolean {
  const sought = host.includes(":") ? shortAddress(host) : host.toLowerCase();
  return names.some((name) =>
    name === sought ||
    name.startsWith("*.") && sought.includes(".") &&
      name.slice(1) === sought.slice(sought.indexOf("."))
  );
}
