// Parses what callers send about jobs: POST /jobs and resume.

import type { RE2JS } from "re2js";
import { instant, uuidOf, webAddress } from "../description/formats.ts";
import { object } from "../description/object.ts";
import { type Described, parse } from "../description/description.ts";
import { about, anything, wholeText } from "../description/value.ts";
import { AgentError, invalidArgument, messageOf } from "../error.ts";
import type { WorkflowUuid } from "../id.ts";
import type { Instant } from "../instant.ts";
import { leadsToNamed } from "../ip_address.ts";
import type { JsonObject, JsonValue } from "../json.ts";

/** Characters of `locks`; each later target is matched against it. */
const LOCKS_CHARS_MAX = 256;
const CALLBACK_CHARS_MAX = 2048;

/** What POST /jobs asks for. */
interface JobRequest {
  readonly workflow_uuid: WorkflowUuid;
  readonly exec_after: Instant | null;
  readonly target: string | null;
  readonly locks: string | null;
  readonly callback_url: string | null;
  readonly params: JsonObject;
}

/** Limits of a request for a job, and the hosts that it may call back. */
export interface JobLimits {
  /** Longest `target`, characters. */
  readonly targetCharsMax: number;
  /** Characters of `params` as JSON text. */
  readonly paramsCharsMax: number;
  /** Hosts that a callback may go to, with the port unless it is the scheme's default. */
  readonly callbackHosts: readonly string[];
}

/** The fields of the body that no limit changes: made once, since to make them costs more than to read a body. */
const WORKFLOW = about("The workflow's uuid.", uuidOf<WorkflowUuid>());
const EXEC_AFTER = about(
  "ISO 8601: a date (midnight UTC), or a date and time with its offset.",
  instant,
);
const LOCKS = about(
  "A regular expression (RE2). While the job is unfinished, no job is accepted whose " +
    "target matches.",
  wholeText(LOCKS_CHARS_MAX),
);
const CALLBACK_URL = about(
  "Called when the job is finished. Its host must be listed in the setting " +
    "`callback_host`.",
  webAddress(
    wholeText(CALLBACK_CHARS_MAX),
    ({ hash }) => hash === "" ? undefined : "must not have a fragment",
  ),
);

/** The body of POST /jobs: every key besides its own fields becomes a parameter. */
export function jobRequest({ targetCharsMax }: Pick<JobLimits, "targetCharsMax">) {
  return object({
    workflow: WORKFLOW,
    exec_after: EXEC_AFTER,
    target: about(
      "What the job acts on. A second unfinished job with the same target and equal params " +
        "is refused.",
      wholeText(targetCharsMax),
    ),
    locks: LOCKS,
    callback_url: CALLBACK_URL,
  }, { required: ["workflow"], others: "kept" });
}

/**
 * Reads the body of POST /jobs.
 * @throws {AgentError} `invalid_argument` naming every incorrect field; `too_large`; `forbidden`
 * @see document 2, Endpoints
 */
export function parseJobRequest(body: unknown, limits: JobLimits): JobRequest {
  const { workflow, exec_after, target, locks, callback_url, ...params } = parse(
    jobRequest(limits),
    body,
    "",
    "job",
  );
  const paramsChars = JSON.stringify(params).length;
  if (paramsChars > limits.paramsCharsMax) {
    const message = `Cannot accept the parameters: they have ${paramsChars} characters of JSON, ` +
      `expected at most ${limits.paramsCharsMax}`;
    throw new AgentError("too_large", message);
  }
  if (callback_url !== undefined) requireAllowed(new URL(callback_url), limits.callbackHosts);
  return {
    workflow_uuid: workflow,
    exec_after: exec_after ?? null,
    target: target ?? null,
    locks: locks ?? null,
    callback_url: callback_url ?? null,
    params,
  };
}

/** @throws {AgentError} `forbidden` for a host that the operator has not allowed */
function requireAllowed(url: URL, hosts: readonly string[]): void {
  if (leadsToNamed(url, hosts)) return;
  const shown = hosts.length === 0 ? "none is" : `only ${hosts.join(", ")}`;
  const message = `Cannot call back to ${JSON.stringify(url.host)}: ${shown} allowed, see ` +
    "the setting callback_host";
  throw new AgentError("forbidden", message, {
    about: { kind: "setting", name: "callback_host" },
    errors: [{ field: "callback_url", code: "Invalid", message }],
  });
}

/** The outcome of a waiting task as POST /jobs/:job_uuid/resume reports it. */
export type Resume =
  | { readonly kind: "result"; readonly result: JsonValue }
  | { readonly kind: "error"; readonly error: string; readonly result: JsonValue };

/** The body of a resume. */
export const resumeRequest = object({
  result: about("Any JSON value; `OK` by default.", anything),
  error: about(
    'Any value, even null, makes the job fail. With `compat = "node-workflow"`, null, false, 0 and the ' +
      "empty string do not.",
    anything,
  ),
});

/** The body of a cancel, which has no fields. */
export const cancelRequest = object({});

/** The differences between document 2 and node-workflow in a resume. */
export interface ResumeRules {
  /** The result that is recorded when the caller sends none. */
  readonly defaultResult: string;
  /** Whether an `error` of null, false, 0 or "" also fails the job. */
  readonly falsyErrorFails: boolean;
}

/** The rules of document 2: the mere presence of `error` counts. */
export const DOCUMENT_RESUME: ResumeRules = { defaultResult: "OK", falsyErrorFails: true };

type ResumeRequest = Described<typeof resumeRequest>;

/**
 * Reads the body of a resume.
 * @throws {AgentError} `invalid_argument`
 * @see document 2, States and transitions
 */
export function parseResume(body: unknown, rules: ResumeRules = DOCUMENT_RESUME): Resume {
  return resumeOf(parse(resumeRequest, body, "", "resume"), rules);
}

/** The effect of a resume on the waiting task: a result or an error. */
export function resumeOf({ error, result }: ResumeRequest, rules: ResumeRules): Resume {
  if (error !== undefined && (rules.falsyErrorFails || Boolean(error))) {
    const text = typeof error === "string" ? error : JSON.stringify(error);
    return { kind: "error", error: text, result: result === undefined ? "" : result };
  }
  return { kind: "result", result: result === undefined ? rules.defaultResult : result };
}

/**
 * Instructions of a compiled pattern: a match takes at most this number times the characters of the target. Patterns
 * that people write have about ten to a hundred; a plain text of the maximum length has as many as characters.
 */
const PROGRAM_MAX = 512;

/** A pattern that targets are tried on. */
export interface LockPattern {
  /** Whether the pattern matches anywhere in the target. */
  matches(target: string): boolean;
}

/**
 * Parses `locks` of a job: a regular expression for targets that no other job may have in the
 * meantime. It comes from a caller and is matched against every later target, so its time must be
 * bounded: RE2 takes linear time, and refuses what it cannot match that way (look-around, back
 * references). The engine is loaded with the first pattern, since most agents never see any.
 * @throws {AgentError} `invalid_argument` naming `locks`
 * @see the wiki of the RE2 project, Syntax
 */
export async function parseLockPattern(text: string): Promise<LockPattern> {
  const { RE2JS: engine } = await import("re2js");
  const pattern = compile(engine, text);
  const size = pattern.programSize();
  if (size > PROGRAM_MAX) {
    const message = `Cannot accept locks: the pattern takes ${size} steps, at most ${PROGRAM_MAX}`;
    throw invalidArgument("locks", message, "TooLarge");
  }
  return { matches: (target) => pattern.matcher(target).find() };
}

function compile(engine: typeof RE2JS, text: string): RE2JS {
  try {
    return engine.compile(text);
  } catch (error) {
    const why = messageOf(error).replace(/^error parsing regexp: /, "");
    throw invalidArgument(
      "locks",
      `Cannot use locks ${JSON.stringify(text)}, expected a pattern of RE2: ${why}`,
    );
  }
}
