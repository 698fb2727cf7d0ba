// `zonewright workflow types`: what an editor needs to complete and check task bodies.

import type { Command } from "../kit/command.ts";
import { EXIT } from "../kit/exit_code.ts";

/** Under which the types are kept beside the workflows. */
const FILE_NAME = "zonewright.d.ts";

/** `zonewright workflow types`. */
export const TYPES: Command = {
  summary: "print the types of task bodies, for an editor",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [[
    `workflow types > ${FILE_NAME}`,
    "beside the sources of your workflows, see docs/tasks.md",
  ]],
  flags: [],
  shared: "output",
  async run({ printer, terminal }) {
    const { WORKFLOW_TYPES } = await import("./type_text.ts");
    if (printer.json) printer.document({ file: FILE_NAME, text: WORKFLOW_TYPES });
    // As it is: every line of it is ours.
    else terminal.out(WORKFLOW_TYPES);
    return EXIT.ok;
  },
};
