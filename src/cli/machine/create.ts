// `zonewright machine create`: from a description and a medium to a console, in one command.

import type { JsonObject } from "../../domain/json.ts";
import { BRANDS } from "../../domain/policy.ts";
import { readObject, textIn } from "../kit/answer.ts";
import type { Call, Command } from "../kit/command.ts";
import { EXIT, type ExitCode } from "../kit/exit_code.ts";
import {
  follow,
  FOLLOW_FLAGS,
  followedExit,
  stays,
  timeoutMsOf,
  viewFor,
} from "../follow/follow.ts";
import { failedStep, type JobAnswer } from "../job/answer.ts";
import { MEDIA_FLAGS, MEDIA_NOTES } from "./machine_media.ts";
import { machineRequestOf } from "./machine_request.ts";
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
    ["machine create -f request.json --follow", "a whole request, as the HTTP interface takes it"],
  ],
  flags: [
    {
      name: "file",
      short: "f",
      placeholder: "FILE",
      help: "JSON: the description as vmadm takes it, or a whole request; - is standard input",
    },
    ...MEDIA_FLAGS,
    {
      name: "brand",
      placeholder: "BRAND",
      words: BRANDS,
      help: "kvm or bhyve, instead of the description's",
    },
    { name: "uuid", placeholder: "UUID", help: "the machine's uuid; makes the call repeatable" },
    ...FOLLOW_FLAGS,
  ],
  notes: [
    ...MEDIA_NOTES,
    'A whole request is {"machine": …, "media": …}, with "boot" and "uuid" where they are wanted.\n' +
    "What it says is not said again by a flag; without media in it, a flag names the medium.",
  ],
  shared: "agent",
  async run(call) {
    timeoutMsOf(call);
    const body = await machineRequestOf(call);
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
  if (vnc !== undefined) {
    printer.next(`machine vnc ${uuid} --password`, "what a VNC viewer will ask for");
  }
  return EXIT.ok;
}
