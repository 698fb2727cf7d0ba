// Headers that are secrets, and what is told of a file that is no good.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { secretCheck } from "../src/service/doctor/access.ts";
import { AgentError } from "../src/domain/error.ts";
import { readSecretHeaders } from "../src/state/secret_file.ts";
import { withFolder } from "./support/until.ts";

Deno.test("headers are read by lines, and a line that is none is told by its number alone", () =>
  withFolder(async (folder) => {
    const path = join(folder, "headers");
    const write = (text: string) => Deno.writeTextFile(path, text, { mode: 0o600 });
    await write("# of the collector\r\nAuthorization: Bearer a b\r\n\nx_api.key:k \n");
    assertEquals(await readSecretHeaders(path), {
      authorization: "Bearer a b",
      "x_api.key": "k",
    });
    for (const line of ["s3cret", "s3cret: ", ": s3cret", "s3 cret: 1", "s3cret: \x01"]) {
      await write(`a: b\n${line}\n`);
      const error = await assertRejects(() => readSecretHeaders(path), AgentError, "line 2");
      assert(!error.message.includes("s3"), error.message);
    }
    const check = secretCheck("otlp-headers", { path, read: readSecretHeaders });
    assertEquals((await check.examine()).outcome, "fail");
    await write("a: b\n");
    assertEquals((await check.examine()).outcome, "ok");
    await Deno.chmod(path, 0o644);
    const error = await assertRejects(() => readSecretHeaders(path), AgentError, "mode is 0644");
    assertEquals(error.code, "forbidden");
    await (await check.examine()).repair?.();
    assertEquals((await check.examine()).outcome, "ok");
  }));
