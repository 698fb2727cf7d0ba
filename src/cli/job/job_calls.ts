// What the agent tells of the capability calls of a task, as lines for people.

import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { numberIn, textIn } from "../kit/answer.ts";
import { durationText } from "../kit/table.ts";

/** Characters of one line about a call. */
const LINE_CHARS_MAX = 400;

/** The line of an entry about calls; undefined when the entry is about something else. */
export function callsText(entry: JsonObject): string | undefined {
  const { zonewright_call: call, zonewright_calls: calls } = entry;
  if (isJsonObject(call)) return oneCall(call).slice(0, LINE_CHARS_MAX);
  if (isJsonObject(calls)) return allCalls(calls).slice(0, LINE_CHARS_MAX);
  return undefined;
}

/** `vmadm.boot uuid=… order=cd ok 1.2 s`. */
function oneCall(call: JsonObject): string {
  const args = isJsonObject(call.args) ? Object.entries(call.args) : [];
  return [
    textIn(call, "name") ?? "call",
    ...args.map(([name, value]) => `${name}=${word(value)}`),
    textIn(call, "ended") ?? "",
    took(call),
  ].join(" ");
}

/** `calls: vmadm.get 12 (1 failed) 2.1 s, vnc.wait 1 9.8 s`. */
function allCalls(calls: JsonObject): string {
  const each = Object.entries(calls).map(([name, told]) => {
    const count = isJsonObject(told) ? told : {};
    const failed = numberIn(count, "failed");
    const part = failed === undefined ? "" : ` (${failed} failed)`;
    return `${name} ${numberIn(count, "count") ?? 0}${part} ${took(count)}`;
  });
  return `calls: ${each.join(", ")}`;
}

function took(of: JsonObject): string {
  return durationText((numberIn(of, "ms") ?? 0) / 1000);
}

function word(value: JsonValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
