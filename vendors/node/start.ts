// All of the file for Node that Node itself reads as code: it refuses a Node that lacks what the program needs, then
// unpacks and runs the modules of the program, each when it is first asked for. Under any name it is good for any
// Node, as a script or as a module, since it imports nothing and is built for one that is older than all in use.

import { NO_INSPECTOR, NO_SQLITE, WALL } from "./options.ts";

/** What guests and decoders are started with; without them, nothing would shut them in. */
const OPTIONS = [WALL, NO_INSPECTOR] as const;
/** Where SmartOS has a Node that will do. */
const ADVICE = "install nodejs22 of pkgsrc (pkgin install nodejs22), and run this file with it";

const { process } = globalThis as unknown as { readonly process: typeof import("node:process") };
const older: Partial<Pick<typeof process, "getBuiltinModule">> = process;

/** What SQLite in this Node lacks of what the program asks of it. */
function lackOfSqlite(): readonly string[] {
  const sqlite = older.getBuiltinModule?.("node:sqlite");
  if (sqlite === undefined) return ["node:sqlite"];
  const database = new sqlite.DatabaseSync(":memory:");
  try {
    database.prepare("SELECT ?1").get(1);
    return [];
  } catch {
    // Until 22.20 a number was taken for the name of a parameter.
    return ["numbered parameters of node:sqlite"];
  } finally {
    database.close();
  }
}

function refuseOldNode(): void {
  // A guest or a decoder, from which SQLite is taken.
  const walled = process.execArgv.includes(NO_SQLITE) && process.execArgv.includes(WALL);
  const missing: readonly string[] = [
    ...(walled ? [] : lackOfSqlite()),
    ...OPTIONS.filter((option) => !process.allowedNodeEnvironmentFlags.has(option)),
  ];
  if (missing.length === 0) return;
  const lacks = missing.join(", ");
  console.error(
    `zonewright: Cannot run on Node ${process.versions.node} (${process.execPath}): ` +
      `it lacks ${lacks}, expected Node 22.20 or 24.8, or later: ${ADVICE}`,
  );
  process.exit(1);
}

type Exports = Record<string, unknown>;
type Require = (name: string) => unknown;
type Body = (require: Require, module: { exports: unknown }, exports: Exports) => void;

/**
 * Runs the program.
 * @param packed its modules, and the files that the build puts beside it, by name: the text, compressed by Brotli,
 *   as base64. Modules are CommonJS in ASCII, and `./install.js` and `./main.js` begin
 */
export function start(packed: Readonly<Record<string, string>>): void {
  refuseOldNode();
  const { Buffer } = process.getBuiltinModule("node:buffer");
  const { brotliDecompressSync } = process.getBuiltinModule("node:zlib");
  const { constants, Script } = process.getBuiltinModule("node:vm");
  const loaded = new Map<string, { exports: unknown }>();
  const unpack = (text: string) => brotliDecompressSync(Buffer.from(text, "base64"));
  const require: Require = (name) => {
    const text = packed[name];
    // SQLite is not there in guests and decoders.
    if (text === undefined) return process.getBuiltinModule(name) ?? {};
    if (name.endsWith(".json")) return unpack(text).toString();
    const known = loaded.get(name);
    if (known !== undefined) return known.exports;
    const exports: Exports = {};
    const module = { exports };
    loaded.set(name, module);
    const script = new Script(
      `(function(require,module,exports){${unpack(text).toString("latin1")}\n})`,
      {
        filename: name,
        importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
      },
    );
    const body: Body = script.runInThisContext();
    body(require, module, exports);
    return module.exports;
  };
  require("./install.js");
  require("./main.js");
}
