// Running host programs: what comes back, and that nothing is left when it ends early.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { runCommand } from "../../src/host/program.ts";
import { until, withFolder } from "../support/until.ts";

const SHELL = "/bin/sh";
const DEADLINE_MS = 60_000;

function shell(script: string, options: Partial<Parameters<typeof runCommand>[2]> = {}) {
  return runCommand(SHELL, ["-c", script], { deadlineMs: DEADLINE_MS, ...options });
}

/** Whether a process is there and is not a zombie that only waits to be reaped. */
async function isAlive(pid: number): Promise<boolean> {
  try {
    const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
  } catch {
    return false;
  }
}

async function pidsIn(file: string, count: number): Promise<number[]> {
  return await until(`${count} pids in ${file}`, async () => {
    const text = await Deno.readTextFile(file).catch(() => "");
    const pids = text.split("\n").filter((line) => line !== "").map(Number);
    return pids.length === count && pids;
  });
}

Deno.test("runCommand() returns both streams, the exit code and the duration", async () => {
  const result = await shell("echo data; echo sentence >&2; exit 3");
  assertEquals(result.code, 3);
  assertEquals(result.signal, null);
  assertEquals(result.stdout, "data\n");
  assertEquals(result.stderr, "sentence\n");
  assert(result.durationMs > 0);
});

Deno.test("runCommand() names the signal that ended the program", async () => {
  const result = await shell("kill -ABRT $$");
  assertEquals(result.signal, "SIGABRT");
  assertEquals(result.code, 134);
});

Deno.test("runCommand() gives the program no environment but locale and path", async () => {
  const own = Object.keys(Deno.env.toObject());
  assert(own.some((name) => !["LC_ALL", "PATH"].includes(name)), "there is nothing to hide");
  const { stdout } = await runCommand("/usr/bin/env", [], { deadlineMs: DEADLINE_MS });
  const names = stdout.trim().split("\n").map((line) => line.split("=")[0]).sort();
  assertEquals(names, ["LC_ALL", "PATH"]);
});

Deno.test("runCommand() adds the given variables", async () => {
  const { stdout } = await shell('echo "$LC_ALL $NAME"', { env: { NAME: "value" } });
  assertEquals(stdout, "C value\n");
});

Deno.test("runCommand() runs in / by default", async () => {
  assertEquals((await shell("pwd")).stdout, "/\n");
  assertEquals((await shell("pwd", { cwd: "/usr" })).stdout, "/usr\n");
});

Deno.test("runCommand() passes arguments unchanged", async () => {
  const args = ["-c", 'printf "%s\\n" "$@"', "name", "$HOME; `id`", "a b", "", "*"];
  const { stdout } = await runCommand(SHELL, args, { deadlineMs: DEADLINE_MS });
  assertEquals(stdout, "$HOME; `id`\na b\n\n*\n");
});

Deno.test("runCommand() gives the program an empty standard input by default", async () => {
  assertEquals((await shell("wc -c")).stdout.trim(), "0");
});

Deno.test("runCommand() writes a large input while it reads the output", async () => {
  const input = "zonewright ".repeat(100_000);
  const { stdout } = await shell("cat", { stdin: input });
  assertEquals(stdout, input);
});

Deno.test("runCommand() writes bytes unchanged", async () => {
  const { stdout } = await shell("od -An -tx1", { stdin: new Uint8Array([0, 255, 10]) });
  assertEquals(stdout.trim(), "00 ff 0a");
});

Deno.test("runCommand() accepts a program that ends without reading its input", async () => {
  const result = await shell("exit 0", { stdin: "x".repeat(4_000_000) });
  assertEquals(result.code, 0);
});

Deno.test("runCommand() keeps a character that arrives in two parts", async () => {
  const { stdout } = await shell("printf '\\303'; printf '\\251'");
  assertEquals(stdout, "é");
});

Deno.test("runCommand() refuses a program without an absolute path", async () => {
  for (const program of ["sh", "./sh", "", "bin/sh"]) {
    const error = await assertRejects(
      () => runCommand(program, [], { deadlineMs: DEADLINE_MS }),
      AgentError,
      "expected an absolute path",
    );
    assertEquals(error.code, "host");
  }
});

Deno.test("runCommand() reports a missing program", async () => {
  const error = await assertRejects(
    () => runCommand("/nowhere/vmadm", [], { deadlineMs: DEADLINE_MS }),
    AgentError,
    'Cannot run "/nowhere/vmadm": there is no such program',
  );
  assertEquals(error.code, "host");
});

Deno.test("runCommand() reports a program that may not be executed", async () => {
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/vmadm`, "#!/bin/sh\n", { mode: 0o644 });
    const error = await assertRejects(
      () => runCommand(`${folder}/vmadm`, [], { deadlineMs: DEADLINE_MS }),
      AgentError,
      "it is not executable",
    );
    assertEquals(error.code, "host");
  });
});

Deno.test("runCommand() kills the program and its children at the deadline", async () => {
  await withFolder(async (folder) => {
    const script = `echo $$ > ${folder}/pids; sleep 600 & echo $! >> ${folder}/pids; ` +
      `(sleep 600 & echo $! >> ${folder}/pids; wait) & wait`;
    const running = shell(script, { deadlineMs: 8_000 });
    const failing = assertRejects(() => running, AgentError, "it was not done after 8 s");
    const pids = await pidsIn(`${folder}/pids`, 3);
    assertEquals((await failing).code, "timeout");
    for (const pid of pids) {
      await until(`process ${pid} to be gone`, async () => !(await isAlive(pid)));
    }
  });
});

Deno.test("runCommand() kills the program and its children when the caller aborts", async () => {
  await withFolder(async (folder) => {
    const giveUp = new AbortController();
    const script = `echo $$ > ${folder}/pids; sleep 600 & echo $! >> ${folder}/pids; wait`;
    const running = shell(script, { signal: giveUp.signal });
    const failing = assertRejects(() => running, AgentError, "it was canceled");
    const pids = await pidsIn(`${folder}/pids`, 2);
    giveUp.abort(new Error("job was canceled"));
    const error = await failing;
    assertEquals(error.code, "aborted");
    assertStringIncludes(String(error.cause), "job was canceled");
    for (const pid of pids) {
      await until(`process ${pid} to be gone`, async () => !(await isAlive(pid)));
    }
  });
});

Deno.test("runCommand() starts nothing for a caller that has aborted", async () => {
  await withFolder(async (folder) => {
    const error = await assertRejects(
      () => shell(`touch ${folder}/started`, { signal: AbortSignal.abort() }),
      AgentError,
    );
    assertEquals(error.code, "aborted");
    await assertRejects(() => Deno.lstat(`${folder}/started`), Deno.errors.NotFound);
  });
});

Deno.test("runCommand() kills a program that writes too much on either stream", async () => {
  for (const script of ["yes", "yes >&2", "yes & yes >&2"]) {
    const error = await assertRejects(
      () => shell(script),
      AgentError,
      "it wrote more than 4194304 bytes",
    );
    assertEquals(error.code, "host");
  }
});

Deno.test("runCommand() accepts exactly as much output as is allowed", async () => {
  const { stdout } = await shell("head -c 4194304 /dev/zero");
  assertEquals(stdout.length, 4_194_304);
  await assertRejects(() => shell("head -c 4194305 /dev/zero"), AgentError);
});

Deno.test("runCommand() does not wait long for a child that keeps the streams open", async () => {
  await withFolder(async (folder) => {
    const result = await shell(`sleep 600 & echo $! > ${folder}/pids; echo done`);
    assertEquals(result.code, 0);
    assertEquals(result.stdout, "done\n");
    const [pid = 0] = await pidsIn(`${folder}/pids`, 1);
    await until(`process ${pid} to be gone`, async () => !(await isAlive(pid)));
  });
});

Deno.test("runCommand() leaves a child alone that has closed the streams", async () => {
  await withFolder(async (folder) => {
    const result = await shell(
      `sleep 600 </dev/null >/dev/null 2>&1 & echo $! > ${folder}/pids; echo done`,
    );
    assertEquals(result.stdout, "done\n");
    const [pid = 0] = await pidsIn(`${folder}/pids`, 1);
    assert(await isAlive(pid));
    Deno.kill(pid, "SIGKILL");
  });
});

Deno.test("a released program continues when the process that started it ends", async () => {
  await withFolder(async (folder) => {
    const module = new URL("../../src/host/program.ts", import.meta.url).href;
    const wait = 'until [ -e "$0/go" ]; do sleep 0.02; done; echo done > "$0/made"';
    const body = `import { runCommand } from ${JSON.stringify(module)};
      const stop = new AbortController();
      runCommand("/bin/sh", ["-c", ${JSON.stringify(wait)}, ${JSON.stringify(folder)}], {
        deadlineMs: ${DEADLINE_MS}, released: stop.signal,
      }).catch(() => {});
      stop.abort();`;
    const config = new URL("../../deno.json", import.meta.url).pathname;
    await Deno.writeTextFile(`${folder}/starter.ts`, body);
    const args = ["run", "-A", "--quiet", "--cached-only", "--config", config];
    const result = await runCommand(Deno.execPath(), [...args, `${folder}/starter.ts`], {
      deadlineMs: DEADLINE_MS,
      env: { DENO_DIR: Deno.env.get("DENO_DIR") ?? "" },
    });
    assertEquals([result.code, result.stderr], [0, ""]);
    await Deno.writeTextFile(`${folder}/go`, "");
    await until("the program's end", () => Deno.stat(`${folder}/made`).catch(() => null));
  });
});

Deno.test("runCommand() can keep the input open until the program ends", async () => {
  const options = { stdin: "first\n", stdinStaysOpen: true };
  assertEquals((await shell('read line; echo "$line"', options)).stdout, "first\n");
  const open = shell("cat >/dev/null", { ...options, deadlineMs: 300 });
  await assertRejects(() => open, AgentError, "it was not done after");
  assertEquals((await shell("cat", { stdin: "x" })).stdout, "x");
});
