// The paths of the description about the progress that is told of a job.

import { DEFAULT_HTTP_LIMITS } from "../context.ts";
import { BODY_REFUSALS, onlyRefusals, refusals } from "./errors.ts";
import {
  COUNT,
  emptyAnswer,
  inQuery,
  jsonAnswer,
  jsonBody,
  listOf,
  objectOf,
  type OpenapiPart,
  parameterRef,
  schemaRef,
} from "./operation.ts";

const { infoEntriesMax, infoEntryBytesMax } = DEFAULT_HTTP_LIMITS;
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
        inQuery("after", "As many entries are passed over, those read already.", COUNT, 0),
        parameterRef("Limit"),
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
        "it holds anything else. At most " +
        `${infoEntryBytesMax} bytes an entry and ${infoEntriesMax} entries a job unless configured.`,
      parameters: BY_UUID,
      requestBody: jsonBody(
        "The entry.",
        {
          ...objectOf("An entry, or an entry as `message`.", [], {
            message: { description: "The entry, where it is an object and the only key." },
          }, "open"),
          minProperties: 1,
        },
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
