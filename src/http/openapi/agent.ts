// The agent itself in the OpenAPI document.

import type { JsonObject } from "../../domain/json.ts";
import { BODY_REFUSALS, REFUSALS, refusals } from "./errors.ts";
import { HOST } from "./host.ts";
import {
  COUNT,
  INSTANT,
  listOf,
  objectOf,
  schemaRef,
  whole,
} from "../../domain/description/answer.ts";
import { CONDITIONS, emptyAnswer, jsonAnswer, jsonBody, type OpenapiPart } from "./operation.ts";
import { STATS_WINDOWS } from "../../domain/job/job.ts";
import { EXECUTIONS, isFinal } from "../../domain/job/state.ts";
import { CALLER } from "../routes/agent.ts";
import { READINESS, READINESS_FINDING } from "../routes/health.ts";
import { HOURLY_QUERY_FIELDS } from "../routes/metrics.ts";
import { queryParameters } from "./requests.ts";

const NONE: JsonObject = Object.fromEntries(EXECUTIONS.map((counter) => [counter, 0]));
const STATS: JsonObject = {
  all_time: { ...NONE, succeeded: 310, failed: 4 },
  past_24h: { ...NONE, succeeded: 12 },
  past_hour: { ...NONE, succeeded: 1 },
  current: { ...NONE, running: 2, waiting: 1 },
};

const ENDS = EXECUTIONS.filter(isFinal);
const END_COUNTS: JsonObject = Object.fromEntries(ENDS.map((execution) => [execution, COUNT]));
const ENDED = { ...Object.fromEntries(ENDS.map((execution) => [execution, 0])), succeeded: 12 };

const SCHEMAS: JsonObject = {
  Stats: objectOf(
    "Numbers of jobs by execution. The windows do not overlap: `all_time` excludes " +
      "`past_24h`, which excludes `past_hour`.",
    STATS_WINDOWS,
    Object.fromEntries(STATS_WINDOWS.map((window) => [window, schemaRef("Counters")])),
  ),
  Counters: objectOf(
    "Numbers of jobs of one window.",
    EXECUTIONS,
    Object.fromEntries(EXECUTIONS.map((counter) => [counter, COUNT])),
  ),
  Health: objectOf("The agent answers.", ["status"], { status: { const: "ok" } }),
  Readiness: READINESS,
  Finding: READINESS_FINDING,
  HourlyStats: objectOf(
    "How jobs ended, hour by hour. Jobs that were removed do not count.",
    ["since", "until", "total", "hours"],
    {
      since: { ...INSTANT, description: "Start of the first hour." },
      until: { ...INSTANT, description: "The current time; the last hour is not over." },
      total: whole("Sums of all these hours.", END_COUNTS),
      hours: {
        ...listOf(
          whole("Jobs that ended in one hour.", {
            hour: { ...INSTANT, description: "Start of the hour, UTC." },
            ...END_COUNTS,
          }),
        ),
        description: "Oldest first, without gaps: an hour in which no job ended has zeros.",
      },
    },
  ),
  Whoami: CALLER,
  Ping: objectOf("The agent answers.", ["pid", "backend"], {
    pid: { type: "integer", minimum: 1, description: "The agent's process." },
    backend: { type: "string", description: "Where jobs are kept." },
  }),
};

const READY: JsonObject = {
  status: "ready",
  checks: {
    store: { status: "ok", detail: "a write was committed" },
    disk: { status: "ok", detail: "12400 MB free" },
    host: { status: "ok", detail: "vmadm answers: 4 machines" },
    index: { status: "warn", detail: "compared with its upstream 90000 s ago" },
  },
};
const NOT_READY: JsonObject = {
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
          "200": jsonAnswer("The numbers.", schemaRef("Stats"), STATS),
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
          "200": jsonAnswer("The numbers.", schemaRef("HourlyStats"), {
            since: "2026-11-20T12:00:00.000Z",
            until: "2026-11-20T13:20:00.000Z",
            total: ENDED,
            hours: [
              { hour: "2026-11-20T12:00:00.000Z", ...ENDED },
              { hour: "2026-11-20T13:00:00.000Z", ...ENDED, succeeded: 0 },
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
          "200": jsonAnswer("The caller.", schemaRef("Whoami"), {
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
          "200": jsonAnswer("The agent answers.", schemaRef("Health"), { status: "ok" }),
          ...refusals(),
        },
      },
    },
    "/readyz": {
      get: {
        operationId: "readiness",
        summary: "Whether the agent can do its work, and if not, why",
        responses: {
          "200": jsonAnswer("The agent is ready.", schemaRef("Readiness"), READY),
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
          "200": jsonAnswer("The agent answers.", schemaRef("Ping"), {
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
          ...refusals(),
        },
      },
    },
  },
};

// Browser sessions in the OpenAPI document.

const SESSION: JsonObject = {
  caller: "token:console",
  scope: "admin",
  csrf: "hG3kq0bYc7v2",
  expires_at: "2026-01-31T18:30:00.000Z",
};

const SCHEMA: JsonObject = objectOf(
  "The caller that a browser acts for.",
  ["caller", "scope", "csrf", "expires_at"],
  {
    caller: {
      type: ["string", "null"],
      description:
        "`loopback`, `socket`, or `token:` and its name; null if the caller must send a token.",
    },
    scope: { type: ["string", "null"], enum: ["read", "admin", null] },
    csrf: {
      type: ["string", "null"],
      description:
        "What requests with the session's cookie must send as `X-CSRF-Token` when they change " +
        "something. Null without a session.",
    },
    expires_at: { ...INSTANT, type: ["string", "null"] },
  },
);

/** Signing in with a browser, for the console. */
export const SESSIONS: OpenapiPart = {
  tag: { name: "Sessions", description: "Sessions of browsers." },
  schemas: { Session: SCHEMA },
  parameters: {},
  paths: {
    "/agent/v1/session": {
      get: {
        operationId: "session_get",
        summary: "The session of a browser",
        description: "Needs no token.",
        responses: {
          "200": jsonAnswer("The caller.", schemaRef("Session"), SESSION),
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
          "200": jsonAnswer("The session.", schemaRef("Session"), SESSION),
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
