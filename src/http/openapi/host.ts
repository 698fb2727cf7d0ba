// The host in the OpenAPI document: what `zonewright status` and the console show first.

import { WALL } from "../../domain/host.ts";
import { DEFAULT_POLICY, policyOnWire } from "../../domain/policy.ts";
import { DIAGNOSIS, EXAMINED, SETTINGS } from "../routes/agent.ts";
import { HOST_PAGE } from "../routes/host.ts";
import type { Instant } from "../../domain/instant.ts";
import { refusals } from "./errors.ts";
import { JOB_UUID } from "./job_schemas.ts";
import { schemaRef, type ShapeOf } from "../../domain/description/answer.ts";
import { jsonAnswer, type OpenapiPart } from "./operation.ts";

const READ_AT = "2026-11-20T13:20:00.000Z";

function readingOf<T>(value: T): { read_at: Instant; error: null; value: T } {
  return { read_at: READ_AT, error: null, value };
}

const EXAMPLE: ShapeOf<typeof HOST_PAGE> = {
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

/** The agent's settings, and what the doctor finds. */
const SELF_PATHS: OpenapiPart["paths"] = {
  "/agent/v1/config": {
    get: {
      operationId: "config",
      summary: "Every setting in force, and where it comes from",
      description: "Settings contain no secrets; they name the files that do.",
      responses: {
        "200": jsonAnswer(
          "The settings.",
          SETTINGS,
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
      summary: "Check everything that the agent needs, naming cause and fix",
      description:
        "Runs `zonewright doctor` with the settings in force. It repairs nothing, never runs " +
        "twice at once, and its answer is cached for ten seconds. Not for the scope `read`.",
      responses: {
        "200": jsonAnswer(
          "What was found.",
          EXAMINED,
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
    Host: HOST_PAGE,
    Wall: WALL,
    Diagnosis: DIAGNOSIS,
  },
  paths: {
    ...SELF_PATHS,
    "/agent/v1/host": {
      get: {
        operationId: "host",
        summary: "The agent and its host on one page",
        description:
          "Readings of the host are cached for a few seconds and have a timeout of ten seconds. " +
          "Each shows when it was read, or why it could not be.",
        responses: {
          "200": jsonAnswer("The page.", schemaRef("Host"), EXAMPLE),
          ...refusals(),
        },
      },
    },
  },
};
