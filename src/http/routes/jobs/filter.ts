// What the query of GET /jobs and the `filter` of calls on many jobs have in common.

import { spanEnd, uuidOf } from "../../../domain/description/formats.ts";
import { entriesOf } from "../../../domain/description/object.ts";
import type { Description } from "../../../domain/description/description.ts";
import {
  about,
  kept,
  oneOf,
  scalar,
  text,
  WHOLE_TEXT,
  wholeText,
} from "../../../domain/description/value.ts";
import { AgentError } from "../../../domain/error.ts";
import { HOST_CHARS_MAX } from "../../../domain/host.ts";
import type { HostUuid, WorkflowUuid } from "../../../domain/id.ts";
import { hostOf } from "../../../store/host_store.ts";
import type { Store } from "../../../store/store.ts";
import { EXECUTION_WORDS, parseExecutionFilter } from "../../../domain/job/wire.ts";
import type { JsonObject } from "../../../domain/json.ts";
import type { Execution } from "../../../domain/job/state.ts";

/** Params in one filter: each is looked up in every job that matches the others. */
export const PARAM_KEYS_MAX = 8;
/** Names of params, without characters that are syntax in a JSON path. */
const PARAM_KEY = /^[A-Za-z0-9_.:@-]{1,64}$/;

/** Whether jobs can be filtered by a param of this name. */
export function isParamKey(name: string): boolean {
  return PARAM_KEY.test(name);
}

const DATE_WORDS = "ISO 8601: a date, or a date and time with its offset; or milliseconds since " +
  "1970.";

const storable = text(WHOLE_TEXT, "a text without a NUL or half a character");

/** The fields that both have. */
export const JOB_FILTER_FIELDS = {
  since: about(`Only jobs made at this instant or after. ${DATE_WORDS}`, spanEnd),
  until: about(`Only jobs made before. ${DATE_WORDS}`, spanEnd),
  target: about("Only jobs of this target.", storable),
  name: about("Only jobs of workflows of this name.", storable),
  workflow_uuid: about("Only jobs of this workflow.", uuidOf<WorkflowUuid>()),
  host: about(
    "Only jobs that this host runs or has run, by its uuid or its name.",
    wholeText(HOST_CHARS_MAX),
  ),
};

/**
 * A filter whose host is its uuid.
 * @throws {AgentError} `no_host` for a host that is not registered
 */
export async function withHost<Filter extends { readonly host?: string | undefined }>(
  { host, ...others }: Filter,
  store: Pick<Store, "hosts">,
): Promise<Omit<Filter, "host"> & { readonly host?: HostUuid }> {
  if (host === undefined) return others;
  return { ...others, host: (await hostOf(host, store, "Cannot filter jobs", "host")).uuid };
}

/** An execution in the words of either convention, limited to these. */
export function executionIn(words: readonly string[]): Description<Execution> {
  return kept(oneOf(words), parseExecutionFilter);
}

/** A word that names any of the executions. */
export const anyExecution: Description<Execution> = executionIn(EXECUTION_WORDS);

/** Params by name: a value is the text of the param, or the JSON of anything else. */
export const paramFilter: Description<JsonObject> = about(
  "Only jobs whose params have these values: a string as it is, any other value as its " +
    "JSON. Names have at most 64 letters, digits and `_ . : @ -`.",
  kept(
    entriesOf(
      PARAM_KEY,
      scalar(storable, "a text, a number, a boolean or null", [
        "number",
        "boolean",
        "null",
      ]),
      {
        countMin: 1,
        countMax: PARAM_KEYS_MAX,
        countWords: "params",
        nameWords: "is not a filter of jobs",
        words: "an object of params by their names",
      },
    ),
    (params) =>
      Object.fromEntries(
        Object.entries(params).map((
          [name, value],
        ) => [name, typeof value === "string" ? value : JSON.stringify(value)]),
      ),
  ),
);

/** The error for a caller that may not see params, and must not find them out by filtering. */
export function paramsForbidden(name: string): AgentError {
  const message = `Cannot filter by the param ${name}: the scope "read" is shown no params, ` +
    'expected "admin"';
  return new AgentError("forbidden", message);
}
