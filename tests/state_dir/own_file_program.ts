// Root at work in the state folder of another user, who has laid something under one of its names: every
// command, every name, every kind of thing. A process of its own, since root acts as that user meanwhile.
// Prints a JSON line for every case, which own_file_test.ts judges.

import { join } from "@std/path";
import { asOwnerOf } from "../../src/state_dir/own_file.ts";
import { openScreen } from "../cli/screen.ts";

/** The user of the folder, and somebody else. */
export const USER = 12_345;
const STRANGER = 4711;
const SECRET = "of root alone\n";
/** Restores against a user who lays links meanwhile. */
const RACES = 40;
/** Milliseconds for one command: far longer than any takes that waits for nothing. */
const COMMAND_MS = 90_000;

/** What may be laid under a name. */
export const KINDS = [
  "link",
  "dangling",
  "pipe",
  "folder",
  "hard link",
  "socket",
  "other",
] as const;
export type Kind = typeof KINDS[number];

/** The names that an agent, SQLite and the commands use. */
export const NAMES = [
  "agent.lock",
  "agent.lock-journal",
  "agent.pid",
  "agent.pid.new",
  "runner_id",
  "runner_id.new",
  "tokens.json",
  "tokens.json.new",
  "zonewright.db",
  "zonewright.db-wal",
  "zonewright.db-shm",
  "zonewright.db-journal",
  "zonewright.db.restoring",
  "zonewright.db.restoring.partial",
];

/** The commands, with what they are given. */
export const COMMANDS: Readonly<Record<string, (place: Place) => readonly string[]>> = {
  "db restore": ({ copy }) => ["db", "restore", copy, "--yes"],
  "db backup": ({ folder }) => ["db", "backup", join(folder, "backup.db")],
  "db check": () => ["db", "check"],
  "token create": () => ["token", "create", "--name", "new", "--scope", "admin"],
  "token revoke": () => ["token", "revoke", "old"],
  "token list": () => ["token", "list"],
  "doctor --fix": () => ["doctor", "--fix", ...CHECKS.flatMap((check) => ["--run", check])],
  "serve": () => ["serve", "--listen", "127.0.0.1:0", "--host", "simulated"],
};
const CHECKS = ["state", "store", "clock", "tokens"];

interface Place {
  readonly folder: string;
  readonly state: string;
  /** A backup that only root may read. */
  readonly copy: string;
}

/** What a command has done. */
export interface Outcome {
  readonly command: string;
  readonly name: string;
  readonly kind: Kind;
  /** Its exit code; null for one that was still waiting at the deadline. */
  readonly code: number | null;
  readonly said: string;
  /** What it has done to a file of root, and what it has made elsewhere; empty for nothing. */
  readonly harm: string;
}

async function lay(kind: Kind, path: string, { folder }: Place): Promise<void> {
  const victim = join(folder, "victim");
  await Deno.remove(path, { recursive: true }).catch(() => {});
  if (kind === "link") await Deno.symlink(victim, path);
  else if (kind === "dangling") await Deno.symlink(join(folder, "made"), path);
  else if (kind === "pipe") await Deno.link(join(folder, "pipe"), path);
  else if (kind === "folder") await Deno.mkdir(path);
  else if (kind === "hard link") await Deno.link(victim, path);
  else if (kind === "socket") await Deno.link(join(folder, "socket"), path);
  else {
    await Deno.writeTextFile(path, "");
    await Deno.chown(path, STRANGER, STRANGER);
  }
}

async function isThere(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

/** What has become of root's own things. */
async function harmIn({ folder }: Place): Promise<string> {
  const victim = join(folder, "victim");
  const { uid, mode } = await Deno.stat(victim);
  const text = await Deno.readTextFile(victim);
  const harm = [];
  if (text !== SECRET) harm.push(`written: ${text}`);
  if (uid !== 0 || ((mode ?? 0) & 0o777) !== 0o640) harm.push(`user ${uid}, mode ${mode}`);
  if (await isThere(join(folder, "made"))) harm.push("made");
  return harm.join(", ");
}

async function play(
  place: Place,
  fresh: string,
  { command, name, kind }: Pick<Outcome, "command" | "name" | "kind">,
): Promise<Outcome> {
  const { folder, state } = place;
  await Deno.remove(state, { recursive: true }).catch(() => {});
  await Deno.mkdir(state, { mode: 0o700 });
  for (const file of ["zonewright.db", "tokens.json"]) {
    await Deno.copyFile(join(fresh, file), join(state, file));
    await Deno.chmod(join(state, file), 0o600);
    await Deno.chown(join(state, file), USER, USER);
  }
  await lay(kind, join(state, name), place);
  await Deno.chown(state, USER, USER);
  const screen = openScreen();
  const late = Promise.withResolvers<null>();
  const timer = setTimeout(() => late.resolve(null), COMMAND_MS);
  const words = COMMANDS[command]?.(place) ?? [];
  const code = await Promise.race([
    screen.run(...words, "--state-dir", state),
    late.promise,
  ]);
  clearTimeout(timer);
  const harm = await harmIn(place);
  await Deno.remove(join(folder, "backup.db")).catch(() => {});
  return { command, name, kind, code, said: screen.out() + screen.err(), harm };
}

/** Makes what the cases need: a database, a token, and a backup. */
async function prepare(folder: string): Promise<{ place: Place; fresh: string }> {
  const fresh = join(folder, "fresh");
  const place = { folder, state: join(folder, "state"), copy: join(folder, "copy.db") };
  await Deno.mkdir(fresh, { mode: 0o700 });
  const { openSqliteStore } = await import("../../src/store/sqlite/sqlite_store.ts");
  await (await openSqliteStore(join(fresh, "zonewright.db"))).close();
  const run = async (...words: string[]) => {
    const screen = openScreen();
    const code = await screen.run(...words, "--state-dir", fresh);
    if (code !== 0) throw new Error(screen.err());
  };
  await run("token", "create", "--name", "old", "--scope", "read");
  await run("db", "backup", place.copy);
  await Deno.writeTextFile(join(folder, "victim"), SECRET);
  await Deno.chmod(join(folder, "victim"), 0o640);
  await new Deno.Command("mkfifo", { args: [join(folder, "pipe")] }).output();
  await Deno.chown(join(folder, "pipe"), USER, USER);
  return { place, fresh };
}

/** What root gets that acts as the owner, and opens what it should have looked at. */
async function actBlindly(place: Place): Promise<string[]> {
  const { state } = place;
  await Deno.mkdir(state, { mode: 0o700 });
  await lay("link", join(state, "agent.pid"), place);
  await lay("dangling", join(state, "agent.lock"), place);
  await Deno.chown(state, USER, USER);
  const { Database } = await import("@db/sqlite");
  const refusal = (run: () => unknown) =>
    asOwnerOf(state)(async () => void await run()).then(() => "nothing", (error) => String(error));
  return [
    await refusal(() => Deno.writeTextFile(join(state, "agent.pid"), "1")),
    await refusal(() => Deno.chmod(join(state, "agent.pid"), 0o666)),
    await refusal(() => new Database(join(state, "agent.lock")).exec("CREATE TABLE t (a)")),
    await harmIn(place),
    String(await refusal(() => Deno.readTextFile(join(state, "..", "copy.db")))),
  ].concat(await Deno.readTextFile(place.copy).then(() => "root again"));
}

/** Runs restores while the user of the folder lays links and takes them away, as fast as it can. */
async function race(place: Place): Promise<string[]> {
  const { folder, state, copy } = place;
  await Deno.mkdir(state, { mode: 0o700 });
  await Deno.chown(state, USER, USER);
  const names = ["agent.pid.new", "agent.lock", "runner_id.new", "zonewright.db.restoring.partial"];
  const laid = names.flatMap((name) => ["made", "victim"].map((to) => [name, to]));
  const steps = laid.map(([name, to]) => `ln -s ${folder}/${to} ${name}; rm -f ${name}`).join("; ");
  const user = new Deno.Command("/bin/sh", {
    args: ["-c", `while :; do ${steps}; done`],
    cwd: state,
    uid: USER,
    gid: USER,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const codes: number[] = [];
  try {
    for (let turn = 0; turn < RACES; turn++) {
      codes.push(await openScreen().run("db", "restore", copy, "--yes", "--state-dir", state));
    }
  } finally {
    user.kill("SIGKILL");
    await user.status;
  }
  return [await harmIn(place), codes.join()];
}

const PARTS: Readonly<Record<string, (place: Place, fresh: string) => Promise<void>>> = {
  async laid(place, fresh) {
    // The name of a listener that is closed is gone, but for one that has another.
    using _listener = Deno.listen({ transport: "unix", path: join(place.folder, "listening") });
    await Deno.link(join(place.folder, "listening"), join(place.folder, "socket"));
    await Deno.chown(join(place.folder, "socket"), USER, USER);
    for (const command of Object.keys(COMMANDS)) {
      for (const name of NAMES) {
        for (const kind of KINDS) {
          console.log(JSON.stringify(await play(place, fresh, { command, name, kind })));
        }
      }
    }
  },
  blindly: async (place) => console.log(JSON.stringify(await actBlindly(place))),
  race: async (place) => console.log(JSON.stringify(await race(place))),
};

if (import.meta.main) {
  const [folder = "", part = ""] = Deno.args;
  const { place, fresh } = await prepare(folder);
  await PARTS[part]?.(place, fresh);
  // Commands that were refused may have left a listener for signals.
  Deno.exit(0);
}
