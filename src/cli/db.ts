// `zonewright db`: the database file of an agent. Backup, restore and check work on the state folder of this
// machine, whether or not the agent runs (stop it for a restore); prune asks the agent.

import { dirname, resolve } from "@std/path";
import { loadConfig } from "../config/sources.ts";
import { aloneIn } from "../runtime/folder_lock.ts";
import { backupState, inspectFile, inspectState } from "../state_dir/state_dir.ts";
import { asOwnerOf } from "../state_dir/own_file.ts";
import { restoreState } from "../state_dir/database_restore.ts";
import { durationSeconds, systemNow } from "../domain/instant.ts";
import { watchForDeath } from "../runtime/failpoint.ts";
import { readTransferMark } from "../state_dir/transfer_mark.ts";
import { numberIn, readObject } from "./client/answer.ts";
import { cannot, usageError } from "./command/arguments.ts";
import {
  type Command,
  type CommandEnd,
  confirmed,
  EXIT,
  type Invocation,
  type Noun,
  YES_FLAG,
} from "./command/command.ts";
import { configFlags, configSources, PLACE_FLAGS, stateDirOf } from "./config/settings.ts";

const BACKUP: Command = {
  summary: "copy the database to a file, while the agent runs",
  operands: "FILE",
  examples: [[
    "db backup /zones/backup/zonewright-monday.db",
    "checked and synced before it gets its name",
  ]],
  flags: PLACE_FLAGS,
  notes: [
    "The copy is the database at one moment, without downloaded media. An existing file is never\n" +
    "replaced.",
  ],
  shared: "output",
  async run(call) {
    const [file = ""] = call.args.operands;
    // It is synced before it gets its name, and has none on standard output.
    if (file === "-") {
      throw usageError("a backup is not written to standard output, expected a file");
    }
    const to = resolve(call.terminal.cwd, file);
    const stateDir = await stateDirOf(call);
    const report = await aloneIn(dirname(to), () => backupState(stateDir, to), call.printer);
    const { schema, jobs, bytes } = report;
    call.printer.result(report, `wrote ${to}: schema ${schema}, ${jobs} jobs, ${bytes} bytes`);
    await noteMoved(call);
  },
};

/** Where jobs were moved, the file has them as they were then. */
async function noteMoved(call: Invocation): Promise<void> {
  const stateDir = await stateDirOf(call);
  const mark = await asOwnerOf(stateDir)(() => readTransferMark(stateDir));
  if (mark === undefined) return;
  call.printer.note(
    `The jobs were moved to ${mark.url}: this file has them as they were before; pg_dump copies them now`,
  );
}

const RESTORE: Command = {
  summary: "replace the database by a backup; the agent must be stopped",
  operands: "FILE",
  examples: [[
    "db restore /zones/backup/zonewright-monday.db",
    "keeps the current one beside it",
  ]],
  flags: [...PLACE_FLAGS, YES_FLAG],
  notes: [
    "A damaged file, or one from a newer program, is refused. Jobs that were running in the backup\n" +
    "continue from their first task without a result.",
  ],
  shared: "output",
  async run(call): Promise<CommandEnd> {
    const from = resolve(call.terminal.cwd, call.args.operand);
    const { state_dir: { value: stateDir }, dev, failpoint } = await loadConfig(
      configSources(call),
    );
    const watch = watchForDeath(failpoint.value, { dev: dev.value });
    if (!await confirmed(call, `replace the database in ${stateDir}`)) return EXIT.failure;
    const report = await restoreState(from, stateDir, {
      now: systemNow,
      ...(watch === undefined ? {} : { watch }),
    });
    if (call.printer.json) return call.printer.document(report);
    const { restored, replaced } = report;
    call.printer.data(`restored ${restored.path}: ${restored.jobs} jobs`);
    if (replaced !== null) call.printer.data(`kept     ${replaced}`);
  },
};

const CHECK: Command = {
  summary: "examine every page, index and reference of the database",
  operands: "[FILE]",
  examples: [
    ["db check", "this host's database, even while the agent runs"],
    ["db check /zones/backup/zonewright-monday.db", "a backup"],
  ],
  flags: PLACE_FLAGS,
  shared: "output",
  async run(call) {
    const [file] = call.args.operands;
    const report = file === undefined
      ? await inspectState(await stateDirOf(call))
      : await inspectFile(resolve(call.terminal.cwd, file));
    if (call.printer.json) call.printer.document(report);
    else {
      const { path, schema, jobs, workflows, bytes, problems } = report;
      call.printer.data(
        `${path}: schema ${schema}, ${workflows} workflows, ${jobs} jobs, ${bytes} bytes`,
      );
      for (const problem of problems) call.printer.data(`damaged: ${problem}`);
      if (problems.length === 0) call.printer.data("ok");
    }
    return report.problems.length === 0 ? EXIT.ok : EXIT.failure;
  },
};

const MIGRATE: Command = {
  summary: "create or update the tables of a database that agents share",
  operands: "",
  examples: [
    [
      "db migrate --store postgres://owner@db.example.org/fleet --agent-role agent",
      "before the first agent starts",
    ],
    [
      "db migrate --store postgres://owner@db.example.org/fleet",
      "before agents of a new version start",
    ],
  ],
  flags: [
    { name: "agent-role", placeholder: "NAME", help: "grant the role of the agents: rows only" },
    { name: "reader-role", placeholder: "NAME", help: "grant a role that may read only" },
    ...configFlags().filter(({ name }) => name === "config" || name.startsWith("store")),
  ],
  notes: [
    "Agents never migrate a database: one that cannot use its tables exits with code 8. Migrations take\n" +
    "turns. The user in the address owns the tables. The roles must exist; they may use the tables of later\n" +
    "migrations as well.",
  ],
  shared: "output",
  async run(call) {
    const config = await loadConfig(configSources(call));
    const { migrateSharedStore } = await import("../agent/store.ts");
    const { args } = call;
    const [agent, reader] = [args.text("agent-role"), args.text("reader-role")];
    const report = await migrateSharedStore(config, {
      ...(agent === undefined ? {} : { agent }),
      ...(reader === undefined ? {} : { reader }),
    });
    const { from, to } = report;
    call.printer.result(
      report,
      from === to ? `schema ${to}: up to date` : `schema ${from} to ${to}`,
    );
  },
};

const MOVE: Command = {
  summary: "move this host's jobs into the database that agents share, or back",
  operands: "",
  examples: [
    ["db move --store postgres://agent@db.example.org/fleet", "with the agent stopped"],
    ["db move --store postgres://agent@db.example.org/fleet --back", "until the first new job"],
  ],
  flags: [
    {
      name: "back",
      help: "remove the moved jobs from the database; the state folder still has them",
    },
    ...configFlags().filter(({ name }) =>
      PLACE_FLAGS.some((flag) => flag.name === name) || name.startsWith("store")
    ),
  ],
  notes: [
    "It copies workflows, jobs with results, log and keys, and machine claims. The state folder keeps the old\n" +
    "ones, but no agent starts on them. To continue an interrupted move, run it again. --back works until this\n" +
    "host has a new job or a moved one has continued. If the database gets another address, run `db move` with\n" +
    "it: nothing is moved, and the agent can start.",
  ],
  shared: "output",
  async run(call) {
    const config = await loadConfig(configSources(call));
    const { transferStore } = await import("../agent/transfer.ts");
    const back = call.args.has("back");
    const report = await transferStore(config, back ? "back" : "there");
    if (call.printer.json) return call.printer.document(report);
    const { workflows, jobs, claims, passed } = report;
    const action = back ? "moved back" : "moved";
    call.printer.data(`${action} ${workflows} workflows, ${jobs} jobs, ${claims} claims`);
    if (passed > 0) call.printer.note(`${passed} were there already`);
    if (back) {
      call.printer.note(
        "The host is still registered there: `zonewright host forget` at another agent ends that",
      );
    }
  },
};

const PRUNE: Command = {
  summary: "remove old finished jobs now",
  examples: [["db prune --older-than 30d --yes", "what keep_finished does automatically, sooner"]],
  flags: [
    { name: "older-than", placeholder: "TIME", help: "a time such as 30d or 12h" },
    YES_FLAG,
  ],
  shared: "agent",
  async run(call): Promise<CommandEnd> {
    const text = call.args.text("older-than");
    if (text === undefined) {
      throw usageError("--older-than is missing, expected a time such as 30d");
    }
    const seconds = durationSeconds(text);
    if (seconds === undefined) {
      throw cannot(`use --older-than ${JSON.stringify(text)}, expected a time such as 30d or 12h`);
    }
    if (!await confirmed(call, `remove jobs that ended over ${text} ago`)) return EXIT.failure;
    const path = "/agent/v1/jobs/prune";
    const body = { older_than_seconds: seconds };
    let removed = 0;
    for (let more = true; more;) {
      const sent = await call.client.send({ method: "POST", path, body });
      const answer = readObject(sent.body, path);
      removed += numberIn(answer, "removed") ?? 0;
      more = answer.more === true;
    }
    call.printer.result({ removed }, `removed ${removed} jobs`);
  },
};

/**
 * `zonewright db`: works on the state folder or a PostgreSQL database directly.
 * @see docs/operations.md, docs/scale.md
 */
export const DB: Noun = {
  kind: "verbs",
  summary: "back up, restore, check and prune the database; share it between hosts",
  verbs: {
    backup: BACKUP,
    restore: RESTORE,
    check: CHECK,
    migrate: MIGRATE,
    move: MOVE,
    prune: PRUNE,
  },
};
