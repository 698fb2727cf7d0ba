// `zonewright image`: the mirror of the image index, and its sync.

import { isJsonObject } from "../domain/json.ts";
import { readObject } from "./kit/answer.ts";
import type { Command, Noun } from "./kit/command.ts";
import { EXIT } from "./kit/exit_code.ts";
import { FIND } from "./image_find.ts";
import { LIST, SHOW } from "./image_list.ts";
import { indexPairs, problemLines } from "./image_status.ts";
import { SYNC } from "./image_sync.ts";

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
  verbs: { find: FIND, list: LIST, show: SHOW, status: STATUS, sync: SYNC },
};
