import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { openAuditFile } from "../../src/http/audit_file.ts";
import type { AuditEntry } from "../../src/http/audit_trail.ts";
import { silentLog } from "../../src/log.ts";
import { withFolder } from "../support/until.ts";

function entry(request_id: string): AuditEntry {
  const ts = "2026-01-01T00:00:00.000Z";
  const call = { method: "POST", path: "/jobs", status: 201 };
  return { ts, request_id, who: "socket", peer: "socket", ...call };
}

async function idsIn(path: string): Promise<string[]> {
  const lines = (await Deno.readTextFile(path)).trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line).request_id);
}

Deno.test("entries are in the file when append() resolves, in their order, across reopening", () =>
  withFolder(async (folder) => {
    const path = `${folder}/audit`;
    await Deno.writeTextFile(path, "", { mode: 0o644 });
    const audit = openAuditFile(silentLog);
    await audit.append(entry("lost")); // No file is open yet.
    await audit.reopen(path);
    assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o600);
    await Promise.all(["1", "2", "3"].map((id) => audit.append(entry(id))));
    assertEquals(await idsIn(path), ["1", "2", "3"]);
    await Deno.rename(path, `${path}.0`);
    const late = audit.append(entry("4"));
    await audit.reopen(path);
    await audit.append(entry("5"));
    await late;
    assertEquals([await idsIn(`${path}.0`), await idsIn(path)], [["1", "2", "3", "4"], ["5"]]);
    await audit.close();
  }));

Deno.test("an audit file that is a link, a folder or nowhere is refused", () =>
  withFolder(async (folder) => {
    const audit = openAuditFile(silentLog);
    await Deno.symlink(`${folder}/target`, `${folder}/link`);
    for (const path of [`${folder}/none/audit`, folder, `${folder}/link`]) {
      const error = await assertRejects(() => audit.reopen(path), AgentError);
      assertEquals(error.code, "invalid_argument");
    }
  }));
