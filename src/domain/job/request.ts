// What callers ask of jobs: the parse of POST /jobs and of resume.

import { AgentError, invalidArgument } from "../error.ts";
import { parseUuid, type WorkflowUuid } from "../id.ts";
import { type Instant, parseInstant } from "../instant.ts";
import { isJsonObject, isWholeText, type JsonObject, type JsonValue } from "../json.ts";
import { leadsToNamed } from "../ip_address.ts";

/** Characters of `locks`; a longer pattern would cost every later job. */
const LOCKS_CHARS_MAX = 256;
const CALLBACK_CHARS_MAX = 2048;

/** What POST /jobs asks for. */
export interface JobRequest {
  readonly workflow_uuid: WorkflowUuid;
  readonly exec_after: Instant | null;
  readonly target: string | null;
  readonly locks: string | null;
  readonly callback_url: string | null;
  readonly params: JsonObject;
}

export interface JobLimits {
  /** Characters of `target`. */
  readonly targetCharsMax: number;
  /** Characters of `params` as JSON text. */
  readonly paramsCharsMax: number;
  /** Hosts, with their port where it is not the scheme's own, that a callback may go to. */
  readonly callbackHosts: readonly string[];
}

/**
 * Reads the body of POST /jobs: every key besides `workflow`, `exec_after`, `target`, `locks` and
 * `callback_url` becomes a parameter.
 * @throws {AgentError} `invalid_argument` naming the field; `too_large`
 * @see document 2, Endpoints
 */
export function parseJobRequest(body: unknown, limits: JobLimits): JobRequest {
  if (!isJsonObject(body)) {
    throw invalidArgument("body", "Cannot read the job: expected the body to be a JSON object");
  }
  const { workflow, exec_after, target, locks, callback_url, ...params } = body;
  const workflow_uuid = parseUuid<WorkflowUuid>(workflow, "workflow");
  if (JSON.stringify(params).length > limits.paramsCharsMax) {
    const message =
      `Cannot accept the parameters: over ${limits.paramsCharsMax} characters of JSON`;
    throw new AgentError("too_large", message);
  }
  return {
    workflow_uuid,
    exec_after: exec_after === undefined ? null : parseInstant(exec_after, "exec_after"),
    target: textOf(target, "target", limits.targetCharsMax),
    locks: textOf(locks, "locks", LOCKS_CHARS_MAX),
    callback_url: callbackOf(callback_url, limits.callbackHosts),
    params,
  };
}

function textOf(value: unknown, field: string, charsMax: number): string | null {
  if (value === undefined) return null;
  if (typeof value !== "string" || value.length === 0) {
    throw invalidArgument(field, `Cannot read ${field}: expected a text that is not empty`);
  }
  if (!isWholeText(value)) {
    throw invalidArgument(field, `Cannot read ${field}: it holds a NUL or half a character`);
  }
  if (value.length > charsMax) {
    const message = `Cannot accept ${field}: it is over ${charsMax} characters`;
    throw invalidArgument(field, message, "TooLarge");
  }
  return value;
}

/** @throws {AgentError} `invalid_argument`; `forbidden` for a host that nobody has allowed */
function callbackOf(value: unknown, hosts: readonly string[]): string | null {
  const field = "callback_url";
  const text = textOf(value, field, CALLBACK_CHARS_MAX);
  if (text === null) return null;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw invalidArgument(field, `Cannot read ${field}: expected an http or https URL`);
  }
  if (url.username !== "" || url.password !== "" || url.hash !== "") {
    throw invalidArgument(field, `Cannot accept ${field}: it names a user or a fragment`);
  }
  if (!leadsToNamed(url, hosts)) {
    const shown = hosts.length === 0 ? "none is" : `only ${hosts.join(", ")}`;
    const message = `Cannot call back to ${JSON.stringify(url.host)}: ${shown} allowed, see ` +
      "the setting callback_host";
    throw new AgentError("forbidden", message, { errors: [{ field, code: "Invalid", message }] });
  }
  return url.href;
}

/** The outcome of a waiting task as POST /jobs/:job_uuid/resume reports it. */
export type Resume =
  | { readonly kind: "result"; readonly result: JsonValue }
  | { readonly kind: "error"; readonly error: string; readonly result: JsonValue };

/** What differs between document 2 and node-workflow in a resume. */
export interface ResumeRules {
  /** Recorded when the caller reports no result. */
  readonly defaultResult: string;
  /** Whether an `error` of null, false, 0 or no characters makes the job fail. */
  readonly falsyErrorFails: boolean;
}

/** The rules of document 2: the mere presence of `error` counts. */
export const DOCUMENT_RESUME: ResumeRules = { defaultResult: "OK", falsyErrorFails: true };

/**
 * Reads the body of a resume.
 * @throws {AgentError} `invalid_argument`
 * @see document 2, States and transitions
 */
export function parseResume(body: unknown, rules: ResumeRules = DOCUMENT_RESUME): Resume {
  if (!isJsonObject(body)) {
    throw invalidArgument("body", "Cannot read the resume: expected the body to be a JSON object");
  }
  const { error, result } = body;
  if (error !== undefined && (rules.falsyErrorFails || Boolean(error))) {
    const text = typeof error === "string" ? error : JSON.stringify(error);
    return { kind: "error", error: text, result: result === undefined ? "" : result };
  }
  return { kind: "result", result: result === undefined ? rules.defaultResult : result };
}
