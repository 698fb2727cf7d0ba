// Machines: the description of document 3, and the request that makes one.
//
// vmadm checks little, drops what it does not know with a line in its log, and takes properties that
// reach out of the zone. So a description is held against an allowlist before vmadm sees it.

import { type Brand, checkDisks, diskCheck } from "./disk.ts";
import { AgentError, invalidArgument } from "./error.ts";
import {
  type Check,
  type Findings,
  integer,
  listOf,
  oneOf,
  openFindings,
  readObject,
  refuseFindings,
  type Shape,
  text,
} from "./field_check.ts";
import { isUuid, type MachineUuid } from "./id.ts";
import { isIpv4, isIpv6 } from "./ip_address.ts";
import { isJsonObject, type JsonObject } from "./json.ts";
import { type MediaKind, type MediaRequest, readMedia, requestedKind } from "./media.ts";
import { metadata, tags } from "./metadata.ts";
import { checkNics, nicCheck } from "./nic.ts";
import { BRANDS, OTHER_MACHINE_PROPERTIES, type Policy, refusedBy } from "./policy.ts";
import { allowedBrand, atMost, listAtMost } from "./policy_check.ts";

/** What POST /agent/v1/machines, or the params of a provisioning job, ask for. */
export interface MachineRequest {
  /** The description as vmadm gets it, without a uuid. */
  machine: JsonObject;
  media: MediaRequest;
  /** An artifact that turns out to be the image of a disk is booted as one all the same. */
  boot: MediaKind;
  uuid?: MachineUuid;
}

const RESOLVERS_MAX = 8;
/** MiB by which max_physical_memory may pass the largest ram; the hypervisor needs some itself. */
const HYPERVISOR_MIB_MAX = 4096;
const CPU_SHARES_MAX = 65_535;
const IO_PRIORITY_MAX = 1024;
const ALIAS = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,188}$/;
const HOSTNAME =
  /^(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;
const VGAS = ["cirrus", "std", "vmware", "qxl", "xenfb"];
/** Never a path, which vmadm takes here too. */
const BOOTROMS = ["bios", "uefi"];

/**
 * Reads a request for a machine. Without `boot` the ending of the medium's name decides, else cd.
 * @throws {AgentError} `invalid_argument` naming every incorrect field by its path
 * @see document 3, Machine description
 */
export function parseMachineRequest(body: unknown, policy: Policy): MachineRequest {
  if (!isJsonObject(body)) {
    throw invalidArgument("body", "Cannot read the machine: expected a JSON object");
  }
  const findings = openFindings();
  const request = readObject(body, "", REQUEST, findings) ?? {};
  const machine = readMachine(body.machine, "machine", policy, findings, ["vnc_password"]);
  const media = readMedia(body.media, "media", findings);
  const boot = readBoot(request, media, findings);
  if (machine?.brand === "bhyve" && boot === "disk") {
    findings.add("boot", "Invalid", "must be cd for a bhyve machine, which boots no image file");
  }
  refuseFindings(findings, "machine");
  if (machine === undefined || media === undefined) {
    throw new AgentError("internal", "Cannot read the machine: no reason");
  }
  const uuid = isUuid(request.uuid) ? { uuid: request.uuid as MachineUuid } : {};
  return { machine, media, boot, ...uuid };
}

function readBoot(
  request: JsonObject,
  media: MediaRequest | undefined,
  findings: Findings,
): MediaKind {
  const kind = media === undefined ? undefined : requestedKind(media);
  if (request.boot === "cd" && kind === "disk") {
    findings.add("boot", "Invalid", "must be disk, or absent: the medium is the image of a disk");
  }
  if (request.boot === "disk") return "disk";
  return kind ?? "cd";
}

/**
 * Reads a description that is to be given to vmadm; it may carry the machine's uuid.
 * @returns the description with `autoboot` false: vmadm would otherwise start it without its medium
 * @throws {AgentError} `invalid_argument` naming every incorrect field by its path
 */
export function parseMachinePayload(value: unknown, policy: Policy, field = "machine"): JsonObject {
  const findings = openFindings();
  const machine = readMachine(value, field, policy, findings, ["uuid", "vnc_password"]);
  refuseFindings(findings, "machine");
  return machine ?? {};
}

function readMachine(
  value: unknown,
  field: string,
  policy: Policy,
  findings: Findings,
  extra: readonly string[],
): JsonObject | undefined {
  const brand = isJsonObject(value)
    ? policy.brands.find((name) => name === value.brand)
    : undefined;
  const machine = readObject(value, field, machineShape(policy, brand, extra), findings);
  if (machine === undefined || !isJsonObject(value)) return undefined;
  if (Array.isArray(value.disks)) checkDisks(value.disks, brand, `${field}.disks`, findings);
  if (Array.isArray(machine.nics)) checkNics(machine.nics, `${field}.nics`, findings);
  return { ...machine, autoboot: false };
}

function machineShape(policy: Policy, brand: Brand | undefined, extra: readonly string[]): Shape {
  const checks: Record<string, Check> = {
    brand: allowedBrand(policy, BRANDS),
    vcpus: atMost(policy, "vcpusMax"),
    autoboot: notAutoboot,
    ram: atMost(policy, "ramMiBMax"),
    resolvers: listOf(address, RESOLVERS_MAX, "addresses"),
    disks: listAtMost(policy, "disksMax", diskCheck(policy, brand), "disks"),
    nics: listAtMost(policy, "nicsMax", nicCheck(policy), "nics"),
    alias: text(ALIAS, "a name of at most 189 letters, digits, dots, dashes and underscores"),
    hostname: text(HOSTNAME, "a host name"),
    // 0 means no quota to vmadm, which no policy with a largest quota can allow.
    quota: atMost(policy, "quotaGiBMax"),
    cpu_cap: atMost(policy, "vcpusMax", { times: 100 }),
    cpu_shares: integer(1, CPU_SHARES_MAX),
    max_physical_memory: atMost(policy, "ramMiBMax", { plus: HYPERVISOR_MIB_MAX }),
    tags,
    customer_metadata: metadata,
    bootrom: onlyFor("bhyve", brand, oneOf(BOOTROMS)),
    vga: onlyFor("kvm", brand, oneOf(VGAS)),
    zfs_io_priority: integer(0, IO_PRIORITY_MAX),
    uuid: machineUuid,
    vnc_password: passwordWish,
  };
  const allowed = [...policy.machineProperties, ...extra];
  const refused = refusedBy(allowed, Object.keys(checks), OTHER_MACHINE_PROPERTIES);
  return { checks, required: ["brand"], refused };
}

/** vmadm drops a property of the other brand silently; whoever wrote it should know. */
function onlyFor(owner: Brand, brand: Brand | undefined, check: Check): Check {
  return (value, field, findings) => {
    if (brand === undefined || brand === owner) return check(value, field, findings);
    findings.add(field, "Invalid", `is only for machines of brand ${owner}`);
    return undefined;
  };
}

const notAutoboot: Check = (value, field, findings) => {
  if (value === false) return false;
  findings.add(field, "Invalid", "must be false or absent: an empty machine boots from its medium");
  return undefined;
};

const address: Check = (value, field, findings) => {
  if (isIpv4(value) || isIpv6(value)) return value;
  findings.add(field, "Invalid", "must be an IP address");
  return undefined;
};

/** Whether the console gets a password. One that was sent could be read in the job it came with. */
const passwordWish: Check = (value, field, findings) => {
  if (typeof value === "boolean") return value;
  findings.add(field, "Invalid", "must be true for a random password, or false for none");
  return undefined;
};

const machineUuid: Check = (value, field, findings) => {
  if (isUuid(value)) return value;
  findings.add(field, "Invalid", "must be a uuid in lower case");
  return undefined;
};

/** Read by themselves, under the names that they have on the wire. */
const elsewhere: Check = () => undefined;

const requestUuid: Check = (value, field, findings) => {
  const folded = typeof value === "string" ? value.toLowerCase() : value;
  return machineUuid(folded, field, findings);
};

const REQUEST: Shape = {
  checks: {
    machine: elsewhere,
    media: elsewhere,
    boot: oneOf(["cd", "disk"]),
    uuid: requestUuid,
  },
  required: [],
};
