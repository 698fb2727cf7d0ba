// /jobs/:job_uuid/info: what tasks and other programs report about the progress of a job.

import { type Context, Hono } from "hono";
import { entriesOf } from "../../../domain/description/object.ts";
import {
  accepted,
  type Description,
  openFindings,
} from "../../../domain/description/description.ts";
import { about, anything } from "../../../domain/description/value.ts";
import { AgentError } from "../../../domain/error.ts";
import { AGENT_PREFIX } from "../../../domain/job/log_line.ts";
import { isJsonObject, type JsonObject } from "../../../domain/json.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import type { HttpLimits } from "../../limits.ts";
import { jobUuidOf } from "./change.ts";
import { jobNotFound } from "../../../store/job_orders.ts";
import { infoBody, readJson } from "../../request/body.ts";
import { PAGE_FIELDS, PASSED_OVER, readQuery } from "../../request/query.ts";
import { listResponse, type NextPage } from "../../answer/json_list.ts";
import { shownTo } from "../../answer/text_answer.ts";

type JobInfoContext = Pick<ServedAgent, "store" | "limits" | "now" | "log" | "budget">;

/** The routes of a job's info. @see document 2, Job info entry */
export function jobInfoRoutes(context: JobInfoContext): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/jobs/:job_uuid/info", (c) => listInfo(c, context));
  app.post("/jobs/:job_uuid/info", (c) => appendInfo(c, context));
  return app;
}

/** The query of the list. */
export const INFO_QUERY_FIELDS = {
  after: about("Number of entries to skip, such as those already read.", PASSED_OVER),
  limit: PAGE_FIELDS.limit,
};

/** Oldest first; `after` is the number of entries to skip. */
async function listInfo(c: Context<HttpEnv>, context: JobInfoContext): Promise<Response> {
  const { store } = context;
  const uuid = jobUuidOf(c);
  const query = readQuery(c.req.url, INFO_QUERY_FIELDS);
  let { after = 0, limit: left = Number.MAX_SAFE_INTEGER } = query;
  const next: NextPage = async (size) => {
    const limit = Math.min(size, left);
    const listed = await store.info.texts(uuid, after, limit);
    if (listed === undefined) throw jobNotFound(uuid, "info_of_no_job");
    after += listed.entries;
    left -= listed.entries;
    return { ...listed, last: listed.last || left === 0 };
  };
  return await listResponse(c, next, { ...context, shown: shownTo(c, "other") });
}

async function appendInfo(
  c: Context<HttpEnv>,
  { store, limits, now }: JobInfoContext,
): Promise<Response> {
  const uuid = jobUuidOf(c);
  const body = await readJson(c, infoBody(limits));
  const findings = openFindings();
  const read = infoRequest.read(body, "", findings);
  // As for other changes: a missing job is refused before its entry is.
  if (findings.list.length > 0 && await store.jobs.execution(uuid) === undefined) {
    throw jobNotFound(uuid, "entry_of_no_job");
  }
  const entry = infoEntryOf(accepted(read, findings, "info entry"), limits);
  const outcome = await store.info.append(uuid, entry, now(), limits.infoEntriesMax);
  if (outcome === "not_found") throw jobNotFound(uuid, "entry_of_no_job");
  if (outcome === "full") {
    const message =
      `Cannot add to the info of job ${uuid}: it has ${limits.infoEntriesMax} entries, the maximum`;
    throw new AgentError("conflict", message);
  }
  return c.body(null, 200);
}

const OWN_NAME = new RegExp(`^(?!${AGENT_PREFIX})`);

/** An entry by itself. Names that the agent uses are reserved for it. */
const infoEntry = entriesOf(OWN_NAME, anything, {
  countMin: 1,
  countWords: "keys",
  nameWords: `must not begin with ${AGENT_PREFIX}, as names of the agent do`,
  words: "an object with at least one key",
});

/** The body of POST /jobs/:job_uuid/info: an entry, or an entry as `message` and nothing else. */
export const infoRequest: Description<JsonObject> = {
  words: infoEntry.words,
  read(value, field, findings) {
    const wrapped = isJsonObject(value) && entryOf(value) !== value;
    if (!wrapped) return infoEntry.read(value, field || "message", findings) && value as JsonObject;
    return infoEntry.read(value.message, "message", findings) && value;
  },
  schema: (components) => ({
    type: "object",
    description: "An entry, or an entry as `message`.",
    if: {
      type: "object",
      properties: { message: { type: "object" } },
      required: ["message"],
      maxProperties: 1,
    },
    then: {
      type: "object",
      properties: { message: infoEntry.schema(components) },
      additionalProperties: true,
    },
    else: infoEntry.schema(components),
  }),
};

function entryOf(body: JsonObject): JsonObject {
  return Object.keys(body).length === 1 && isJsonObject(body.message) ? body.message : body;
}

/**
 * The entry in a body: the whole object, as clients of node-workflow send it. Exactly `{"message": {...}}`,
 * the form of document 2, means the object inside.
 * @throws {AgentError} `too_large`
 */
function infoEntryOf(
  body: JsonObject,
  limits: Pick<HttpLimits, "infoEntryBytesMax">,
): JsonObject {
  const entry = entryOf(body);
  if (new TextEncoder().encode(JSON.stringify(entry)).byteLength > limits.infoEntryBytesMax) {
    const message =
      `Cannot accept the message: it is over ${limits.infoEntryBytesMax} bytes, the maximum`;
    throw new AgentError("too_large", message);
  }
  return entry;
}
