// Chooses the user for guests, from the setting guest_user. For a root agent the default is nobody,
// who owns no file and may signal no other user's process, unless the operator has made a dedicated
// user.

import { absent } from "../runtime/regular_file.ts";
import { dirname } from "@std/path";
import { AgentError } from "../domain/error.ts";
import type { SelfCommand } from "../runtime/executable.ts";
import type { Log } from "../metrics/log.ts";
import type { GuestUser, HostSystem } from "./guest_command.ts";

/** Unprivileged users and groups, where the list of users lacks one. */
const NOBODY_ON_LINUX: GuestUser = { uid: 65_534, gid: 65_534 };
const NOBODY_ON_ILLUMOS: GuestUser = { uid: 60_001, gid: 60_001 };
const NOBODY = "nobody";
const USERS_FILE = "/etc/passwd";

/** Mode bits for others; those for group and owner are three and six bits further left. */
const READ_AND_RUN = 0o5;
const READ = 0o4;
const ENTER = 0o1;

/** What the choice depends on. */
export interface GuestUserPlace {
  readonly self: SelfCommand;
  readonly os: HostSystem;
  readonly root: boolean;
  readonly log: Log;
  /** The list of users, in the form of passwd(5). */
  readonly usersFile?: string;
}

/**
 * The user for guests, or undefined for the agent's own. `setting` is `auto`, `none`, the name of a
 * user, or `uid:gid`. With `auto`, guests keep the agent's own user where another could not run the
 * program, and a log line says so; a named user must be able to.
 * @throws {AgentError} `invalid_argument` for a named user that guests cannot run as
 */
export async function findGuestUser(
  setting: string,
  place: GuestUserPlace,
): Promise<GuestUser | undefined> {
  if (setting === "none") return undefined;
  if (setting === "auto") return await automaticUser(place);
  const user = await namedUser(setting, place);
  const refuse = (why: string) =>
    new AgentError("invalid_argument", `Cannot run guests as user ${setting}: ${why}`);
  if (user === undefined) throw refuse(`${place.usersFile ?? USERS_FILE} does not name it`);
  if (user.uid === 0) throw refuse("it is root");
  if (!place.root) throw refuse("the agent is not root");
  const closed = place.self.compiled ? await closedPart(place.self, user) : undefined;
  if (closed !== undefined) throw refuse(`it cannot reach the program ${closed}`);
  return user;
}

async function automaticUser(place: GuestUserPlace): Promise<GuestUser | undefined> {
  const { self, os, root, log } = place;
  if (!root) return undefined;
  const onIllumos = os === "illumos" || os === "solaris";
  const user = await userOfName(NOBODY, place) ?? (onIllumos ? NOBODY_ON_ILLUMOS : NOBODY_ON_LINUX);
  const closed = self.compiled ? await closedPart(self, user) : self.program;
  if (closed === undefined) return user;
  log.warn("guests run as the agent's own user", {
    program: closed,
    reason: self.compiled ? "others cannot reach the program" : "the agent runs from source",
  });
  return undefined;
}

async function namedUser(setting: string, place: GuestUserPlace): Promise<GuestUser | undefined> {
  const [, uid, gid] = /^(\d+):(\d+)$/.exec(setting) ?? [];
  const user = uid === undefined
    ? await userOfName(setting, place)
    : { uid: Number(uid), gid: Number(gid) };
  const nobody = await userOfName(NOBODY, place);
  const shared = [nobody, NOBODY_ON_LINUX, NOBODY_ON_ILLUMOS].some((one) => one?.uid === user?.uid);
  return user === undefined ? undefined : { ...user, alone: !shared };
}

/** Finds a user by name in the file of users. @see passwd(5) */
async function userOfName(
  wanted: string,
  { usersFile = USERS_FILE }: GuestUserPlace,
): Promise<GuestUser | undefined> {
  const text = await Deno.readTextFile(usersFile).catch(absent);
  if (text === undefined) return undefined;
  for (const line of text.split("\n")) {
    const [name, , uid = "", gid = ""] = line.split(":");
    if (name !== wanted || !/^\d+$/.test(uid) || !/^\d+$/.test(gid)) continue;
    return { uid: Number(uid), gid: Number(gid) };
  }
  return undefined;
}

/** The part of the program that a user cannot reach: the runtime, or the file that it runs. */
async function closedPart(
  { program, file }: Pick<SelfCommand, "program" | "file">,
  user: GuestUser,
): Promise<string | undefined> {
  if (!await mayReach(program, user, READ_AND_RUN)) return program;
  return file === undefined || await mayReach(file, user, READ) ? undefined : file;
}

/** Whether a user has these rights to a file, and may enter every folder on its path. */
async function mayReach(path: string, user: GuestUser, bits: number): Promise<boolean> {
  if (!may(user, await Deno.stat(path), bits)) return false;
  for (let folder = dirname(path); folder !== "/"; folder = dirname(folder)) {
    if (!may(user, await Deno.stat(folder), ENTER)) return false;
  }
  return true;
}

function may(user: GuestUser, { mode, uid, gid }: Deno.FileInfo, bits: number): boolean {
  const shift = user.uid === uid ? 6 : user.gid === gid ? 3 : 0;
  return ((mode ?? 0) >> shift & bits) === bits;
}
