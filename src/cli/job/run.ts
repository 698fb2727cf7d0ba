// `zonewright job run`: starts a job of a workflow, given by name or uuid.

import {
  cannot,
  IDEMPOTENCY_FLAG,
  idempotencyHeaders,
  isReplayed,
  ON_FLAG,
  usageError,
} from "../command/arguments.ts";
import { PARAM_FLAG, readParams, typedFuture } from "../command/typed_value.ts";
import { SERVER_PARAM } from "../../domain/job/job.ts";
import type { JsonObject } from "../../domain/json.ts";
import { type Command, EXIT, type ExitCode, type Invocation } from "../command/command.ts";
import { checkTimeout, follow, FOLLOW_FLAGS, stays } from "../follow/follow.ts";
import {
  changedDocument,
  elapsedSeconds,
  failedStep,
  type JobAnswer,
  noteAbsent,
  readJob,
} from "../client/job.ts";
import { workflowToRun } from "../workflow/file.ts";
import { durationText } from "../output/table.ts";

/** `zonewright job run WORKFLOW`: prints the uuid of the new job; `--wait` and `--follow` exit with its outcome. */
export const RUN: Command = {
  summary: "create a job of a workflow",
  operands: "WORKFLOW",
  examples: [
    ["job run hello -p name=world --follow", "by name, with a parameter; watch it"],
    ["job run resize -p disks:='[{\"size\":10240}]' --wait --timeout 10m", "a JSON parameter"],
    ["job run backup --at 2026-12-01T03:00:00Z --target /host", "later, one at a time"],
    ["job run hello --idempotency-key $ORDER", "safe to repeat: the second call finds the job"],
  ],
  flags: [
    PARAM_FLAG,
    {
      name: "target",
      placeholder: "TEXT",
      help: "refuse a second unfinished job with equal params",
    },
    { name: "at", placeholder: "TIME", help: "not before +10m, 2026-12-01 or 2026-12-01T03:00Z" },
    {
      name: "locks",
      placeholder: "PATTERN",
      help: "until this job ends, refuse jobs whose target matches this RE2 pattern",
    },
    {
      name: "callback-url",
      placeholder: "URL",
      help: "gets the job when it has ended; the agent's callback_host must allow its host",
    },
    ON_FLAG,
    IDEMPOTENCY_FLAG,
    ...FOLLOW_FLAGS,
  ],
  notes: [
    "A job runs once: there is no cron. For a job that repeats, let cron or a systemd timer call\n" +
    "zonewright job run. A date without a time in --at is midnight in your time zone.",
    "With --idempotency-key, give --at an absolute time: a repeated call finds its job only if the\n" +
    "request is the same, and +10m is a different time at each call.",
  ],
  shared: "agent",
  async run(call) {
    const { args, client, printer } = call;
    checkTimeout(call);
    const fields = requestFields(call);
    const headers = idempotencyHeaders(args);
    const workflow = await workflowToRun(call, args.operand);
    const body = { ...fields, workflow };
    const sent = await client.send({ method: "POST", path: "/jobs", body, headers });
    const job = readJob(sent.body);
    if (isReplayed(sent.headers)) {
      printer.note(`job ${job.uuid} was created by the same request before`);
    }
    return await showNewJob(call, job);
  },
};

/** Everything that POST /jobs takes besides the workflow. @throws {AgentError} `invalid_argument` */
function requestFields({ args, terminal, printer }: Invocation): JsonObject {
  const params = readParams(args.texts("param"));
  for (const [name, instead] of Object.entries(RESERVED)) {
    if (Object.hasOwn(params, name)) {
      throw cannot(`set --param ${name}: it is not a parameter of a job: ${instead}`);
    }
  }
  const on = args.text("on");
  if (on !== undefined && Object.hasOwn(params, SERVER_PARAM)) {
    throw usageError(`--on and --param ${SERVER_PARAM} are both given, expected one of them`);
  }
  const target = args.text("target");
  const at = args.text("at");
  const nowMs = terminal.nowMs();
  const exec_after = at === undefined ? undefined : typedFuture(at, "--at", nowMs);
  if (exec_after !== undefined && Date.parse(exec_after) < nowMs) {
    printer.note(`--at ${at} has passed: the job is due now`);
  }
  const locks = args.text("locks");
  const callback_url = args.text("callback-url");
  return {
    ...params,
    ...(on === undefined ? {} : { [SERVER_PARAM]: on }),
    ...(target === undefined ? {} : { target }),
    ...(exec_after === undefined ? {} : { exec_after }),
    ...(locks === undefined ? {} : { locks }),
    ...(callback_url === undefined ? {} : { callback_url }),
  };
}

/** Keys of POST /jobs that are no params, and the flags for them. */
const RESERVED = {
  workflow: "it is the operand",
  target: "use --target",
  exec_after: "use --at",
  locks: "use --locks",
  callback_url: "use --callback-url",
} as const;

/**
 * Shows a job that a command has just created: its uuid, or its end if the flags say to wait or
 * follow.
 * @returns the exit code of the command
 * @throws {AgentError} when the agent does not show the job
 */
export async function showNewJob(call: Invocation, job: JobAnswer): Promise<ExitCode> {
  const { printer } = call;
  noteAbsent(printer, job.raw);
  if (!stays(call)) {
    if (printer.json) printer.document(await changedDocument(call.client, job));
    else printer.data(job.uuid);
    printer.next(`job tail ${job.uuid}`, "watch it");
    return EXIT.ok;
  }
  const followed = await follow(call, job.uuid);
  if (followed.job !== undefined) showEnd(call, followed.job);
  else if (!printer.json) printer.data(job.uuid);
  return followed.code;
}

function showEnd({ printer }: Invocation, job: JobAnswer): void {
  if (printer.json) return printer.document(job.raw);
  const step = failedStep(job);
  const seconds = elapsedSeconds(job);
  printer.pairs([
    ["job", job.uuid],
    ["state", job.execution],
    ...(step === undefined
      ? []
      : [["task", step.name] as const, ["error", step.error ?? ""] as const]),
    ["elapsed", seconds === undefined ? "-" : durationText(seconds)],
    ...job.steps.flatMap(({ name, result }) =>
      result === undefined ? [] : [[`result of ${name}`, result] as const]
    ),
  ]);
}
