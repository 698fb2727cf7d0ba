// The log of a machine's hypervisor, the only place that says why it ended. For kvm it is in the zone, where
// the hypervisor may replace it by a link to a file of the host; HostFiles.tailWithin() follows no link.

import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import type { Transport } from "../transport.ts";
import { masked, secretsOf } from "../program_output.ts";
import { findZoneFolder, temporaryPath } from "./copy.ts";

/** Where a hypervisor writes, below the zonepath; the first file with text counts. */
const LOGS: Readonly<Record<string, readonly { folder: string; name: string }[]>> = {
  kvm: [
    { folder: "root/tmp", name: "vm.log" },
    // The script that starts qemu, in case it failed before qemu ran.
    { folder: "root/tmp", name: "vm.startvm.log" },
  ],
  bhyve: [{ folder: "logs", name: "platform.log" }],
};

/** Bytes read from the end of a log. */
const TAIL_BYTES = 16 * 1024;
const SHOWN_LINES_MAX = 8;
/** Characters of a log in an error, taken from its end. */
const SHOWN_CHARS_MAX = 1500;

/**
 * The end of a machine's log, as a clause of an error message; if it cannot be read, the reason.
 * @param machine as vmadm describes it
 */
export async function endOfLog(transport: Transport, machine: JsonObject): Promise<string> {
  const { brand, zonepath } = machine;
  const logs = LOGS[String(brand)] ?? [];
  if (typeof zonepath !== "string" || logs.length === 0) return "where its log is, is not known";
  try {
    const zone = await findZoneFolder(transport, zonepath);
    for (const { folder, name } of logs) {
      const text = await transport.files.tailWithin({
        folder: `${zonepath}/${folder}`,
        name,
        bytes: TAIL_BYTES,
        temporary: temporaryPath(zone, name),
      });
      const end = endOf(text ?? "", secretsOf(machine));
      if (end !== "") return `its log ${zonepath}/${folder}/${name} ends with: ${end}`;
    }
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return `its log cannot be read: ${error.message}`;
  }
  const paths = logs.map(({ folder, name }) => `${zonepath}/${folder}/${name}`);
  return `there is nothing in its log ${paths.join(" or ")}`;
}

/** The last lines, without secrets and control characters. */
function endOf(text: string, secrets: readonly string[]): string {
  const lines = text.split("\n").map(sentenceOf).filter((line) => line !== "");
  const end = masked(lines.slice(-SHOWN_LINES_MAX).join(" | "), secrets);
  return end.length <= SHOWN_CHARS_MAX ? end : `...${end.slice(-SHOWN_CHARS_MAX)}`;
}

/** bhyve's log has one JSON object per line: `{"log": "...", "stream": "stderr", "time": "..."}`. */
function sentenceOf(line: string): string {
  let record: unknown;
  try {
    record = JSON.parse(line);
  } catch {
    // Plain text, or the rest of a line whose beginning was not read.
  }
  const text = isJsonObject(record) && typeof record.log === "string"
    ? [record.time, record.log].filter((part) => typeof part === "string").join(" ")
    : line;
  // deno-lint-ignore no-control-regex -- removes control characters.
  return text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
}
