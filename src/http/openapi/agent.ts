// The part of the description about the agent itself.

import type { JsonObject } from "../../domain/json.ts";
import { REFUSALS, refusals } from "./errors.ts";
import {
  CONDITIONS,
  COUNT,
  emptyAnswer,
  jsonAnswer,
  objectOf,
  type OpenapiPart,
  schemaRef,
} from "./operation.ts";
import { STATS_WINDOWS } from "../../domain/job/job.ts";
import { EXECUTIONS } from "../../domain/job/state.ts";

const NONE: JsonObject = Object.fromEntries(EXECUTIONS.map((counter) => [counter, 0]));
const STATS: JsonObject = {
  all_time: { ...NONE, succeeded: 310, failed: 4 },
  past_24h: { ...NONE, succeeded: 12 },
  past_hour: { ...NONE, succeeded: 1 },
  current: { ...NONE, running: 2, waiting: 1 },
};

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
  Readiness: objectOf("Whether the agent can do its work.", ["status"], {
    status: { enum: ["ready", "not_ready"] },
    checks: {
      type: "object",
      description: "Results by check. A warning does not make the agent unready. Left out for a " +
        "caller that needs a token and sends none.",
      additionalProperties: schemaRef("Finding"),
    },
  }),
  Finding: objectOf("The result of one check.", ["status", "detail"], {
    status: { enum: ["ok", "warn", "failed"] },
    detail: { type: "string", description: "For people." },
  }),
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

/** Numbers, signs of life, and this description. */
export const AGENT: OpenapiPart = {
  tag: { name: "Agent", description: "The agent itself." },
  parameters: {},
  schemas: SCHEMAS,
  paths: {
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
    "/healthz": {
      get: {
        operationId: "health",
        summary: "Whether the agent answers",
        responses: {
          "200": jsonAnswer("It does.", schemaRef("Health"), { status: "ok" }),
          ...refusals(),
        },
      },
    },
    "/readyz": {
      get: {
        operationId: "readiness",
        summary: "Whether the agent can do its work, and if not, why",
        responses: {
          "200": jsonAnswer("It can.", schemaRef("Readiness"), READY),
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
          "200": jsonAnswer("It does.", schemaRef("Ping"), { pid: 4711, backend: "sqlite" }),
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
          "304": emptyAnswer("The caller has it already.", ["ETag", "Last-Modified"]),
          ...refusals(),
        },
      },
    },
  },
};
