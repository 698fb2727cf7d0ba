// The paths of the description about the progress that is told of a job.

import { INFO_QUERY_FIELDS } from "../routes/jobs/info.ts";
import { BODY_REFUSALS, onlyRefusals, refusals } from "./errors.ts";
import {
  emptyAnswer,
  jsonAnswer,
  jsonBody,
  listOf,
  type OpenapiPart,
  parameterRef,
  schemaRef,
} from "./operation.ts";
import { queryParameters } from "./requests.ts";

const BY_UUID = [parameterRef("JobUuid")];
const ENTRY = { task: "stop", message: "asked the guest to power off" };

/** @see document 2, Job info entry */
export const JOB_INFO_PATHS: OpenapiPart["paths"] = {
  "/jobs/{job_uuid}/info": {
    get: {
      operationId: "job_info_list",
      summary: "What was told of the progress of a job, oldest first",
      parameters: [
        ...BY_UUID,
        ...queryParameters(INFO_QUERY_FIELDS, { after: 0, limit: 50 }),
      ],
      responses: {
        "200": jsonAnswer("The entries.", listOf(schemaRef("JobInfo")), [ENTRY]),
        ...refusals("404", "409"),
      },
    },
    post: {
      operationId: "job_info_append",
      summary: "Tell of the progress of a job",
      description:
        "The object in `message` becomes the newest entry; so does the whole body when " +
        "it holds anything else. Their size and their number are bounded by the agent's settings.",
      parameters: BY_UUID,
      requestBody: jsonBody(
        "The entry.",
        schemaRef("InfoRequest"),
        { message: { message: ENTRY }, entry: ENTRY },
      ),
      responses: {
        "200": emptyAnswer("The entry is kept. There is no body."),
        ...refusals("404", ...BODY_REFUSALS, "507"),
      },
    },
    put: {
      operationId: "job_info_replace_refused",
      summary: "Refused: what was told stays",
      parameters: BY_UUID,
      responses: onlyRefusals("405"),
    },
    delete: {
      operationId: "job_info_delete_refused",
      summary: "Refused: what was told stays",
      parameters: BY_UUID,
      responses: onlyRefusals("405"),
    },
  },
};
