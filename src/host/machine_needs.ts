// Checks whether the host has the networks and the disk space of a machine. vmadm would find out too, but in the middle of
// a create or at the first start, and without naming the field. If a program is missing or fails, the check is reported as
// not made and left to vmadm.

import { AgentError, type FieldError } from "../domain/error.ts";
import { type JsonObject, type JsonValue, objectsIn } from "../domain/json.ts";
import { MIB_PER_GIB, QUOTA_GIB_USUAL } from "../domain/policy.ts";
import { answerOf, askPool, type HostAnswer, POOL } from "./inventory.ts";
import type { Transport } from "./transport.ts";

const MIB = 1024 ** 2;

/**
 * Refuses a payload that the host cannot serve.
 * @param payload accepted by the policy
 * @param field name of the payload in errors
 * @returns a sentence for each question that the host did not answer
 * @throws {AgentError} `invalid_argument` naming each nic on a network that the host lacks, and each mtu that
 * its network cannot have; `storage_full` when the disks do not fit; `aborted`
 */
export async function requireHostRoom(
  transport: Transport,
  payload: JsonObject,
  field: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const [networks, room] = await Promise.all([
    requireNetworks(transport, nicsOf(payload, field), signal),
    requirePoolRoom(transport, payload, field, signal),
  ]);
  return [...networks, ...room];
}

/**
 * Refuses a payload whose disks do not fit into the pool.
 * @returns a sentence when the host did not answer
 * @throws {AgentError} `storage_full`; `aborted`
 */
export async function requirePoolRoom(
  transport: Transport,
  payload: JsonObject,
  field: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const wanted = reservedMiB(payload);
  if (wanted === 0) return [];
  const answer = await askPool(transport, signal);
  if ("unasked" in answer) {
    return [`Cannot read the free space of the host, so only vmadm checks it: ${answer.unasked}`];
  }
  const free = Math.floor(answer.value.free_bytes / MIB);
  if (wanted <= free) return [];
  const message = `Cannot accept the machine: ${field}.disks and the zone's reservation need ` +
    `${wanted} MiB, and the pool ${JSON.stringify(POOL)} of the host has ${free} MiB`;
  throw new AgentError("storage_full", message);
}

/** MiB that the machine takes from the pool at once. zfs takes a little more. */
function reservedMiB({ brand, quota, disks }: JsonObject): number {
  const volumes = objectsIn(disks).reduce(
    (sum, { refreservation, size }) => sum + numberOr(refreservation, numberOr(size, 0)),
    0,
  );
  // The zone of a kvm machine reserves nothing.
  const zone = brand === "bhyve" ? numberOr(quota, QUOTA_GIB_USUAL.bhyve) * MIB_PER_GIB : 0;
  return volumes + zone;
}

function numberOr(value: JsonValue | undefined, other: number): number {
  return typeof value === "number" ? value : other;
}

/** Most networks of one host. */
const NETWORKS_MAX = 1000;
const NAMED_MAX = 32;
/**
 * The kind of network, in nictagadm's words, whose nics have an mtu of {@linkcode PHYSICAL_MTU_MIN} or more.
 */
const PHYSICAL = "normal";
/** Bytes; vmadm refuses a smaller mtu on a physical network. @see vmadm(8), nics.*.mtu */
const PHYSICAL_MTU_MIN = 1500;

/** What nictagadm prints of one network. */
export interface HostNetwork {
  /** The `nic_tag` of its nics. */
  readonly tag: string;
  /** Its link; null for one that is created on first use. */
  readonly link: string | null;
  /** `normal`, `aggr`, `etherstub` or `overlay rule`; null if nictagadm does not print it. */
  readonly kind: string | null;
}

/**
 * Asks nictagadm for the networks.
 * @throws {AgentError} `aborted`
 */
export async function askNetworks(
  transport: Transport,
  signal?: AbortSignal,
): Promise<HostAnswer<readonly HostNetwork[]>> {
  const answer = await answerOf(transport, "nictagadm", ["list", "-p"], signal);
  if ("unasked" in answer) return answer;
  const networks = answer.value.split("\n").map(networkIn).filter(({ tag }) => tag !== "");
  // No host is without networks, so the query failed.
  if (networks.length === 0) return { unasked: "it names none" };
  return { value: networks.slice(0, NETWORKS_MAX) };
}

/** Reads `TAG:MAC:LINK:KIND`. A colon within a value is escaped. */
function networkIn(line: string): HostNetwork {
  const [tag = "", , link = "-", kind = ""] = line.split(/(?<!\\):/);
  // An etherstub is its own link.
  const own = kind === "etherstub" ? tag : null;
  return { tag, link: link === "-" || link === "" ? own : link, kind: kind === "" ? null : kind };
}

/** The mtu of each link by name, bytes. @throws {AgentError} `aborted` */
async function askLinks(
  transport: Transport,
  signal?: AbortSignal,
): Promise<HostAnswer<ReadonlyMap<string, number>>> {
  const answer = await answerOf(
    transport,
    "dladm",
    ["show-link", "-p", "-o", "link,mtu"],
    signal,
  );
  if ("unasked" in answer) return answer;
  const links = answer.value.split("\n").flatMap((line): [string, number][] => {
    const [, link, mtu] = /^([^:]+):(\d{1,6})$/.exec(line) ?? [];
    return link === undefined ? [] : [[link, Number(mtu)]];
  });
  return links.length === 0 ? { unasked: "it names no link" } : { value: new Map(links) };
}

/** A nic and its path in the request. */
interface PlacedNic {
  readonly nic: JsonObject;
  /** Its place in the request, such as `payload.nics[0]`. */
  readonly path: string;
}

/** The nics of a new machine. @param field name of the payload in errors */
export function nicsOf({ nics }: JsonObject, field: string): PlacedNic[] {
  return objectsIn(nics).map((nic, index) => ({ nic, path: `${field}.nics[${index}]` }));
}

/**
 * Refuses nics on a network that the host lacks, or whose mtu their network does not carry.
 * @returns a sentence for each question that the host did not answer
 * @throws {AgentError} `invalid_argument`; `aborted`
 */
export async function requireNetworks(
  transport: Transport,
  placed: readonly PlacedNic[],
  signal?: AbortSignal,
): Promise<string[]> {
  // The part after a slash, an overlay as in `sdc_overlay/123`, is created on first use.
  const wanted = placed.filter(({ nic: { nic_tag } }) =>
    typeof nic_tag === "string" && !nic_tag.includes("/")
  );
  if (wanted.length === 0) return [];
  const answer = await askNetworks(transport, signal);
  if ("unasked" in answer) {
    return [`Cannot read the networks of the host, so only vmadm checks them: ${answer.unasked}`];
  }
  refuseNics(wanted, answer.value);
  return await requireCarried(transport, wanted, answer.value, signal);
}

/** Refuses what vmadm would refuse. @throws {AgentError} `invalid_argument` */
export function refuseNics(placed: readonly PlacedNic[], networks: readonly HostNetwork[]): void {
  const errors = placed.flatMap(({ nic: { nic_tag, mtu }, path }): FieldError[] => {
    const network = networks.find(({ tag }) => tag === nic_tag);
    if (network === undefined) {
      const named = networks.slice(0, NAMED_MAX).map(({ tag }) => tag).join(", ");
      const found = JSON.stringify(nic_tag);
      const words = `is ${found}, and the host has no such network: it has ${named}`;
      return [invalid(`${path}.nic_tag`, words)];
    }
    const isLow = network.kind === PHYSICAL && typeof mtu === "number" && mtu < PHYSICAL_MTU_MIN;
    if (!isLow) return [];
    const words = `is ${mtu}, expected at least ${PHYSICAL_MTU_MIN}: the network ` +
      `${network.tag} is a physical one`;
    return [invalid(`${path}.mtu`, words)];
  });
  refuseAll(errors);
}

/** Refuses an mtu above that of its link: the machine could not start. */
async function requireCarried(
  transport: Transport,
  placed: readonly PlacedNic[],
  networks: readonly HostNetwork[],
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const sized = placed.flatMap(({ nic: { nic_tag, mtu }, path }) => {
    const network = networks.find(({ tag }) => tag === nic_tag);
    return network === undefined || typeof mtu !== "number" ? [] : [{ network, mtu, path }];
  });
  if (sized.length === 0) return [];
  const answer = await askLinks(transport, signal);
  if ("unasked" in answer) {
    return [
      `Cannot read the mtu of the host's links, so it is not checked: ${answer.unasked}`,
    ];
  }
  const links = answer.value;
  const unsaid: string[] = [];
  refuseAll(sized.flatMap(({ network: { tag, link, kind }, mtu, path }) => {
    if (kind === null && mtu < PHYSICAL_MTU_MIN) {
      unsaid.push(
        `The host does not report what kind of network ${tag} is, so only vmadm checks the ` +
          `mtu ${mtu}`,
      );
    }
    const most = link === null ? undefined : links.get(link);
    if (most === undefined) {
      unsaid.push(`The host does not report the mtu of network ${tag}, so ${mtu} is not checked`);
      return [];
    }
    if (mtu <= most) return [];
    const words = `is ${mtu}, expected at most ${most}: the link ${link} of the network ${tag} ` +
      "carries no more";
    return [invalid(`${path}.mtu`, words)];
  }));
  return unsaid;
}

function invalid(field: string, words: string): FieldError {
  return { field, code: "Invalid", message: `${field} ${words}` };
}

function refuseAll(errors: readonly FieldError[]): void {
  const [first] = errors;
  if (first === undefined) return;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  const message = `Cannot accept the nics: ${first.message}${more}`;
  throw new AgentError("invalid_argument", message, { errors });
}
