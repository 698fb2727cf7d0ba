// Descriptions of texts that several documents contain: uuids, addresses, dates, digits.

import { anyOf, IPV4, IPV4_NETWORK, IPV6, IPV6_NETWORK, NETMASKS } from "../ip_address.ts";
import { type JobUuid, type MachineUuid, parseUuid, UUID, type WorkflowUuid } from "../id.ts";
import { EPOCH_MS_MAX, type Instant, instantOf, ISO_8601 } from "../instant.ts";
import type { Description } from "./description.ts";
import { DIGITS, either, integer, kept, oneOf, text, unless, worded } from "./value.ts";

/** A uuid in lower case, the only spelling that vmadm takes. */
export const uuid: Description<string> = text(UUID, "a uuid in lower case");

/** A uuid of one kind, in either case. It is stored in lower case. */
export function uuidOf<T extends WorkflowUuid | JobUuid | MachineUuid>(): Description<T> {
  const anyCase = text(new RegExp(UUID.source.replaceAll("a-f", "A-Fa-f")), "a uuid");
  return kept(anyCase, (value) => parseUuid<T>(value, "uuid"));
}

/** Fewest characters by which to search for a uuid. */
export const UUID_BEGINNING_CHARS_MIN = 4;

/** The beginning of a uuid, in either case. It is stored in lower case. */
export const uuidBeginning: Description<string> = kept(
  text(
    new RegExp(`^[0-9A-Fa-f-]{${UUID_BEGINNING_CHARS_MIN},36}$`),
    `${UUID_BEGINNING_CHARS_MIN} to 36 characters of a uuid`,
  ),
  (beginning) => beginning.toLowerCase(),
);

/** Four decimal numbers, such as `192.0.2.7`. */
export const ipv4: Description<string> = text(IPV4, "an IPv4 address");

/** An address of either family. */
export const ipAddress: Description<string> = text(anyOf(IPV4, IPV6), "an IP address");

/** Words for an address that the network assigns. */
const GIVEN_ADDRESS = /^(?:dhcp|addrconf)$/;

/** The address of a nic in the form with a separate netmask, which exists for IPv4 only. */
export const nicAddress: Description<string> = text(
  anyOf(GIVEN_ADDRESS, IPV4),
  'an IPv4 address, "dhcp" or "addrconf"; IPv6 addresses go in ips, with their prefix',
);

/** An address with the length of its prefix, or a word for one that the network assigns. */
export const networkAddress: Description<string> = text(
  anyOf(GIVEN_ADDRESS, IPV4_NETWORK, IPV6_NETWORK),
  'an address with its prefix such as 192.0.2.7/24, "dhcp" or "addrconf"',
);

/** Only masks of contiguous bits, in dotted decimal. */
export const netmask: Description<string> = worded(
  "an IPv4 netmask such as 255.255.255.0",
  oneOf(NETMASKS),
);

/**
 * An http or https address without a user. It is kept as the URL parser writes it.
 * @param texts describes which texts are accepted
 * @param problem finds any further reason to refuse it
 */
export function webAddress(
  texts: Description<string>,
  problem: (url: URL) => string | undefined = () => undefined,
): Description<string> {
  const checked = unless(texts, "address", (value) => {
    const url = URL.canParse(value) ? new URL(value) : undefined;
    if (url === undefined || !["https:", "http:"].includes(url.protocol)) {
      const found = url === undefined ? "another text" : `${url.protocol}//`;
      return `must be an address such as https://host/path, found ${found}`;
    }
    if (url.username !== "" || url.password !== "") {
      return "must be an address without a user name and password, found one with";
    }
    return problem(url);
  });
  return {
    ...kept(checked, (value) => new URL(value).href),
    schema: (components) => ({ ...texts.schema(components), format: "uri" }),
  };
}

const DATE_WORDS = "an ISO 8601 date with an offset, such as 2026-01-31T18:30:00Z";

/** A date, or a date and time with an offset. Without an offset, the time would depend on the host's zone. */
export const instant: Description<Instant> = dated(text(ISO_8601, DATE_WORDS));

function noDay(value: string): string {
  return `must be ${DATE_WORDS}, found ${JSON.stringify(value)}`;
}

function dated(description: Description<string>): Description<Instant> {
  const real = unless(
    description,
    "calendar",
    (value) => instantOf(value) === undefined ? noDay(value) : undefined,
  );
  return kept(real, (value) => instantOf(value) ?? "");
}

/** Milliseconds since 1970 as digits, which is how clients of node-workflow send instants. */
const EPOCH_DIGITS = /^[0-9]{1,15}$/;

function ofEpoch(value: string | number): Instant {
  return new Date(Number(value)).toISOString();
}

const epochText = unless(
  text(EPOCH_DIGITS, DATE_WORDS),
  "calendar",
  (value) => Number(value) > EPOCH_MS_MAX ? noDay(value) : undefined,
);

/** The end of a time range: a date, or milliseconds since 1970. */
export const spanEnd: Description<Instant> = {
  ...either(
    "an ISO 8601 date, with an offset where it has a time, or milliseconds since 1970",
    kept(epochText, ofEpoch),
    instant,
    kept(integer(0, EPOCH_MS_MAX), ofEpoch),
  ),
  // In a query, an unescaped plus sign is read as a space. Dates contain no other spaces there, so it is restored.
  fromText: (text) => text.replace(/(?<=[0-9]) (?=[0-9:]+\s*$)/, "+"),
};

/** The same description, which also accepts the number as a text of digits. The number is stored. */
export function orDigits(numbers: Description<number>): Description<number> {
  return {
    ...numbers,
    read(value, field, findings) {
      if (typeof value !== "string" || !DIGITS.test(value)) {
        return numbers.read(value, field, findings);
      }
      return numbers.read(Number(value), field, {
        ...findings,
        add: (at, code, words) => findings.add(at, code, words, "digits"),
      });
    },
    schema: (components) => ({
      anyOf: [numbers.schema(components), { type: "string", pattern: DIGITS.source }],
    }),
  };
}
