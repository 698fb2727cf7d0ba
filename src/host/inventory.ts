// The resources of the managed host: processors, memory, the space in its pool and its networks, as its own
// programs report them. Nothing here changes the host.

import { AgentError, type FieldError } from "../domain/error.ts";
import type { HostHardware, HostPool } from "../domain/host.ts";
import { isJsonObject, type JsonObject, objectsIn } from "../domain/json.ts";
import type { CommandResult } from "./program.ts";
import { describeResult } from "./program_output.ts";
import type { Transport } from "./transport.ts";

/** Milliseconds per query, unless canceled sooner. */
const ASK_MS_MAX = 30_000;
/** The pool of all machines; no payload may choose another. */
export const POOL = "zones";
/** Characters of a program's output in an error. */
const WORDS_CHARS_MAX = 200;

/** What a program of the host reported, or why there is no answer. */
export type HostAnswer<T> = { readonly value: T } | { readonly unasked: string };

/**
 * Asks sysinfo. Only the fields named here are read: the output also contains the boot parameters, which may
 * include root's password.
 * @throws {AgentError} `aborted`
 */
export async function askSystem(
  transport: Transport,
  signal?: AbortSignal,
): Promise<HostAnswer<HostHardware>> {
  const answer = await answerOf(transport, "sysinfo", [], signal);
  if ("unasked" in answer) return answer;
  let said: unknown;
  try {
    said = JSON.parse(answer.value);
  } catch {
    return { unasked: "it printed no JSON" };
  }
  if (!isJsonObject(said)) return { unasked: "it printed no JSON object" };
  return {
    value: {
      hostname: textOf(said, "Hostname"),
      platform: textOf(said, "Live Image"),
      cpu: textOf(said, "CPU Type"),
      cpus: countOf(said, "CPU Total Cores"),
      ram_mib: countOf(said, "MiB of Memory"),
      hvm: typeof said["VM Capable"] === "boolean" ? said["VM Capable"] : null,
    },
  };
}

function textOf(said: JsonObject, name: string): string | null {
  const value = said[name];
  return typeof value === "string" && value !== "" ? value.slice(0, WORDS_CHARS_MAX) : null;
}

/** Some versions print numbers as strings. */
function countOf(said: JsonObject, name: string): number | null {
  const value = said[name];
  const count = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof count === "number" && Number.isSafeInteger(count) && count >= 0 ? count : null;
}

/**
 * Asks zfs for the space in the pool of the machines.
 * @throws {AgentError} `aborted`
 */
export async function askPool(
  transport: Transport,
  signal?: AbortSignal,
): Promise<HostAnswer<HostPool>> {
  const answer = await answerOf(
    transport,
    "zfs",
    ["list", "-Hp", "-o", "used,available", POOL],
    signal,
  );
  if ("unasked" in answer) return answer;
  const [, used, free] = /^(\d{1,20})\t(\d{1,20})\n?$/.exec(answer.value) ?? [];
  if (used === undefined || free === undefined) {
    return { unasked: `it said ${JSON.stringify(answer.value.slice(0, WORDS_CHARS_MAX))}` };
  }
  return { value: { name: POOL, used_bytes: Number(used), free_bytes: Number(free) } };
}

/**
 * What a program of the host prints.
 * @throws {AgentError} `aborted`
 */
async function answerOf(
  transport: Transport,
  program: "dladm" | "nictagadm" | "sysinfo" | "zfs",
  args: readonly string[],
  signal: AbortSignal | undefined,
): Promise<HostAnswer<string>> {
  let result: CommandResult;
  try {
    result = await transport[program](args, {
      deadlineMs: ASK_MS_MAX,
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    const isSilent = error instanceof AgentError && ["host", "timeout"].includes(error.code);
    if (isSilent) return { unasked: error.message };
    throw error;
  }
  if (result.code === 0) return { value: result.stdout };
  // Without any output of sysinfo; see askSystem().
  const shown = program === "sysinfo" ? { ...result, stdout: "" } : result;
  return { unasked: `${JSON.stringify([program, ...args].join(" "))} ${describeResult(shown)}` };
}

// The networks of the managed host, which nics name by their nic_tag, and whether these can have the nics of
// a machine. vmadm would find out too, but in the middle of a create or at the first start of the machine.

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
