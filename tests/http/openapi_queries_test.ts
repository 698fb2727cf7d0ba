// The published parameters of queries, beside the checks that read them: random query strings are taken
// and refused by both alike, but for the rules that JSON Schema cannot state.

import { assert, assertEquals } from "@std/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import { AgentError } from "../../src/domain/error.ts";
import { openFindings } from "../../src/domain/description/description.ts";
import { type Fields, object } from "../../src/domain/description/object.ts";
import type { JsonObject, JsonValue } from "../../src/domain/json.ts";
import { MEDIA_HOST_FIELDS } from "../../src/http/request/forwarding.ts";
import { readQuery } from "../../src/http/request/query.ts";
import { IMAGE_QUERY_FIELDS } from "../../src/http/routes/index/images.ts";
import { EVENT_QUERY_FIELDS } from "../../src/http/routes/events/events.ts";
import { INFO_QUERY_FIELDS } from "../../src/http/routes/jobs/info.ts";
import { JOB_QUERY_FIELDS } from "../../src/http/routes/jobs/jobs.ts";
import { WAIT_FIELDS } from "../../src/http/routes/jobs/wait.ts";
import {
  COUNT_QUERY_FIELDS,
  LOG_QUERY_FIELDS,
  SUMMARY_QUERY_FIELDS,
} from "../../src/http/routes/jobs/view.ts";
import { HOURLY_QUERY_FIELDS } from "../../src/http/routes/monitoring.ts";
import { CONSOLE_QUERY_FIELDS } from "../../src/http/routes/machines/console.ts";
import { LEFTOVER_QUERY_FIELDS } from "../../src/http/routes/machines/leftovers.ts";
import { MACHINE_QUERY_FIELDS } from "../../src/http/routes/machines/list.ts";
import {
  LIBRARY_QUERY_FIELDS,
  LIBRARY_REMOVAL_FIELDS,
  UPLOAD_QUERY_FIELDS,
} from "../../src/http/routes/media/library.ts";
import { WORKFLOW_QUERY_FIELDS } from "../../src/http/routes/workflows.ts";
import { OPENAPI, OPERATIONS } from "./openapi_operations.ts";
import { randomDocuments } from "./random_documents.ts";

const SEED = Number(Deno.env.get("ZONEWRIGHT_TEST_SEED") ?? 15);
const QUERIES = 2000;

/** How the query of an operation is read; a route that gets a query is added below. */
interface Reading {
  readonly fields: Fields;
  /** Parameters that stand for keys of the caller's choice. */
  readonly apart?: readonly string[];
}

const READ: Readonly<Record<string, Reading>> = {
  "GET /workflows": { fields: WORKFLOW_QUERY_FIELDS },
  "GET /jobs": { fields: JOB_QUERY_FIELDS, apart: ["params"] },
  "GET /jobs/{job_uuid}/info": { fields: INFO_QUERY_FIELDS },
  "GET /jobs/{job_uuid}/wait": { fields: WAIT_FIELDS },
  "GET /agent/v1/events": { fields: EVENT_QUERY_FIELDS },
  "GET /agent/v1/jobs": { fields: SUMMARY_QUERY_FIELDS },
  "GET /agent/v1/jobs/counts": { fields: COUNT_QUERY_FIELDS },
  "GET /agent/v1/jobs/{job_uuid}/log": { fields: LOG_QUERY_FIELDS },
  "GET /agent/v1/stats/hourly": { fields: HOURLY_QUERY_FIELDS },
  "GET /agent/v1/leftovers": { fields: LEFTOVER_QUERY_FIELDS },
  "DELETE /agent/v1/leftovers/{uuid}": { fields: LEFTOVER_QUERY_FIELDS },
  "GET /agent/v1/machines": { fields: MACHINE_QUERY_FIELDS },
  "GET /agent/v1/machines/{uuid}/console": { fields: CONSOLE_QUERY_FIELDS },
  // The host is read before the route is found.
  ...Object.fromEntries(
    [
      "GET /agent/v1/media",
      "POST /agent/v1/media",
      "GET /agent/v1/media/{digest}",
      "DELETE /agent/v1/media/{digest}",
      "POST /agent/v1/media/{digest}/verify",
      "GET /agent/v1/media/library/{name}",
    ].map((operation) => [operation, { fields: MEDIA_HOST_FIELDS }]),
  ),
  "GET /agent/v1/media/library": { fields: { ...LIBRARY_QUERY_FIELDS, ...MEDIA_HOST_FIELDS } },
  "PUT /agent/v1/media/library/{name}": { fields: UPLOAD_QUERY_FIELDS },
  "DELETE /agent/v1/media/library/{name}": {
    fields: { ...LIBRARY_REMOVAL_FIELDS, ...MEDIA_HOST_FIELDS },
  },
  "GET /agent/v1/images": { fields: IMAGE_QUERY_FIELDS },
};

/** The values that a text of a query may stand for. */
function valuesOf(text: string): JsonValue[] {
  const flags = text === "true" || text === "false" ? [text === "true"] : [];
  return [text, ...flags, ...(/^[0-9]+$/.test(text) ? [Number(text)] : [])];
}

/** The rules of a refusal that no schema states; undefined where the query is taken. */
function refusalOf(url: string, { fields }: Reading): (string | null)[] | undefined {
  try {
    readQuery(url, fields);
    return undefined;
  } catch (error) {
    assert(error instanceof AgentError && error.code === "invalid_argument", String(error));
  }
  const findings = openFindings();
  const texts = [...new URL(url).searchParams].map(([name, text]): [string, unknown] => [
    name,
    fields[name]?.fromText?.(text) ?? text,
  ]);
  object(fields).read(Object.fromEntries(texts), "", findings);
  return [...findings.rules];
}

for (const { method, path, parameters } of OPERATIONS) {
  const published = parameters.filter((one) => one.in === "query");
  if (published.length === 0) continue;
  const name = `${method} ${path}`;
  Deno.test(`the query of ${name} is accepted and refused as its parameters are described`, () => {
    const reading = READ[name];
    assert(reading !== undefined, `no reading of ${name}`);
    const own = published.filter((one) => reading.apart?.includes(one.name) !== true);
    assertEquals(own.map((one) => one.name).sort(), Object.keys(reading.fields).sort());
    assertEquals(own.filter((one) => one.required), []);
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    const admits = new Map(own.map((one) => [one.name, ajv.compile(one.schema)]));
    const properties = Object.fromEntries(own.map((one) => [one.name, one.schema]));
    const shape: JsonObject = { type: "object", properties, additionalProperties: false };
    const random = randomDocuments(SEED, OPENAPI);
    const seen = { taken: 0, refused: 0, beyond: 0 };
    for (let index = 0; index < QUERIES; index++) {
      const made = random.next(shape);
      const entries = Object.entries(Array.isArray(made) || made === null ? {} : made).map(
        ([key, value]): [string, string] => [key, typeof value === "string" ? value : `${value}`],
      );
      const url = `http://a/?${new URLSearchParams(entries)}`;
      const sent = [...new URL(url).searchParams];
      const fits = sent.every(([key, text]) =>
        valuesOf(text).some((value) => admits.get(key)?.(value) === true)
      );
      const rules = refusalOf(url, reading);
      if (fits === (rules === undefined)) seen[fits ? "taken" : "refused"] += 1;
      else if (fits && rules?.every((rule) => rule !== null) === true) seen.beyond += 1;
      else throw new Error(`${url}: the parameters ${fits ? "admit" : "refuse"} it, the check not`);
    }
    assert(seen.taken >= QUERIES / 50 && seen.refused >= QUERIES / 50, JSON.stringify(seen));
  });
}
