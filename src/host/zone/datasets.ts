// The ZFS datasets of one machine: vmadm cannot remove what its own create or delete left behind. Only names
// that vmadm gives are ever touched, and only where the caller knows that they are this machine's: they
// contain its uuid, and a uuid is chosen for one machine.

import { AgentError } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { CommandResult } from "../command.ts";
import type { Transport } from "../transport.ts";
import { describeResult } from "../vmadm/output.ts";
import { type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import { MIB_PER_GIB } from "../../domain/policy.ts";

/** Milliseconds per call of zfs; a busy pool destroys slowly. */
const ZFS_MS_MAX = 120_000;

/** vmadm's names: the zone, and disks beside it (kvm) or below it (bhyve). */
const AFTER_UUID = /^(?:[-/]disk\d{1,3})?$/;
/** Holds the datasets of cores, which are mounted within the zones'. */
const CORES = "/cores/";

/**
 * Names of the datasets with this uuid, children and inner mounts first.
 * @throws {AgentError} see runCommand(); `host` when zfs fails
 */
export async function datasetsOf(transport: Transport, uuid: MachineUuid): Promise<string[]> {
  const args = ["list", "-H", "-o", "name", "-t", "filesystem,volume"];
  const result = await transport.zfs(args, { deadlineMs: ZFS_MS_MAX });
  if (result.code !== 0) throw failed(`Cannot list the datasets of machine ${uuid}`, args, result);
  const names = result.stdout.split("\n").filter((name) => isOf(uuid, name)).sort().reverse();
  const isMountedWithin = (name: string) => name.includes(CORES);
  return [...names.filter(isMountedWithin), ...names.filter((name) => !isMountedWithin(name))];
}

function isOf(uuid: MachineUuid, name: string): boolean {
  const [, rest] = name.split(`/${uuid}`);
  const pool = name.split("/")[0] ?? "";
  if (name === `${pool}${CORES}${uuid}`) return true;
  return rest !== undefined && name === `${pool}/${uuid}${rest}` && AFTER_UUID.test(rest);
}

/**
 * Destroys datasets of datasetsOf(), except those with snapshots.
 * @throws {AgentError} `host` naming the first that could not be destroyed, with the reason
 */
export async function destroyDatasets(
  transport: Transport,
  names: readonly string[],
): Promise<void> {
  for (const name of names) {
    const args = ["destroy", name];
    const result = await transport.zfs(args, { deadlineMs: ZFS_MS_MAX });
    if (result.code !== 0) throw failed(`Cannot destroy dataset ${name}`, args, result);
  }
}

function failed(action: string, args: readonly string[], result: CommandResult): AgentError {
  const command = JSON.stringify(["zfs", ...args].join(" "));
  return new AgentError("host", `${action}: ${command} ${describeResult(result, [])}`);
}

// Checks whether the host has the networks and the disk space of a new machine. vmadm would find out too, but
// in the middle of a create, and without naming the field. Where a program is missing or fails, the check is
// left to vmadm, and reported.

/** Milliseconds per query. */
const ASK_MS_MAX = 30_000;
/** The pool of all machines; no payload may choose another. */
const POOL = "zones";
const MIB = 1024 ** 2;
/** GiB that the zone of a bhyve machine reserves by default. */
const BHYVE_QUOTA_GIB = 1;
/** Networks listed in an error. */
const NAMED_MAX = 32;
/** Characters of a program's output in an error. */
const WORDS_CHARS_MAX = 200;

/** The output of a program, or why there is none. */
type ProgramOutput = { readonly text: string } | { readonly unasked: string };

/**
 * Refuses a payload that the host cannot serve.
 * @param payload accepted by the policy
 * @param field name of the payload in errors
 * @returns a sentence for each query that the host did not answer
 * @throws {AgentError} `invalid_argument` naming each nic on a network that the host lacks;
 * `storage_full` when the disks do not fit; `aborted`
 */
export async function requireHostRoom(
  transport: Transport,
  payload: JsonObject,
  field: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const unasked = await Promise.all([
    requireNetworks(transport, payload, field, signal),
    requirePoolRoom(transport, payload, field, signal),
  ]);
  return unasked.filter((sentence) => sentence !== undefined);
}

async function requireNetworks(
  { nictagadm }: Transport,
  { nics }: JsonObject,
  field: string,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  // The part behind a slash is made on first use: an overlay, as in `sdc_overlay/123`.
  const wanted = objectsIn(nics).map(({ nic_tag }, index) => ({ nic_tag, index }))
    .filter(({ nic_tag }) => typeof nic_tag === "string" && !nic_tag.includes("/"));
  if (wanted.length === 0) return undefined;
  const answer = await answerOf(nictagadm, ["list", "-p"], signal);
  if ("unasked" in answer) return cannotAsk("networks", answer.unasked);
  const known = answer.text.split("\n").map((line) => line.split(":")[0] ?? "").filter(Boolean);
  // A host without any network: the query went wrong.
  if (known.length === 0) return cannotAsk("networks", "it names none");
  const errors = wanted.filter(({ nic_tag }) => !known.some((tag) => tag === nic_tag))
    .map(({ index, nic_tag }) => {
      const path = `${field}.nics[${index}].nic_tag`;
      const words = `${path} is ${JSON.stringify(nic_tag)}, and the host has no such network: it ` +
        `has ${known.slice(0, NAMED_MAX).join(", ")}`;
      return { field: path, code: "Invalid" as const, message: words };
    });
  const [first] = errors;
  if (first === undefined) return undefined;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  const message = `Cannot accept the machine: ${first.message}${more}`;
  throw new AgentError("invalid_argument", message, { errors });
}

async function requirePoolRoom(
  { zfs }: Transport,
  payload: JsonObject,
  field: string,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const wanted = reservedMiB(payload);
  if (wanted === 0) return undefined;
  const answer = await answerOf(zfs, ["list", "-Hp", "-o", "available", POOL], signal);
  if ("unasked" in answer) return cannotAsk("room", answer.unasked);
  if (!/^\d+\n?$/.test(answer.text)) {
    return cannotAsk("room", `it said ${JSON.stringify(answer.text.slice(0, WORDS_CHARS_MAX))}`);
  }
  const free = Math.floor(Number(answer.text) / MIB);
  if (wanted <= free) return undefined;
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
  const zone = brand === "bhyve" ? numberOr(quota, BHYVE_QUOTA_GIB) * MIB_PER_GIB : 0;
  return volumes + zone;
}

function cannotAsk(what: "networks" | "room", why: string): string {
  return `Cannot ask the host for its ${what}, so only vmadm checks ${
    what === "room" ? "it" : "them"
  }: ${why}`;
}

async function answerOf(
  run: Transport["zfs"],
  args: readonly string[],
  signal: AbortSignal | undefined,
): Promise<ProgramOutput> {
  let result: CommandResult;
  try {
    result = await run(args, {
      deadlineMs: ASK_MS_MAX,
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    const isSilent = error instanceof AgentError && ["host", "timeout"].includes(error.code);
    if (isSilent) return { unasked: error.message };
    throw error;
  }
  if (result.code === 0) return { text: result.stdout };
  const words = result.stderr.trim().slice(0, WORDS_CHARS_MAX);
  return { unasked: `exit code ${result.code}: ${words}` };
}

function numberOr(value: JsonValue | undefined, other: number): number {
  return typeof value === "number" ? value : other;
}
