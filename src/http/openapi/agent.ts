// The agent and its host in the OpenAPI document.

import { schemaRef, type ShapeOf, shapeRef } from "../../domain/description/answer.ts";
import { WALL } from "../../domain/host.ts";
import type { Instant } from "../../domain/instant.ts";
import { byEnd, byExecution } from "../../domain/job/state.ts";
import type { JsonObject } from "../../domain/json.ts";
import { DEFAULT_POLICY, policyOnWire } from "../../domain/policy.ts";
import { CALLER, DIAGNOSIS, EXAMINED, SESSION, SETTINGS } from "../routes/agent.ts";
import {
  COUNTERS,
  HEALTH,
  HOURLY_QUERY_FIELDS,
  HOURLY_STATS,
  PING,
  READINESS,
  READINESS_FINDING,
  STATS,
} from "../routes/monitoring.ts";
import { HOST_PAGE } from "../routes/host.ts";
import { BODY_REFUSALS, REFUSALS, refusals } from "./errors.ts";
import { JOB_UUID } from "./schemas.ts";
import {
  CONDITIONS,
  emptyAnswer,
  jsonAnswer,
  jsonBody,
  type OpenapiPart,
  queryParameters,
} from "./operation.ts";

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
    hint: "zonewright machine leftovers",
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
              detail: "700 MiB free below /var/lib/zonewright",
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

const HOST: Pick<OpenapiPart, "schemas" | "paths"> = {
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

const NONE = byExecution(() => 0);
const STATS_EXAMPLE: ShapeOf<typeof STATS> = {
  all_time: { ...NONE, succeeded: 310, failed: 4 },
  past_24h: { ...NONE, succeeded: 12 },
  past_hour: { ...NONE, succeeded: 1 },
  current: { ...NONE, running: 2, waiting: 1 },
};
const ENDED_COUNTS = byEnd((execution) => execution === "succeeded" ? 12 : 0);

const SCHEMAS: JsonObject = {
  Stats: STATS,
  Counters: COUNTERS,
  Health: HEALTH,
  Readiness: READINESS,
  Finding: READINESS_FINDING,
  HourlyStats: HOURLY_STATS,
  Whoami: CALLER,
  Ping: PING,
};

const READY: ShapeOf<typeof READINESS> = {
  status: "ready",
  checks: {
    store: { status: "ok", detail: "a write was committed" },
    disk: { status: "ok", detail: "11.5 GiB free" },
    host: { status: "ok", detail: "vmadm answers: 4 machines" },
    index: { status: "warn", detail: "compared with its upstream 90000 s ago" },
  },
};
const NOT_READY: ShapeOf<typeof READINESS> = {
  status: "not_ready",
  checks: { store: { status: "failed", detail: "no answer within 5000 ms" } },
};

const METRICS_TEXT: JsonObject = {
  ...emptyAnswer("The metrics, in the text format of Prometheus, version 0.0.4."),
  content: {
    "text/plain": {
      schema: { type: "string" },
      example: 'zonewright_jobs_total{result="succeeded"} 310\n',
    },
  },
};

/** Metrics, health, and this document. */
export const AGENT: OpenapiPart = {
  tag: { name: "Agent", description: "The agent itself." },
  parameters: {},
  schemas: { ...SCHEMAS, ...HOST.schemas },
  paths: {
    ...HOST.paths,
    "/stats": {
      get: {
        operationId: "stats",
        summary: "Numbers of jobs",
        responses: {
          "200": jsonAnswer("The numbers.", shapeRef("Stats", STATS), STATS_EXAMPLE),
          ...refusals(),
        },
      },
    },
    "/agent/v1/stats/hourly": {
      get: {
        operationId: "stats_hourly",
        summary: "How jobs ended, hour by hour",
        description: "For charts. Time and size depend only on `hours`, not on the number of jobs.",
        parameters: queryParameters(HOURLY_QUERY_FIELDS, { hours: 1 }),
        responses: {
          "200": jsonAnswer("The numbers.", shapeRef("HourlyStats", HOURLY_STATS), {
            since: "2026-11-20T12:00:00.000Z",
            until: "2026-11-20T13:20:00.000Z",
            total: ENDED_COUNTS,
            hours: [
              { hour: "2026-11-20T12:00:00.000Z", ...ENDED_COUNTS },
              { hour: "2026-11-20T13:00:00.000Z", ...ENDED_COUNTS, succeeded: 0 },
            ],
          }),
          ...refusals("409"),
        },
      },
    },
    "/agent/v1/whoami": {
      get: {
        operationId: "whoami",
        summary: "The caller: the name and scope of its token, or where it comes from",
        responses: {
          "200": jsonAnswer("The caller.", shapeRef("Whoami", CALLER), {
            authenticated_by: "token",
            token: "console",
            scope: "read",
            request_id: "deploy-42",
          }),
          ...refusals(),
        },
      },
    },
    "/healthz": {
      get: {
        operationId: "health",
        summary: "Whether the agent answers",
        responses: {
          "200": jsonAnswer("The agent answers.", shapeRef("Health", HEALTH), { status: "ok" }),
          ...refusals(),
        },
      },
    },
    "/readyz": {
      get: {
        operationId: "readiness",
        summary: "Whether the agent can do its work, and if not, why",
        responses: {
          "200": jsonAnswer("The agent is ready.", shapeRef("Readiness", READINESS), READY),
          ...refusals(),
          "503": jsonAnswer(
            `It cannot: a check has failed. ${REFUSALS["503"].description}`,
            { anyOf: [schemaRef("Readiness"), schemaRef("Error")] },
            NOT_READY,
          ),
        },
      },
    },
    "/metrics": {
      get: {
        operationId: "metrics",
        summary: "Metrics for Prometheus",
        responses: { "200": METRICS_TEXT, ...refusals() },
      },
    },
    "/ping": {
      get: {
        operationId: "ping",
        summary: "Whether the agent answers, for clients of node-workflow",
        responses: {
          "200": jsonAnswer("The agent answers.", shapeRef("Ping", PING), {
            pid: 4711,
            backend: "sqlite",
          }),
          ...refusals(),
        },
      },
    },
    "/openapi.json": {
      get: {
        operationId: "agent_openapi",
        summary: "This description",
        parameters: CONDITIONS,
        responses: {
          "200": jsonAnswer(
            "An OpenAPI 3.1 document.",
            { type: "object", additionalProperties: true },
            { openapi: "3.1.0", info: { title: "zonewright", version: "0.1.0" }, paths: {} },
            ["ETag", "Last-Modified"],
          ),
          "304": emptyAnswer("The caller already has it.", ["ETag", "Last-Modified"]),
          ...refusals("412"),
        },
      },
    },
  },
};

const SESSION_EXAMPLE: ShapeOf<typeof SESSION> = {
  caller: "token:console",
  scope: "admin",
  csrf: "hG3kq0bYc7v2",
  expires_at: "2026-01-31T18:30:00.000Z",
};

/** Signing in with a browser, for the console. */
export const SESSIONS: OpenapiPart = {
  tag: { name: "Sessions", description: "Sessions of browsers." },
  schemas: { Session: SESSION },
  parameters: {},
  paths: {
    "/agent/v1/session": {
      get: {
        operationId: "session_get",
        summary: "The session of a browser",
        description: "Needs no token.",
        responses: {
          "200": jsonAnswer("The caller.", shapeRef("Session", SESSION), SESSION_EXAMPLE),
          ...refusals(),
        },
      },
      post: {
        operationId: "session_begin",
        summary: "Start a session of a browser",
        description:
          "Exchanges a bearer token for a cookie that scripts cannot read. The session has the " +
          "rights of the token, and ends with it, after 12 hours, or when the agent stops.",
        requestBody: jsonBody("A token.", schemaRef("SignInRequest"), {
          token: { token: "zwt_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE" },
        }),
        responses: {
          "200": jsonAnswer("The session.", shapeRef("Session", SESSION), SESSION_EXAMPLE),
          ...refusals(...BODY_REFUSALS),
        },
      },
      delete: {
        operationId: "session_end",
        summary: "End the session of a browser",
        responses: { "204": emptyAnswer("The session has ended."), ...refusals() },
      },
    },
  },
};
