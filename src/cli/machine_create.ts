// `zonewright machine create`: from a description and a medium to a console, in one command.

import { isUuid } from "../domain/id.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import { readObject, textIn } from "./answer.ts";
import { usageError } from "./arguments.ts";
import type { Call, Command } from "./command.ts";
import { EXIT, type ExitCode } from "./exit_code.ts";
import { follow, FOLLOW_FLAGS, followedExit, stays, timeoutMsOf, viewFor } from "./follow.ts";
import { failedStep, type JobAnswer } from "./job_answer.ts";
import { readJsonFile } from "./json_text.ts";
import { MEDIA_FLAGS, MEDIA_NOTES, mediaOf } from "./machine_media.ts";
import { vncOf, vncText } from "./machine_vnc.ts";

/** `zonewright machine create`. */
export const CREATE: Command = {
  summary: "create a machine, boot it from a medium and tell its VNC address",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    [
      "machine create -f vm.json --iso debian-13.iso --follow",
      "an ISO of a media folder; watch it",
    ],
    ["machine create -f vm.json --iso https://host/a.iso --sha256 $HEX", "an ISO from elsewhere"],
    ["machine create -f - --artifact omnios/latest --wait --json", "an image of the index"],
  ],
  flags: [
    {
      name: "file",
      short: "f",
      placeholder: "FILE",
      help: "the machine's description as JSON, as vmadm takes it; - is standard input",
    },
    ...MEDIA_FLAGS,
    { name: "brand", placeholder: "BRAND", help: "kvm or bhyve, instead of the description's" },
    { name: "uuid", placeholder: "UUID", help: "the machine's uuid; makes the call repeatable" },
    ...FOLLOW_FLAGS,
  ],
  notes: MEDIA_NOTES,
  shared: "agent",
  async run(call) {
    timeoutMsOf(call);
    const body = await requestOf(call);
    const sent = await call.client.send({ method: "POST", path: "/agent/v1/machines", body });
    if (sent.kind === "printed") return EXIT.ok;
    const started = readObject(sent.body, "the machine");
    const uuid = textIn(started, "uuid") ?? "";
    const job_uuid = textIn(started, "job_uuid") ?? "";
    const { printer } = call;
    if (!stays(call)) {
      if (printer.json) printer.document(started);
      else printer.pairs([["machine", uuid], ["job", job_uuid]]);
      printer.next(`job tail ${job_uuid}`, "watch it");
      return EXIT.ok;
    }
    if (call.args.has("follow")) printer.note(`machine ${uuid}, job ${job_uuid}`);
    const followed = await follow(call, job_uuid, viewFor(call));
    const code = followedExit(call, job_uuid, followed);
    if (code === EXIT.ok) return await showMachine(call, uuid);
    if (followed.kind === "ended" && printer.json) {
      printer.document({ uuid, job_uuid, ...endOfJob(followed.job) });
    }
    return code;
  },
};

/** How a job ended that has not made its machine; `error` is null when no task of it failed. */
function endOfJob(job: JobAnswer): JsonObject {
  const step = failedStep(job);
  const error = step === undefined ? null : { task: step.name, message: step.error ?? "" };
  return { execution: job.execution, error };
}

/** The body of POST /agent/v1/machines. @throws {AgentError} `invalid_argument`, `not_found` */
async function requestOf({ args, terminal }: Call): Promise<JsonObject> {
  const file = args.text("file");
  if (file === undefined) throw usageError("-f FILE is missing: expected a machine as JSON");
  const { media, boot } = mediaOf(args, terminal.cwd);
  const uuid = args.text("uuid")?.toLowerCase();
  if (uuid !== undefined && !isUuid(uuid)) {
    throw usageError(`--uuid ${JSON.stringify(uuid)} is not a uuid`);
  }
  const machine = await readJsonFile(file, terminal);
  const brand = args.text("brand");
  return {
    machine: { ...machine, ...(brand === undefined ? {} : { brand }) },
    // Texts only: a media request is JSON as it stands.
    media: media as JsonValue,
    ...(boot === undefined ? {} : { boot }),
    ...(uuid === undefined ? {} : { uuid }),
  };
}

async function showMachine({ client, printer }: Call, uuid: string): Promise<ExitCode> {
  const machine = readObject(await client.get(`/agent/v1/machines/${uuid}`), "the machine");
  if (printer.json) {
    printer.document(machine);
    return EXIT.ok;
  }
  const vnc = vncOf(machine);
  printer.pairs([
    ["machine", uuid],
    ["vnc", vnc === undefined ? "not known" : vncText(vnc)],
  ]);
  if (vnc !== undefined) printer.next(`machine vnc ${uuid}`, "tells the address again");
  return EXIT.ok;
}
