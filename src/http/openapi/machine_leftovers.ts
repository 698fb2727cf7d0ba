// The part of the description about what failed jobs have left on the host.

import type { JsonObject } from "../../domain/json.ts";
import { refusals } from "./errors.ts";
import { MACHINE_UUID } from "./machine_schemas.ts";
import { COUNT, INSTANT, jsonAnswer, listOf, objectOf, schemaRef, UUID } from "./operation.ts";

const EXAMPLE: JsonObject = {
  uuid: MACHINE_UUID,
  job_uuid: "b7f6a3a0-3c0e-4e59-8f6e-54a9c3e0d7f2",
  job_execution: "failure",
  claimed_at: "2026-11-20T12:00:00.000Z",
  tries: 2,
  next_try_at: "2026-11-20T12:09:00.000Z",
  error: `Cannot delete machine ${MACHINE_UUID}: "vmadm delete ${MACHINE_UUID}" exited with code 1`,
};

const NULLABLE_INSTANT: JsonObject = { ...INSTANT, type: ["string", "null"] };

/** Shapes of what is left. */
export const LEFTOVER_SCHEMAS: JsonObject = {
  Leftover: objectOf("What a job should have removed and could not.", Object.keys(EXAMPLE), {
    uuid: { ...UUID, description: "Of the machine, of which there may be datasets only." },
    job_uuid: UUID,
    job_execution: schemaRef("Execution"),
    claimed_at: { ...INSTANT, description: "When the job began to make the machine." },
    tries: { ...COUNT, description: "Attempts to remove it since the job ended." },
    next_try_at: {
      ...NULLABLE_INSTANT,
      description: "When the next attempt is due; null while nobody has looked since.",
    },
    error: {
      type: ["string", "null"],
      description: "What the latest attempt failed with; null before the first.",
    },
  }),
};

/** Paths of what is left. */
export const LEFTOVER_PATHS: Readonly<Record<string, Readonly<Record<string, JsonObject>>>> = {
  "/agent/v1/leftovers": {
    get: {
      operationId: "leftover_list",
      summary: "What failed jobs have left on the host, and when it is tried again to remove it",
      responses: {
        "200": jsonAnswer("What is left; usually nothing.", listOf(schemaRef("Leftover")), [
          EXAMPLE,
        ]),
        ...refusals(),
      },
    },
  },
};
