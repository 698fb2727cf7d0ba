// `zonewright token`: manages the tokens of an agent. The commands work on the state folder of this machine,
// whether or not the agent runs; a running agent picks up changes within a second.

import { sha256Hex } from "../domain/digest.ts";
import { AgentError } from "../domain/error.ts";
import { systemNow } from "../domain/instant.ts";
import { isTokenName, type Token, TOKEN_BYTES, tokenScopeOf, tokenText } from "../domain/token.ts";
import { type ActAs, asOwnerOf, examineOwnFolder } from "../state_dir/own_file.ts";
import { changeTokenFile, readTokenFile, tokenFilePath } from "../state_dir/token_file.ts";
import { cannot, usageError } from "./command/arguments.ts";
import type { Command, Invocation, Noun } from "./command/command.ts";
import { PLACE_FLAGS, stateDirOf } from "./config/settings.ts";

/** The token file, and the user that reads and changes it. */
async function tokenFileOf(
  call: Invocation,
): Promise<{ stateDir: string; path: string; asOwner: ActAs }> {
  const stateDir = await stateDirOf(call);
  return { stateDir, path: tokenFilePath(stateDir), asOwner: asOwnerOf(stateDir) };
}

async function changeTokens(
  call: Invocation,
  change: (tokens: readonly Token[]) => readonly Token[],
): Promise<void> {
  const { path, asOwner } = await tokenFileOf(call);
  await asOwner(() => changeTokenFile(path, change, call.printer.note));
}

const NAME_FORM = "expected letters, digits, dots, dashes or underscores, at most 64";
const SCOPE_FORM = "expected read or admin";

/** @throws {AgentError} `invalid_argument` without the flag */
function required({ args }: Invocation, flag: string, expected: string): string {
  const text = args.text(flag);
  if (text === undefined) throw usageError(`--${flag} is missing, ${expected}`);
  return text;
}

const CREATE: Command = {
  summary: "create a token and print it once",
  examples: [
    ["token create --name backup --scope read > token", "GET only, and no secrets"],
    ["token create --name deploy --scope admin > token", "everything: equivalent to root"],
  ],
  flags: [
    { name: "name", placeholder: "NAME", help: "its name in the audit log" },
    { name: "scope", placeholder: "read|admin", help: "what it may do" },
    ...PLACE_FLAGS,
  ],
  notes: [
    "Keep the output in a file of mode 0600 and name it with --token-file or ZONEWRIGHT_TOKEN_FILE.\n" +
    "Only its digest is kept here: revoke a lost token and create a new one.",
  ],
  shared: "output",
  async run(call) {
    const name = required(call, "name", NAME_FORM);
    if (!isTokenName(name)) throw cannot(`use --name ${JSON.stringify(name)}, ${NAME_FORM}`);
    const typed = required(call, "scope", SCOPE_FORM);
    const scope = tokenScopeOf(typed);
    if (scope === undefined) throw cannot(`use --scope ${JSON.stringify(typed)}, ${SCOPE_FORM}`);
    const token = tokenText(crypto.getRandomValues(new Uint8Array(TOKEN_BYTES)));
    const sha256 = await sha256Hex(new TextEncoder().encode(token));
    const created_at = systemNow();
    await changeTokens(call, (tokens) => {
      if (tokens.some((one) => one.name === name)) {
        throw new AgentError(
          "already_exists",
          `Cannot create token ${name}: it already exists, expected a new name`,
        );
      }
      return [...tokens, { name, scope, sha256, created_at }];
    });
    call.printer.result({ name, scope, created_at, token }, token);
  },
};

const LIST: Command = {
  summary: "list the tokens by name and scope",
  examples: [["token list", "every known token"]],
  flags: PLACE_FLAGS,
  shared: "output",
  async run(call) {
    const { stateDir, path, asOwner } = await tokenFileOf(call);
    const tokens = await asOwner(() => {
      // No agent has tokens in a folder that is not there.
      examineOwnFolder(stateDir);
      return readTokenFile(path);
    });
    const shown = tokens.map(({ name, scope, created_at }) => ({ name, scope, created_at }));
    if (call.printer.json) return call.printer.document(shown);
    call.printer.table([
      { head: "NAME", cell: ({ name }) => name },
      { head: "SCOPE", cell: ({ scope }) => scope },
      { head: "CREATED", cell: ({ created_at }) => created_at },
    ], shown);
  },
};

const REVOKE: Command = {
  summary: "revoke a token",
  operands: "NAME",
  examples: [["token revoke deploy", "a running agent refuses it within a second"]],
  flags: PLACE_FLAGS,
  shared: "output",
  async run(call) {
    const [name = ""] = call.args.operands;
    await changeTokens(call, (tokens) => {
      const left = tokens.filter((one) => one.name !== name);
      if (left.length < tokens.length) return left;
      throw new AgentError("not_found", `Cannot revoke token ${name}: it does not exist`);
    });
    call.printer.result({ revoked: name }, `revoked ${name}`);
  },
};

/** `zonewright token`: changes the token file directly; a running agent reads it again. @see docs/access.md */
export const TOKEN: Noun = {
  kind: "verbs",
  summary: "create, list and revoke the tokens of callers",
  verbs: { create: CREATE, list: LIST, revoke: REVOKE },
};
