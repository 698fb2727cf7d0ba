// The part of the description about machines.

import type { JsonObject } from "../../domain/json.ts";
import { MACHINE_QUERY_FIELDS } from "../routes/machines.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import { MACHINE_ACTION_PATHS, MACHINE_DELETE } from "./machine_actions.ts";
import { LEFTOVER_PATHS, LEFTOVER_SCHEMAS } from "./machine_leftovers.ts";
import {
  DESCRIPTION,
  LISTED_MACHINE,
  MACHINE_SCHEMAS,
  MACHINE_UUID,
  STARTED,
} from "./machine_schemas.ts";
import {
  inPath,
  jsonAnswer,
  jsonBody,
  listOf,
  type OpenapiPart,
  parameterRef,
  schemaRef,
  UUID,
} from "./operation.ts";
import { queryParameters } from "./requests.ts";

const SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

const REQUESTS: Record<string, JsonObject> = {
  path: {
    uuid: MACHINE_UUID,
    machine: DESCRIPTION,
    media: { path: "/media/installer.iso" },
    boot: "cd",
  },
  artifact: {
    machine: DESCRIPTION,
    media: { artifact: { distro: "zonewright-sample", release: "latest", format: "iso" } },
  },
  url: {
    machine: { brand: "bhyve", ram: 2048, bootrom: "uefi" },
    media: { url: "https://images.example.com/installer.iso", digest: `sha256:${SHA256}` },
  },
};

/** Headers of an answer that a job is kept. */
const KEPT = ["Location", "Idempotency-Replayed"];

/** Machines of document 3. */
export const MACHINES: OpenapiPart = {
  tag: {
    name: "Machines",
    description: "Virtual machines that boot from installation media. Making one is a job of the " +
      "built-in workflow `provision-machine`: it ends with a running machine, or leaves nothing.",
  },
  parameters: { MachineUuid: inPath("uuid", "The machine's uuid.", UUID, MACHINE_UUID) },
  schemas: { ...MACHINE_SCHEMAS, ...LEFTOVER_SCHEMAS },
  paths: {
    "/agent/v1/machines": {
      get: {
        operationId: "machine_list",
        summary: "Every machine of the host, and those that a job is about to make",
        parameters: queryParameters(MACHINE_QUERY_FIELDS, {
          state: "running",
          brand: "kvm",
          alias: "web1",
          limit: 50,
          offset: 0,
        }),
        responses: {
          "200": jsonAnswer("The machines.", listOf(schemaRef("Machine")), [LISTED_MACHINE], [
            "X-Count",
          ]),
          ...refusals("409", "502", "504"),
        },
      },
      post: {
        operationId: "machine_create",
        summary: "Make a machine that boots from a medium",
        description: "Answered once the job is kept; `GET /jobs/{job_uuid}/wait` tells its end. " +
          "Another request for a machine whose job is not finished answers 409 naming that job.",
        parameters: [parameterRef("IdempotencyKey")],
        requestBody: jsonBody("The machine.", schemaRef("MachineRequest"), REQUESTS),
        responses: {
          "202": jsonAnswer("The job is kept.", schemaRef("MachineStarted"), STARTED, KEPT),
          ...refusals("404", ...BODY_REFUSALS, "502", "504", "507"),
        },
      },
    },
    "/agent/v1/machines/{uuid}": {
      get: {
        operationId: "machine_get",
        summary: "One machine, with the address of its console",
        parameters: [parameterRef("MachineUuid")],
        responses: {
          "200": jsonAnswer("The machine.", schemaRef("MachineRead"), {
            ...LISTED_MACHINE,
            vnc: { host: "127.0.0.1", port: 5901, display: 1 },
            console: `/agent/v1/machines/${MACHINE_UUID}/console`,
          }),
          ...refusals("404", "502", "504"),
        },
      },
      delete: MACHINE_DELETE,
    },
    ...MACHINE_ACTION_PATHS,
    ...LEFTOVER_PATHS,
  },
};
