import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { AuditEntry } from "../../src/http/caller.ts";
import { openAuditFile } from "../../src/http/request/audit.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { withFolder } from "../support/until.ts";

function entry(request_id: string): AuditEntry {
  const ts = "2026-01-01T00:00:00.000Z";
  const call = { method: "POST", path: "/jobs", status: 201 };
  return { ts, request_id, who: "socket", peer: "socket", ...call };
}

const QUIET = { log: silentLog, lost: () => {} };

async function idsIn(path: string): Promise<string[]> {
  const lines = (await Deno.readTextFile(path)).trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line).request_id);
}

Deno.test("entries are in the file in order when append() resolves, across reopening", () =>
  withFolder(async (folder) => {
    const path = `${folder}/audit`;
    await Deno.writeTextFile(path, "", { mode: 0o644 });
    const audit = openAuditFile(QUIET);
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

Deno.test("an audit file that is a link, a folder or in a missing folder is refused", () =>
  withFolder(async (folder) => {
    const audit = openAuditFile(QUIET);
    await Deno.symlink(`${folder}/target`, `${folder}/link`);
    for (const path of [`${folder}/none/audit`, folder, `${folder}/link`]) {
      const error = await assertRejects(() => audit.reopen(path), AgentError);
      assertEquals(error.code, "invalid_argument");
    }
  }));

Deno.test("a line cut off by a crash stays alone: the next entry starts a new line", () =>
  withFolder(async (folder) => {
    const path = `${folder}/audit`;
    await Deno.writeTextFile(path, `${JSON.stringify(entry("1"))}\n{"ts":"2026-01-0`);
    const audit = openAuditFile(QUIET);
    await audit.reopen(path);
    await audit.append(entry("2"));
    await audit.reopen(path);
    await audit.append(entry("3"));
    await audit.close();
    const lines = (await Deno.readTextFile(path)).split("\n");
    assertEquals(lines[1], '{"ts":"2026-01-0');
    assertEquals([lines[0], lines[2], lines[3]].map((line) => JSON.parse(line ?? "").request_id), [
      "1",
      "2",
      "3",
    ]);
    assertEquals(lines.slice(4), [""]);
  }));

smallDiskTest(
  "on a full disk entries are complete lines, or lost and counted; later they are complete",
  () =>
    withFolder((folder) =>
      withSmallDisk(folder, 1, async () => {
        let lost = 0;
        const reported: unknown[] = [];
        const log = {
          ...silentLog,
          error: (_: string, fields: unknown) => void reported.push(fields),
        };
        const audit = openAuditFile({ log, lost: (entries) => void (lost += entries) });
        const path = `${folder}/audit`;
        await audit.reopen(path);
        const filler = `${folder}/filler`;
        await Deno.writeFile(filler, new Uint8Array(900 * 1024));
        const tried = 3_000;
        // Some wait for one another and share a write, of which the disk takes a part.
        for (let n = 0; n < tried; n += 100) {
          const some = Array.from({ length: 100 }, (_, i) => audit.append(entry(`${n + i}`)));
          await Promise.all(some);
        }
        assert(lost > 0 && lost < tried && reported.length > 0, `${lost} lost`);
        await Deno.remove(filler);
        await audit.append(entry("after"));
        await audit.close();
        const lines = (await Deno.readTextFile(path)).trimEnd().split("\n");
        const whole = lines.filter((line) => line.endsWith("}")).map((line) => JSON.parse(line));
        assertEquals(whole.length, tried - lost + 1);
        assertEquals(whole.at(-1).request_id, "after");
        assert(lines.length - whole.length <= reported.length, "more was cut off than failed");
      })
    ),
);
