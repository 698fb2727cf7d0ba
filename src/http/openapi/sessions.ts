// Browser sessions in the OpenAPI document.

import type { JsonObject } from "../../domain/json.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import {
  emptyAnswer,
  INSTANT,
  jsonAnswer,
  jsonBody,
  objectOf,
  type OpenapiPart,
  schemaRef,
} from "./operation.ts";

const SESSION: JsonObject = {
  caller: "token:console",
  scope: "admin",
  csrf: "hG3kq0bYc7v2",
  expires_at: "2026-01-31T18:30:00.000Z",
};

const SCHEMA: JsonObject = objectOf(
  "Who a browser's requests come from.",
  ["caller", "scope", "csrf", "expires_at"],
  {
    caller: {
      type: ["string", "null"],
      description: "`loopback`, `socket`, or `token:` and its name; null for a caller that has " +
        "to show a token.",
    },
    scope: { type: ["string", "null"], enum: ["read", "admin", null] },
    csrf: {
      type: ["string", "null"],
      description: "What requests with the cookie of a session send as `X-CSRF-Token` when they " +
        "change something. Null without a session.",
    },
    expires_at: { ...INSTANT, type: ["string", "null"] },
  },
);

/** Signing in with a browser, for the console. */
export const SESSIONS: OpenapiPart = {
  tag: { name: "Sessions", description: "Browsers that have signed in." },
  schemas: { Session: SCHEMA },
  parameters: {},
  paths: {
    "/agent/v1/session": {
      get: {
        operationId: "session_get",
        summary: "Who a browser acts for",
        description: "Answers without a token too.",
        responses: {
          "200": jsonAnswer("The caller.", schemaRef("Session"), SESSION),
          ...refusals(),
        },
      },
      post: {
        operationId: "session_begin",
        summary: "Begin a session of a browser",
        description:
          "Takes a bearer token and answers a cookie that scripts cannot read. The session " +
          "has the rights of the token. It ends with the token, after 12 hours, and with the agent.",
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
        responses: { "204": emptyAnswer("There is none now."), ...refusals() },
      },
    },
  },
};
