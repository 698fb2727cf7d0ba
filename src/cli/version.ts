// `zonewright version`: the versions of this program and its parts.

import { SCHEMA_VERSION } from "../state_dir/state_dir.ts";
import { readBuildInfo, runtimeLabel, selfCommand, VERSION } from "../runtime/executable.ts";
import { runtimeVersion } from "../runtime/node.ts";
import type { Noun } from "./command/command.ts";

async function sqliteVersion(): Promise<string> {
  const { Database } = await import("@db/sqlite");
  const database = new Database(":memory:");
  try {
    const row = database.prepare("SELECT sqlite_version() AS version").get();
    return String(row?.version ?? "unknown");
  } finally {
    database.close();
  }
}

/** The version of this program, not of the agent it talks to. */
export const VERSION_NOUN: Noun = {
  kind: "command",
  command: {
    summary: "print the versions of this program and its parts",
    examples: [["version --json", "for bug reports"]],
    flags: [],
    shared: "output",
    async run({ printer }) {
      const { compiled } = selfCommand();
      const { name, version } = runtimeVersion();
      const { commit, changed, runtime } = await readBuildInfo();
      const parts = {
        version: VERSION,
        commit: commit === null ? "unknown" : changed ? `${commit} (changed)` : commit,
        [name]: version,
        v8: Deno.version.v8,
        ...(name === "deno" ? { typescript: Deno.version.typescript } : {}),
        sqlite: await sqliteVersion(),
        schema: SCHEMA_VERSION,
        runtime: runtimeLabel(version, runtime),
        ...(runtime === undefined
          ? {}
          : { runtime_sha256: runtime.sha256 ?? "unknown", runtime_compared: runtime.compared }),
        form: compiled ? "compiled" : "source",
        target: Deno.build.target,
      };
      if (printer.json) printer.document(parts);
      else {
        printer.data(`zonewright ${VERSION}`);
        const rest = Object.entries(parts).filter(([name]) => name !== "version");
        printer.pairs(rest.map(([name, value]) => [name, String(value)]));
      }
    },
  },
};
