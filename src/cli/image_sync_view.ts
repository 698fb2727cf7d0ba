// How far a sync is: on a terminal one line that moves, elsewhere a line for each phase and for each
// quarter of the documents.

import type { JsonObject } from "../domain/json.ts";
import { numberIn, textIn } from "./kit/answer.ts";
import { cut, sizeText } from "./kit/table.ts";
import { canMove, printable, type Terminal } from "./kit/terminal.ts";

const BAR_CHARS = 16;
const COLUMNS_DEFAULT = 80;
/** To the start of the line, and clear it. */
const CLEAR_LINE = "\r\x1b[2K";
const QUARTERS = 4;

/** What the phases are called. */
const PHASES: Readonly<Record<string, string>> = {
  list: "reading the list",
  documents: "reading documents",
  store: "storing",
};

/** Shows a sync while it runs. */
export interface SyncView {
  /** `phase`, `documents`, `total` and `bytes`, as the agent answers them. */
  update(progress: JsonObject): void;
  /** Leaves the terminal as it was found. */
  close(): void;
}

/** Opens the view that the terminal can show. */
export function openSyncView(terminal: Terminal): SyncView {
  return canMove(terminal) ? movingView(terminal) : plainView(terminal);
}

function movingView(terminal: Terminal): SyncView {
  return {
    update(progress) {
      const { done, total } = countsOf(progress);
      const width = (terminal.columns() ?? COLUMNS_DEFAULT) - 1;
      const line = `${bar(total === 0 ? 0 : done / total)}  ${textOf(progress)}`;
      terminal.err(CLEAR_LINE + cut(printable(line), width));
    },
    close: () => terminal.err(CLEAR_LINE),
  };
}

function plainView(terminal: Terminal): SyncView {
  let told = "";
  return {
    update(progress) {
      const { done, total } = countsOf(progress);
      const quarter = total === 0 ? 0 : Math.floor((QUARTERS * done) / total);
      const key = `${textIn(progress, "phase")} ${quarter}`;
      if (key === told) return;
      told = key;
      terminal.err(`${printable(textOf(progress))}\n`);
    },
    close: () => {},
  };
}

function countsOf(progress: JsonObject): { done: number; total: number } {
  return { done: numberIn(progress, "documents") ?? 0, total: numberIn(progress, "total") ?? 0 };
}

/** `reading documents  412 of 1034  12 MiB`. */
function textOf(progress: JsonObject): string {
  const { done, total } = countsOf(progress);
  const phase = textIn(progress, "phase") ?? "syncing";
  return [PHASES[phase] ?? phase, `${done} of ${total}`, sizeText(numberIn(progress, "bytes"))]
    .join("  ");
}

function bar(share: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * BAR_CHARS);
  return "█".repeat(full) + "░".repeat(BAR_CHARS - full);
}
