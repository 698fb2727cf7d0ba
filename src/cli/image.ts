// `zonewright image`: the mirror of the image index, and its sync.

import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { readObject, textIn } from "./answer.ts";
import type { Call, Command, Noun } from "./command.ts";
import { EXIT, type ExitCode } from "./exit_code.ts";
import { LIST, SHOW } from "./image_list.ts";
import { indexPairs, problemLines, syncText } from "./image_status.ts";
import { timeoutMsOf } from "./follow.ts";

const SYNC_DEADLINE_MS = 3_600_000;

const SYNC: Command = {
  summary: "compare the mirror with its upstream now",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [["image sync --wait", "and tell what has changed"]],
  flags: [
    { name: "wait", help: "until it is done" },
    { name: "timeout", placeholder: "TIME", help: "give up waiting after 90s, 10m, 2h" },
  ],
  shared: "agent",
  async run(call) {
    const { args, client, printer } = call;
    const wait = args.has("wait");
    const deadlineMs = timeoutMsOf(call) ?? SYNC_DEADLINE_MS;
    const sent = await client.send({
      method: "POST",
      path: `/agent/v1/index/sync${wait ? "?wait=true" : ""}`,
      ...(wait ? { deadlineMs } : {}),
    });
    if (sent.kind === "printed") return EXIT.ok;
    const answer = readObject(sent.body, "the sync");
    if (!wait) {
      if (printer.json) printer.document(answer);
      else printer.note("syncing");
      printer.next("image status", "see how it went");
      return EXIT.ok;
    }
    return synced(call, answer);
  },
};

/** A sync that reached nothing is a failure; one that refused some documents is told. */
function synced({ printer, terminal }: Call, sync: JsonObject): ExitCode {
  if (printer.json) printer.document(sync);
  else printer.data(syncText(sync, terminal.nowMs()));
  for (const line of problemLines(sync)) printer.note(`zonewright: ${line}`);
  return textIn(sync, "outcome") === "failed" ? EXIT.failure : EXIT.ok;
}

const STATUS: Command = {
  summary: "tell how old the mirror is and what was wrong with the last sync",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [["image status", "upstream, documents, last sync"]],
  flags: [],
  shared: "agent",
  async run({ client, printer, terminal }) {
    const sent = await client.send({ method: "GET", path: "/agent/v1/index" });
    if (sent.kind === "printed") return EXIT.ok;
    const index = readObject(sent.body, "the index");
    if (printer.json) printer.document(index);
    else printer.pairs(indexPairs(index, terminal.nowMs()));
    if (isJsonObject(index.last_sync)) {
      for (const line of problemLines(index.last_sync)) printer.note(`zonewright: ${line}`);
    }
    return EXIT.ok;
  },
};

/** @see document 1 */
export const IMAGE: Noun = {
  kind: "verbs",
  summary: "look into the mirror of the image index",
  verbs: { list: LIST, show: SHOW, status: STATUS, sync: SYNC },
};
