// Machines: the description of document 3, and the request that makes one.
//
// vmadm checks little, drops what it does not know with a line in its log, and takes properties that
// reach out of the zone. So a description is checked against an allowlist before vmadm sees it.

import { uuid, uuidOf } from "../description/formats.ts";
import { type Fields, object, type Relation } from "../description/object.ts";
import { type Description, parse } from "../description/description.ts";
import {
  about,
  flag,
  kept,
  named,
  oneOf,
  only,
  positive,
  wholeText,
  worded,
} from "../description/value.ts";
import { HOST_CHARS_MAX } from "../host.ts";
import type { MachineUuid } from "../id.ts";
import { SERVER_PARAM } from "../job/job.ts";
import { isJsonObject, type JsonObject } from "../json.ts";
import {
  allowedBrand,
  allowedFields,
  type MachineBrand,
  type Policy,
  refusedBy,
} from "../policy.ts";
import { diskRelations, disks, PLACE_FOR_MEDIUM, refusedFor, withoutOther } from "./disk.ts";
import {
  BHYVE_BOOTS,
  type MediaKind,
  type MediaRequest,
  mediaRequest,
  requestedKind,
} from "./media.ts";
import { BRAND_OF, MEMORY_LIMITS, metadata, routes, settings, tags } from "./properties.ts";
import { newNics, nicRelations, ROUTES_BY_NICS } from "./nic.ts";
import { REFUSED_MACHINE_PROPERTIES } from "./refused_properties.ts";

/** The request of POST /agent/v1/machines, and in the params of a provisioning job. */
export interface MachineRequest {
  /** The description for vmadm, without a uuid. */
  machine: JsonObject;
  media: MediaRequest;
  /** An artifact that turns out to be a disk image is booted as a disk anyway. */
  boot: MediaKind;
  uuid?: MachineUuid;
}

/** The keys of such a request. */
export const MACHINE_REQUEST_KEYS = [
  "machine",
  "media",
  "boot",
  "uuid",
] as const satisfies readonly (keyof MachineRequest)[];

/** Properties of a new machine that no policy can forbid. */
type Extra = "uuid" | "vnc_password";

/**
 * A new machine of one brand.
 * @param brand without it, because the brand is incorrect, fields of either brand are accepted
 */
function machineOf(
  policy: Policy,
  brand: MachineBrand | undefined,
  extra: readonly Extra[],
): Description<JsonObject> {
  const fields: Fields = {
    brand: brand === undefined ? allowedBrand(policy) : oneOf([brand]),
    autoboot: about(
      "`vmadm.update()` accepts true, for the next start of the host.",
      only(false, "false or absent: an empty machine boots from its medium"),
    ),
    ...settings(policy),
    disks: about(
      brand === "kvm"
        ? "`boot` on at most one; `ide` only among the first four, or three with a medium. " +
          "Later, `add_disks` and `remove_disks` take media."
        : "`boot` on at most one. Later, `add_disks` and `remove_disks` take media.",
      disks(policy, brand),
    ),
    nics: about(
      "At most one primary; a mac or an address belongs to one nic only. Changed later by " +
        "`add_nics`, `update_nics` (without a slash in `nic_tag`) and `remove_nics`.",
      newNics(policy, brand),
    ),
    tags,
    customer_metadata: metadata,
    routes,
    uuid,
    vnc_password: about(
      "The password of the console; `GET .../vnc` shows it.",
      worded("true for a random password, or false for none", flag),
      { default: true },
    ),
  };
  const allowed = allowedFields(fields, [...policy.machineProperties, ...extra]);
  return object(withoutOther(allowed, BRAND_OF, brand), {
    required: ["brand"],
    refused: refusedFor(fields, BRAND_OF, brand, refusedBy(fields, REFUSED_MACHINE_PROPERTIES)),
    relations: [
      MEMORY_LIMITS,
      ...diskRelations(brand),
      ...nicRelations("nics"),
      ROUTES_BY_NICS,
      // A payload of a task, which has a uuid, may create a machine that boots no medium.
      ...(brand === "kvm" && !extra.includes("uuid") ? [PLACE_FOR_MEDIUM] : []),
    ],
  });
}

/** A new machine of any brand that the policy allows. vmadm must not start it before it has its medium. */
function machine(policy: Policy, extra: readonly Extra[]): Description<JsonObject> {
  const one = {
    words: "an object",
    read: (value, field, findings) => {
      const brand = isJsonObject(value)
        ? policy.brands.find((name) => name === value.brand)
        : undefined;
      return machineOf(policy, brand, extra).read(value, field, findings);
    },
    schema: (components) => ({
      oneOf: policy.brands.map((brand) =>
        named(SCHEMA_NAMES[brand], machineOf(policy, brand, extra)).schema(components)
      ),
    }),
  } satisfies Description<JsonObject>;
  return kept<JsonObject, JsonObject>(one, (read) => ({ ...read, autoboot: false }));
}

const SCHEMA_NAMES: Readonly<Record<MachineBrand, string>> = {
  kvm: "KvmMachine",
  bhyve: "BhyveMachine",
};

const MEDIUM_FITS: Relation = {
  check({ machine, media, boot }, field, findings) {
    // The description of the medium has checked it.
    const kind = isJsonObject(media) ? requestedKind(media as MediaRequest) : undefined;
    const name = field === "" ? "boot" : `${field}.boot`;
    if (boot === "cd" && kind === "disk") {
      const words = 'must be disk or absent, found "cd": the medium is the image of a disk';
      findings.add(name, "Invalid", words, "boot_medium");
    }
    const brand = isJsonObject(machine) ? machine.brand : undefined;
    if (brand === "bhyve" && (boot === "disk" || kind === "disk")) {
      const found = boot === "disk" ? '"disk"' : "the image of a disk";
      const words = `must be cd, found ${found}: ${BHYVE_BOOTS}`;
      findings.add(name, "Invalid", words, "boot_medium");
    }
  },
};

/** The body of POST /agent/v1/machines. @see document 3, Machine description */
export function machineRequest(policy: Policy) {
  return object(
    { ...requestFields(policy), [SERVER_PARAM]: SERVER, dry_run: DRY_RUN },
    REQUEST_RULES,
  );
}

const SERVER = about(
  "The host that makes the machine, by its uuid or its name; the host of this agent unless given.",
  wholeText(HOST_CHARS_MAX),
);

/** Accepted in a body only: an agent that does not know it refuses the request, and creates nothing. */
const DRY_RUN = about(
  "Whether to only make every check that is possible now: no machine, no job, and no " +
    "idempotency key is used up.",
  flag,
  { default: false },
);

const REQUEST_RULES = { required: ["machine", "media"], relations: [MEDIUM_FITS] } as const;

/** The fields that describe a new machine. */
function requestFields(policy: Policy) {
  return {
    machine: named("MachineDescription", machine(policy, ["vnc_password"])),
    media: named("Media", mediaRequest("booted")),
    boot: about(
      "How to attach the medium; by default, the ending of its name decides. A bhyve machine " +
        "takes only `cd`.",
      oneOf(["cd", "disk"]),
    ),
    uuid: about(
      "The machine's uuid. With it the request is safe to repeat: an equal request returns " +
        "the existing job.",
      uuidOf<MachineUuid>(),
    ),
  };
}

/**
 * Reads a request for a machine. Without `boot`, the file extension of the medium decides, else `cd`.
 * @throws {AgentError} `invalid_argument` naming every incorrect field by its path
 */
export function parseMachineRequest(body: unknown, policy: Policy): MachineRequest {
  return withBoot(parse(object(requestFields(policy), REQUEST_RULES), body, "", "machine"));
}

/** Most seconds that a task waits for the console of a machine. */
export const VNC_SECONDS_MAX = 600;

/** The params of a provisioning job that POST /agent/v1/machines does not take, or takes otherwise; any others are kept. */
const jobParams = object({
  vnc_timeout: positive(VNC_SECONDS_MAX, "seconds"),
  dry_run: only(false, "false or absent: only POST /agent/v1/machines checks without a job"),
}, { others: "kept" });

/**
 * Checks the params that only a provisioning job of POST /jobs may have.
 * @throws {AgentError} `invalid_argument` naming every incorrect one
 */
export function requireJobParams(params: JsonObject): void {
  parse(jobParams, params, "", "machine");
}

function withBoot<Read extends Omit<MachineRequest, "boot"> & { readonly boot?: "cd" | "disk" }>(
  read: Read,
): MachineRequest {
  return { ...read, boot: read.boot === "disk" ? "disk" : requestedKind(read.media) ?? "cd" };
}

/**
 * Reads the body of POST /agent/v1/machines.
 * @returns the request, and the host it names
 * @throws {AgentError} as parseMachineRequest()
 */
export function parseMachineBody(
  body: unknown,
  policy: Policy,
): {
  readonly request: MachineRequest;
  readonly server: string | undefined;
} {
  const { dry_run: _, [SERVER_PARAM]: server, ...read } = parse(
    machineRequest(policy),
    body,
    "",
    "machine",
  );
  return { request: withBoot(read), server };
}

/**
 * Reads a description for vmadm; it may have the machine's uuid.
 * @returns the description with `autoboot` false: vmadm would otherwise start it without its medium
 * @throws {AgentError} `invalid_argument` naming every incorrect field by its path
 */
export function parseMachinePayload(value: unknown, policy: Policy): JsonObject {
  return parse(machine(policy, ["uuid", "vnc_password"]), value, "payload", "machine");
}
