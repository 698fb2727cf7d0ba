// Machines: the description of document 3, and the request that makes one.
//
// vmadm checks little, drops what it does not know with a line in its log, and takes properties that
// reach out of the zone. So a description is held against an allowlist before vmadm sees it.

import { type Brand, checkDisks, diskCheck } from "./disk.ts";
import { AgentError, invalidArgument } from "../error.ts";
import {
  type Check,
  type Findings,
  oneOf,
  openFindings,
  readObject,
  refuseFindings,
  type Shape,
  uuid,
} from "../field_check.ts";
import { isUuid, type MachineUuid } from "../id.ts";
import { isJsonObject, type JsonObject } from "../json.ts";
import { checkMemory, routes, settingChecks } from "./properties.ts";
import { type MediaKind, type MediaRequest, readMedia, requestedKind } from "./media.ts";
import { metadata, tags } from "./metadata.ts";
import { checkNics, nicCheck } from "./nic.ts";
import { allowedBrand, BRANDS, listAtMost, type Policy, refusedBy } from "../policy.ts";
import { REFUSED_MACHINE_PROPERTIES } from "./refused_properties.ts";

/** What POST /agent/v1/machines, or the params of a provisioning job, ask for. */
export interface MachineRequest {
  /** The description as vmadm gets it, without a uuid. */
  machine: JsonObject;
  media: MediaRequest;
  /** An artifact that turns out to be the image of a disk is booted as one all the same. */
  boot: MediaKind;
  uuid?: MachineUuid;
}

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
  checkMemory(machine, field, findings);
  if (Array.isArray(machine.nics)) checkNics(machine.nics, `${field}.nics`, findings);
  return { ...machine, autoboot: false };
}

function machineShape(policy: Policy, brand: Brand | undefined, extra: readonly string[]): Shape {
  const checks: Record<string, Check> = {
    ...settingChecks(policy, brand),
    brand: allowedBrand(policy, BRANDS),
    autoboot: notAutoboot,
    disks: listAtMost(policy, "disksMax", diskCheck(policy, brand), "disks"),
    nics: listAtMost(policy, "nicsMax", nicCheck(policy), "nics"),
    tags,
    customer_metadata: metadata,
    routes,
    uuid,
    vnc_password: passwordWish,
  };
  const allowed = [...policy.machineProperties, ...extra];
  const refused = refusedBy(allowed, Object.keys(checks), REFUSED_MACHINE_PROPERTIES);
  return { checks, required: ["brand"], refused };
}

const notAutoboot: Check = (value, field, findings) => {
  if (value === false) return false;
  findings.add(field, "Invalid", "must be false or absent: an empty machine boots from its medium");
  return undefined;
};

/** Whether the console gets a password. One that was sent could be read in the job it came with. */
const passwordWish: Check = (value, field, findings) => {
  if (typeof value === "boolean") return value;
  findings.add(field, "Invalid", "must be true for a random password, or false for none");
  return undefined;
};

/** Read by themselves, under the names that they have on the wire. */
const elsewhere: Check = () => undefined;

/** Folded, since nothing but vmadm's payload wants lower case. */
const requestUuid: Check = (value, field, findings) => {
  const folded = typeof value === "string" ? value.toLowerCase() : value;
  if (isUuid(folded)) return folded;
  findings.add(field, "Invalid", "must be a uuid");
  return undefined;
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
