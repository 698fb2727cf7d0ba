// The hosts of the store in the OpenAPI document.

import type { JsonObject } from "../../domain/json.ts";
import { HOST_FORGOTTEN, LISTED_HOST } from "../routes/hosts.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import { listOf, type ShapeOf, shapeRef } from "../../domain/description/answer.ts";
import { schemaRef, TEXT } from "../../domain/description/answer.ts";
import { inPath, jsonAnswer, jsonBody, type OpenapiPart, parameterRef } from "./operation.ts";

/** The host of the examples. */
export const HOST_UUID = "7b0e4c52-3d6f-4a18-9c71-5f2e8d4b6a03";
const EXAMPLE: ShapeOf<typeof LISTED_HOST> = {
  uuid: HOST_UUID,
  name: "gz-7.example.com",
  state: "connected",
  this_host: true,
  version: "0.1.0",
  slots: 4,
  running: 1,
  queued: 0,
  capabilities: ["vmadm", "media", "images", "vnc", "info"],
  brands: ["kvm", "bhyve"],
  allow_workflow: [],
  allow_caller: [],
  address: null,
  generation: 3,
  seen_at: "2026-11-20T13:19:55.000Z",
  age_seconds: 5,
  lease_seconds: 30,
  cordoned: false,
  forgotten: false,
};
const CORDONED = { ...EXAMPLE, state: "cordoned", cordoned: true } as const;
const FORGOTTEN = { ...EXAMPLE, state: "forgotten", this_host: false, forgotten: true } as const;

const HOST = shapeRef("ListedHost", LISTED_HOST);
const BY_HOST: JsonObject[] = [parameterRef("HostName")];
const NO_OPTIONS = jsonBody("An empty object.", schemaRef("HostChange"), { empty: {} });

/** The operations on hosts. @see docs/scale.md */
export const HOSTS: OpenapiPart = {
  tag: {
    name: "Hosts",
    description:
      "The hosts whose agents share the store. With SQLite it is the host of this agent alone.",
  },
  parameters: {
    HostName: inPath(
      "host",
      "Uuid or name of the host. A name that several hosts have is refused with 409, and `errors` " +
        "lists their uuids; the name of a forgotten host stands for none.",
      TEXT,
      HOST_UUID,
    ),
  },
  schemas: { ListedHost: LISTED_HOST, HostForgotten: HOST_FORGOTTEN },
  paths: {
    "/agent/v1/hosts": {
      get: {
        operationId: "host_list",
        summary: "The hosts of the store, in the order of their names",
        responses: { "200": jsonAnswer("The hosts.", listOf(HOST), [EXAMPLE]), ...refusals() },
      },
    },
    "/agent/v1/hosts/{host}": {
      get: {
        operationId: "host_get",
        summary: "Get a host with its numbers of jobs",
        parameters: BY_HOST,
        responses: { "200": jsonAnswer("The host.", HOST, EXAMPLE), ...refusals("404", "409") },
      },
      delete: {
        operationId: "host_forget",
        summary: "Give a host up",
        description:
          "Its unfinished jobs fail as `host_lost`, which frees their targets, locks and machines. " +
          "409 while its agent was heard within a lease. Should it return, it acts on nothing until it " +
          "is uncordoned. There are no options: a body other than an empty one, or `{}`, is refused.",
        parameters: BY_HOST,
        responses: {
          "200": jsonAnswer(
            "The host, and how many jobs have failed.",
            shapeRef("HostForgotten", HOST_FORGOTTEN),
            { host: FORGOTTEN, failed_jobs: 2 },
          ),
          ...refusals("404", "408", "409", "413"),
        },
      },
    },
    "/agent/v1/hosts/{host}/cordon": {
      post: {
        operationId: "host_cordon",
        summary: "Let a host claim nothing new",
        description:
          "What runs goes on, with its next tasks too. Jobs of the host wait until it is uncordoned. " +
          "Once this is answered, `running` of the host only falls.",
        parameters: BY_HOST,
        requestBody: NO_OPTIONS,
        responses: {
          "200": jsonAnswer("The host.", HOST, CORDONED),
          ...refusals("404", ...BODY_REFUSALS, "507"),
        },
      },
    },
    "/agent/v1/hosts/{host}/uncordon": {
      post: {
        operationId: "host_uncordon",
        summary: "Let a host claim again, also one that was forgotten",
        parameters: BY_HOST,
        requestBody: NO_OPTIONS,
        responses: {
          "200": jsonAnswer("The host.", HOST, EXAMPLE),
          ...refusals("404", ...BODY_REFUSALS, "507"),
        },
      },
    },
  },
};
