import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { killGroup, runCommand, startProgram } from "../../src/host/program.ts";

async function endOf(child: Deno.ChildProcess): Promise<Deno.CommandStatus> {
  await Promise.all([child.stdout.cancel(), child.stderr.cancel()]);
  return await child.status;
}

Deno.test("a program can be killed just after its start, before it leads a group", async () => {
  for (let round = 0; round < 50; round += 1) {
    const child = startProgram("/bin/sleep", ["600"], {});
    killGroup(child);
    assertEquals((await endOf(child)).signal, "SIGKILL");
    // There is nobody left to be killed, and that is no failure.
    killGroup(child);
  }
});

Deno.test("a program leads its own process group and session, under the pid that was started", async () => {
  const child = startProgram("/bin/cat", [], { stdin: "" });
  const writer = child.stdin.getWriter();
  const reader = child.stdout.getReader();
  await writer.write(new TextEncoder().encode("here\n"));
  assertEquals(new TextDecoder().decode((await reader.read()).value), "here\n");
  const { stdout } = await runCommand("/bin/ps", ["-o", "comm=,pgid=,sid=", "-p", `${child.pid}`], {
    deadlineMs: 90_000,
  });
  assertEquals(stdout.trim().split(/\s+/), ["cat", `${child.pid}`, `${child.pid}`]);
  await writer.close();
  await Promise.all([reader.cancel(), child.stderr.cancel()]);
  assertEquals((await child.status).code, 0);
});

Deno.test("a program without its interpreter is reported as missing", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const program = `${folder}/vmadm`;
    await Deno.writeTextFile(program, "#!/nowhere/sh\n", { mode: 0o755 });
    const error = await assertRejects(
      () => runCommand(program, [], { deadlineMs: 90_000 }),
      AgentError,
    );
    assertEquals(error.code, "host");
    assertStringIncludes(error.message, "there is no such program");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a folder is not a program", () => {
  const error = assertThrows(() => startProgram("/usr/bin", [], {}), AgentError);
  assertStringIncludes(error.message, "it is not executable");
});

Deno.test("a program that ends with the exit codes of a failed start still counts as run", async () => {
  for (const code of [126, 127]) {
    const script = `echo "sh: vmadm: not found" >&2; exit ${code}`;
    const result = await runCommand("/bin/sh", ["-c", script], { deadlineMs: 90_000 });
    assertEquals(result.code, code);
  }
});
