// The body of POST /agent/v1/machines, from a file and from flags. A file may hold a description as
// vmadm takes it, or a whole request around one, as README.md and the HTTP interface have it. What
// the file says may not be said again by a flag: which of the two counts would be a guess.

import { isUuid } from "../../domain/id.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { nearest } from "../../domain/near_word.ts";
import { type Arguments, usageError } from "../kit/arguments.ts";
import type { Call } from "../kit/command.ts";
import { readJsonFile } from "../kit/json_text.ts";
import { bootOf, MEDIA_FLAGS, mediaOf } from "./machine_media.ts";

const REQUEST_KEYS = ["machine", "media", "boot", "uuid"] as const;
/** Keys that no description has: they tell a request. */
const TELLING_KEYS = ["machine", "media"] as const;

/** Reads file and flags. @throws {AgentError} `invalid_argument`, `not_found` */
export async function machineRequestOf({ args, terminal }: Call): Promise<JsonObject> {
  const file = args.text("file");
  if (file === undefined) {
    throw usageError("-f FILE is missing: expected a machine, or a request for one, as JSON");
  }
  const uuid = args.text("uuid")?.toLowerCase();
  if (uuid !== undefined && !isUuid(uuid)) {
    throw usageError(`--uuid ${JSON.stringify(uuid)} is not a uuid`);
  }
  const content = await readJsonFile(file, terminal);
  const where = file === "-" ? "standard input" : file;
  const request = TELLING_KEYS.some((key) => Object.hasOwn(content, key))
    ? wholeRequest(content, where)
    : { machine: content };
  refuseTwice(request, args, where);
  const brand = args.text("brand");
  const { machine } = request;
  return {
    ...request,
    // What is no object is for the agent to refuse.
    ...(brand === undefined || !isJsonObject(machine) ? {} : { machine: { ...machine, brand } }),
    ...(request.media === undefined ? mediaFields(args, terminal.cwd) : bootOf(args, undefined)),
    ...(uuid === undefined ? {} : { uuid }),
  };
}

/** @throws {AgentError} `invalid_argument` for a request with other keys, or without a machine */
function wholeRequest(content: JsonObject, where: string): JsonObject & { machine: JsonValue } {
  const other = Object.keys(content).find((key) => !REQUEST_KEYS.some((known) => known === key));
  const told = TELLING_KEYS.filter((key) => Object.hasOwn(content, key))[0];
  if (other !== undefined) {
    throw usageError(
      `${where} mixes a request and a description: it has ${JSON.stringify(told)} and ` +
        `${JSON.stringify(other)}${nearest(other, REQUEST_KEYS)}; expected a description alone, ` +
        `or ${REQUEST_KEYS.join(", ")} with the description in "machine"`,
    );
  }
  const { machine, media, boot } = content;
  if (machine === undefined) {
    throw usageError(`${where} has "media" and no "machine": expected the description in there`);
  }
  // Each of the flags that name a medium says what it is, too.
  if (media === undefined && boot !== undefined) {
    throw usageError(`${where} has "boot" and no "media": expected both or neither`);
  }
  return { ...content, machine };
}

/** @throws {AgentError} `invalid_argument` when a flag says again what the file says */
function refuseTwice(request: JsonObject, args: Arguments, where: string): void {
  const said: readonly (readonly [key: string, flags: readonly string[]])[] = [
    ["media", MEDIA_FLAGS.map(({ name }) => name).filter((name) => name !== "boot")],
    ["boot", ["boot"]],
    ["uuid", ["uuid"]],
  ];
  for (const [key, flags] of said) {
    const flag = flags.find((name) => args.has(name));
    if (flag !== undefined && Object.hasOwn(request, key)) {
      throw usageError(`--${flag} and ${JSON.stringify(key)} in ${where} are both given`);
    }
  }
}

function mediaFields(args: Arguments, cwd: string): JsonObject {
  const { media, boot } = mediaOf(args, cwd);
  // Texts only: a media request is JSON as it stands.
  return { media: media as JsonValue, ...(boot === undefined ? {} : { boot }) };
}
