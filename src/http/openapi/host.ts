// The host in the OpenAPI document: what `zonewright status` and the console show first.

import { DEFAULT_POLICY, policyOnWire } from "../../domain/policy.ts";
import type { JsonObject, JsonValue } from "../../domain/json.ts";
import { SETTING_ORIGINS } from "../routes/agent.ts";
import { refusals } from "./errors.ts";
import { JOB_UUID } from "./job_schemas.ts";
import {
  COUNT,
  INSTANT,
  jsonAnswer,
  listOf,
  NULLABLE_COUNT,
  NULLABLE_TEXT,
  objectOf,
  type OpenapiPart,
  schemaRef,
  TEXT,
  UUID,
  whole,
} from "./operation.ts";

const READ_AT = "2026-11-20T13:20:00.000Z";
const BYTES: JsonObject = { ...COUNT, description: "Bytes." };

/** The schema of a reading: its value, or the error. */
function reading(description: string, value: JsonObject): JsonObject {
  return whole(description, {
    read_at: { ...INSTANT, description: "When it was read, or was tried to be read." },
    error: { ...NULLABLE_TEXT, description: "Why it could not be read; null when it was." },
    value: { anyOf: [value, { type: "null" }] },
  });
}

function readingOf(value: JsonValue): JsonObject {
  return { read_at: READ_AT, error: null, value };
}

const SETTING: JsonObject = { ...COUNT, description: "As the setting of this name." };
const POLICY_FIELDS: JsonObject = Object.fromEntries(
  Object.entries(policyOnWire(DEFAULT_POLICY)).map(([name, value]) => [
    name,
    Array.isArray(value) ? listOf(TEXT) : typeof value === "string" ? TEXT : SETTING,
  ]),
);

const SYSTEM = whole("Hardware and platform; null for what the host does not say.", {
  hostname: NULLABLE_TEXT,
  platform: { ...NULLABLE_TEXT, description: "Its version, such as `20260101T000000Z`." },
  cpu: { ...NULLABLE_TEXT, description: "The processor's name." },
  cpus: { ...NULLABLE_COUNT, description: "Logical processors." },
  ram_mib: { ...NULLABLE_COUNT, description: "Memory, MiB." },
  hvm: { type: ["boolean", "null"], description: "Whether its processors can run machines." },
});

const FAILED_JOB = whole("A job that failed.", {
  uuid: UUID,
  name: { type: "string", description: "The workflow's name." },
  task: { anyOf: [schemaRef("SummaryTask"), { type: "null" }] },
  error: { ...NULLABLE_TEXT, description: "Why it failed, in one line." },
  machine: { type: ["object", "null"], additionalProperties: true },
  finished_at: { ...INSTANT, type: ["string", "null"] },
});

const READINGS: JsonObject = {
  system: reading("What the host is made of, by `sysinfo`.", SYSTEM),
  pool: reading(
    "Room in the pool of the machines, by `zfs`.",
    whole("Room in the pool.", { name: TEXT, used_bytes: BYTES, free_bytes: BYTES }),
  ),
  networks: reading("Networks of the host, which nics call their `nic_tag`.", listOf(TEXT)),
  machines: reading(
    "Machines of the host, by `vmadm`.",
    whole("Numbers of machines.", {
      total: COUNT,
      by_state: {
        type: "object",
        description: "By vmadm's word for the state.",
        additionalProperties: COUNT,
      },
    }),
  ),
  walls: reading(
    "Walls around tasks, as a guest started for this has them.",
    listOf(schemaRef("Wall")),
  ),
  disk: reading(
    "The disk of the state folder.",
    whole("Room on a disk.", {
      folder: TEXT,
      free_bytes: { ...NULLABLE_COUNT, description: "Null where the system does not say." },
    }),
  ),
};

const HOST_FIELDS: JsonObject = {
  name: { type: "string", description: "Of the managed host." },
  mode: { type: "string", enum: ["local", "simulated", "ssh"] },
  version: { type: "string", description: "Of the agent." },
  commit: { ...NULLABLE_TEXT, description: "What the agent was built from; null from source." },
  runtime: TEXT,
  target: { type: "string", description: "The platform that the agent was built for." },
  pid: { type: "integer", minimum: 1 },
  started_at: INSTANT,
  time: { ...INSTANT, description: "The agent's clock." },
  warnings: {
    ...listOf(
      whole("What an operator should know.", {
        code: { type: "string", description: "A word for scripts." },
        message: TEXT,
        hint: { type: "string", description: "The command that says more, or what to do." },
      }),
    ),
    description: "Usually none.",
  },
  slots: whole("Jobs that may run and that run.", { total: COUNT, busy: COUNT }),
  jobs: whole("Unfinished jobs, and those that failed.", {
    queued: COUNT,
    running: COUNT,
    waiting: COUNT,
    failed_24h: {
      ...COUNT,
      description: "That ended in the last 24 hours, and in the rest of the hour before.",
    },
    last_failed: { ...listOf(FAILED_JOB), description: "The newest 5." },
  }),
  ...READINGS,
  brands: { ...listOf(TEXT), description: "That machines may have, by the policy." },
  policy: whole("The policy in force, by its settings.", POLICY_FIELDS),
  index: whole("The image index.", {
    upstream: NULLABLE_TEXT,
    interval_seconds: { ...COUNT, description: "Between two syncs; 0 for none." },
    compared_at: { ...INSTANT, type: ["string", "null"], description: "With its upstream." },
    age_seconds: NULLABLE_COUNT,
    outcome: { type: ["string", "null"], enum: ["complete", "partial", "failed", null] },
    problems: { ...COUNT, description: "Documents that the last sync refused or did not reach." },
  }),
  cache: whole("Downloaded media.", {
    bytes: BYTES,
    max_bytes: { ...NULLABLE_COUNT, description: "Null without a bound." },
  }),
  store: whole("The database.", {
    bytes: BYTES,
    free_bytes: { ...COUNT, description: "Part of it that is empty, and is used first." },
  }),
  leftovers: { ...COUNT, description: "Machines of failed jobs that are not yet removed." },
  settings_waiting: {
    ...listOf(TEXT),
    description: "Settings whose new value waits for a restart.",
  },
};

const EXAMPLE: JsonObject = {
  name: "gz-7.example.com",
  mode: "ssh",
  version: "0.1.0",
  commit: null,
  runtime: "deno 2.9.6",
  target: "x86_64-unknown-linux-gnu",
  pid: 4711,
  started_at: "2026-11-20T08:00:00.000Z",
  time: READ_AT,
  warnings: [{
    code: "leftovers",
    message: "1 machine of a failed job is not yet removed",
    hint: "zonewright api GET /agent/v1/leftovers",
  }],
  slots: { total: 4, busy: 1 },
  jobs: {
    queued: 0,
    running: 1,
    waiting: 0,
    failed_24h: 1,
    last_failed: [{
      uuid: JOB_UUID,
      name: "provision-machine",
      task: null,
      error: "Cannot boot machine: the guest does not answer",
      machine: null,
      finished_at: "2026-11-20T12:59:00.000Z",
    }],
  },
  system: readingOf({
    hostname: "gz-7",
    platform: "20260101T000000Z",
    cpu: "an 8-core processor",
    cpus: 16,
    ram_mib: 65_536,
    hvm: true,
  }),
  pool: readingOf({ name: "zones", used_bytes: 214_748_364_800, free_bytes: 966_367_641_600 }),
  networks: readingOf(["admin", "external"]),
  machines: readingOf({ total: 12, by_state: { running: 10, stopped: 2 } }),
  walls: readingOf([{ name: "network", ok: true, detail: "a network of its own" }]),
  disk: readingOf({ folder: "/var/lib/zonewright", free_bytes: 53_687_091_200 }),
  brands: ["kvm", "bhyve"],
  policy: policyOnWire(DEFAULT_POLICY),
  index: {
    upstream: "https://index.example.com",
    interval_seconds: 21_600,
    compared_at: "2026-11-20T12:00:00.000Z",
    age_seconds: 4800,
    outcome: "complete",
    problems: 0,
  },
  cache: { bytes: 1_073_741_824, max_bytes: 68_719_476_736 },
  store: { bytes: 8_388_608, free_bytes: 0 },
  leftovers: 1,
  settings_waiting: [],
};

const SETTING_FIELDS: JsonObject = {
  name: { type: "string", description: "Behind the name of its table: `limits.tasks_max`." },
  value: { description: "A JSON value; null for none." },
  text: { ...NULLABLE_TEXT, description: "As a flag or the file has it." },
  origin: { type: "string", enum: [...SETTING_ORIGINS] },
  source: {
    ...NULLABLE_TEXT,
    description: "The file, the variable or the flag; null for a default.",
  },
  meaning: TEXT,
  reloads: { type: "boolean", description: "Whether SIGHUP puts a new value in force." },
};

const DIAGNOSIS_FIELDS: JsonObject = {
  name: TEXT,
  outcome: {
    type: "string",
    description: "`ok`, `warn`, `fail`, or `skipped` for what does not apply here.",
  },
  detail: { type: "string", description: "What was found, and what was expected." },
  fix: { type: "string", description: "What to do." },
  parts: listOf(schemaRef("Wall")),
  repaired: { const: false, description: "Over HTTP the doctor repairs nothing." },
};

/** The agent's settings, and what the doctor finds. */
const SELF_PATHS: OpenapiPart["paths"] = {
  "/agent/v1/config": {
    get: {
      operationId: "config",
      summary: "Every setting in force, and where it comes from",
      description: "No setting is a secret: those are in files of their own, which are named.",
      responses: {
        "200": jsonAnswer(
          "The settings.",
          whole("The settings in force.", {
            settings: listOf(whole("A setting.", SETTING_FIELDS)),
            waiting: {
              ...listOf(TEXT),
              description: "Settings whose new value waits for a restart.",
            },
          }),
          {
            settings: [{
              name: "slots",
              value: 8,
              text: "8",
              origin: "file",
              source: "/etc/zonewright/zonewright.toml",
              meaning: "jobs that run at the same time",
              reloads: false,
            }],
            waiting: [],
          },
        ),
        ...refusals(),
      },
    },
  },
  "/agent/v1/doctor": {
    get: {
      operationId: "doctor",
      summary: "Examine everything that the agent needs; name cause and fix",
      description: "As `zonewright doctor` does, in a process of its own, with the settings in " +
        "force. It repairs nothing, runs once at a time, and is kept for ten seconds. Not for the " +
        "scope `read`.",
      responses: {
        "200": jsonAnswer(
          "What was found.",
          whole("What the doctor found.", {
            examined_at: INSTANT,
            checks: listOf(schemaRef("Diagnosis")),
          }),
          {
            examined_at: READ_AT,
            checks: [{
              name: "disk",
              outcome: "warn",
              detail: "0.7 GiB free below /var/lib/zonewright",
              fix: "zonewright media list",
              repaired: false,
            }, {
              name: "guests",
              outcome: "ok",
              detail: "all 1 walls stand",
              parts: [{ name: "network", ok: true, detail: "a network of its own" }],
              repaired: false,
            }],
          },
        ),
        ...refusals(),
      },
    },
  },
};

/** The host and its agent. */
export const HOST: Pick<OpenapiPart, "schemas" | "paths"> = {
  schemas: {
    Host: whole("The agent and its host on one page.", HOST_FIELDS),
    Wall: whole("A wall around tasks.", { name: TEXT, ok: { type: "boolean" }, detail: TEXT }),
    Diagnosis: objectOf(
      "One thing that was looked at.",
      ["name", "outcome", "detail", "repaired"],
      DIAGNOSIS_FIELDS,
    ),
  },
  paths: {
    ...SELF_PATHS,
    "/agent/v1/host": {
      get: {
        operationId: "host",
        summary: "The agent and its host on one page",
        description:
          "What the host is asked for is kept for a few seconds, never asked twice at once, and waited " +
          "for at most ten seconds: each part says when it was read, or why it could not be.",
        responses: {
          "200": jsonAnswer("The page.", schemaRef("Host"), EXAMPLE),
          ...refusals(),
        },
      },
    },
  },
};
