// Moves a host's jobs from its own database into a shared one, or back, while its agent is stopped.

import { join } from "@std/path";
import type { Config } from "../config/settings.ts";
import { AgentError } from "../domain/error.ts";
import { randomUuid } from "../domain/id.ts";
import { fileInfo } from "../runtime/regular_file.ts";
import { DATABASE_NAME, takeStateDir } from "../state_dir/state_dir.ts";
import {
  readTransferMark,
  removeTransferMark,
  requireMoved,
  type TransferMark,
  writeTransferMark,
} from "../state_dir/transfer_mark.ts";
import type { TransferReport } from "../store/transfer_row.ts";
import { openTransferRows } from "../store/sqlite/transfer_rows.ts";
import { sharedServer } from "./store.ts";

/** Refuses a mistyped path, which would otherwise become a new folder. @throws {AgentError} `not_found` */
async function requireDatabase(stateDir: string): Promise<void> {
  if (await fileInfo(join(stateDir, DATABASE_NAME)) !== undefined) return;
  const message =
    `Cannot use ${stateDir} as the state folder: it holds no database, expected the ` +
    "folder of an agent";
  throw new AgentError("not_found", message, { about: { kind: "state_dir" } });
}

/**
 * Moves the jobs of a state folder into the configured database, or back.
 * @throws {AgentError} `conflict` while an agent runs, when the jobs are somewhere else, or as transferToShared() and
 *   transferBack(); `invalid_argument` when the configured store is not shared
 */
export async function transferStore(
  config: Config,
  way: "there" | "back",
): Promise<TransferReport> {
  const server = await sharedServer(config);
  const { knowsHost, transferBack, transferToShared } = await import(
    "../store/postgres/transfer.ts"
  );
  await requireDatabase(config.state_dir.value);
  const state = await takeStateDir(config.state_dir.value, randomUuid);
  try {
    const found = await readTransferMark(state.path);
    const host = state.runner.life.runner_id;
    if (found !== undefined) requireMoved(found, host);
    const isElsewhere = found !== undefined && found.url !== server.url;
    if (isElsewhere && !(await knowsHost(server, host))) {
      const words =
        `the jobs went to ${found.url}, and the database at ${server.url} has no host ${host}`;
      throw new AgentError("conflict", `Cannot move: ${words}`);
    }
    const from = openTransferRows(join(state.path, DATABASE_NAME));
    const mark = (word: TransferMark["word"]) =>
      writeTransferMark(state.path, { word, url: server.url, host });
    try {
      if (way === "back") {
        if (found === undefined) {
          throw new AgentError("conflict", "Cannot move back: the jobs are in the state folder");
        }
        const report = await transferBack(server, host, from, () => mark("returning"));
        await removeTransferMark(state.path);
        return report;
      }
      if (found?.word === "moved") {
        if (!isElsewhere) {
          throw new AgentError("conflict", `Cannot move: the jobs are in ${found.url} already`);
        }
        // Only the address has changed. Moving the jobs again would restore jobs that were removed there since.
        await mark("moved");
        return { workflows: 0, jobs: 0, claims: 0, passed: 0 };
      }
      const report = await transferToShared(server, host, from, () => mark("moving"));
      await mark("moved");
      return report;
    } finally {
      from.close();
    }
  } finally {
    state.release();
  }
}
