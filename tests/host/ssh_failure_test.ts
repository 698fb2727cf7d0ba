// What goes wrong on the way to a host behind ssh, and that it goes right again afterwards.

import { assert, assertEquals } from "@std/assert";
import { until } from "../support/until.ts";
import { farTest } from "./far_host.ts";
import { refused } from "./refused.ts";
import { makeKey } from "./ssh_server.ts";

const QUICK = { deadlineMs: 90_000 };

farTest(
  "a host with another key is refused, and accepted when the key is right again",
  async (host) => {
    const { server, transport, folder, writeProgram } = host;
    await writeProgram("echo hello");
    const known = server.host.knownHostsFile ?? "";
    const right = await Deno.readTextFile(known);
    await makeKey(`${folder}/other`);
    const [type, key] = (await Deno.readTextFile(`${folder}/other.pub`)).split(" ");
    await Deno.writeTextFile(known, `[127.0.0.1]:${server.port} ${type} ${key}\n`);
    const another = `its host key differs from the one in ${known}`;
    await refused(() => transport.vmadm([], QUICK), "host", another, `127.0.0.1:${server.port}`);
    await refused(() => transport.files.status("/"), "host", another);
    await Deno.writeTextFile(known, right);
    assertEquals((await transport.vmadm([], QUICK)).stdout, "hello\n");
  },
);

farTest("a host with an unknown key is refused", async ({ server, reach, folder }) => {
  await Deno.writeTextFile(`${folder}/empty`, "");
  const transport = reach({ knownHostsFile: `${folder}/empty` });
  const text = `its host key is not in ${folder}/empty`;
  const scan = `expected the line of "ssh-keyscan -p ${server.port} 127.0.0.1"`;
  await refused(() => transport.connect(), "host", text, scan);
  // Nothing is written there by itself, either.
  assertEquals(await Deno.readTextFile(`${folder}/empty`), "");
  await until("the end of the connection", async () => await server.connections() === 0);
});

farTest("a refused login is reported as such", async ({ reach, folder }) => {
  await makeKey(`${folder}/stranger`);
  const transport = reach({ identityFile: `${folder}/stranger` });
  const expected = `expected the public key of ${folder}/stranger`;
  await refused(() => transport.vmadm([], QUICK), "host", "it refused the login", expected);
  const missing = reach({ identityFile: `${folder}/nothing` });
  await refused(() => missing.vmadm([], QUICK), "host", "it refused the login");
});

farTest("a host that does not listen is reported, and reached once it does", async (host) => {
  const { server, transport, writeProgram } = host;
  await writeProgram("echo hello");
  await server.kill();
  await refused(() => transport.vmadm([], QUICK), "host", "Cannot reach", "refused");
  await refused(() => transport.files.status("/"), "host", "Cannot reach", "refused");
  await refused(() => transport.dial("127.0.0.1", server.port), "host", "Cannot reach", "refused");
  await server.start();
  assertEquals((await transport.vmadm([], QUICK)).stdout, "hello\n");
  assertEquals((await transport.files.status("/"))?.kind, "folder");
});

farTest("a caller may abort while the host does not answer", async ({ server, transport }) => {
  await server.freeze(true);
  const caller = new AbortController();
  const call = transport.vmadm([], { ...QUICK, signal: caller.signal });
  caller.abort();
  await refused(() => call, "aborted", "it was canceled");
  await server.freeze(false);
});

farTest("a connection that went silent is closed", async (host) => {
  const { server, transport, writeProgram } = host;
  await writeProgram("echo hello");
  await transport.vmadm([], QUICK);
  await server.freeze(true);
  const late = transport.vmadm([], { deadlineMs: 60_000 });
  // ssh asks three times, five seconds apart; then the connection is made again, which a host that
  // stands still does not answer either.
  const error = await refused(() => late, "host");
  assert(/Timeout|timed out|no login within/i.test(error.message), error.message);
  await server.freeze(false);
  assertEquals((await transport.vmadm([], QUICK)).stdout, "hello\n");
});

farTest("a host without an sftp server is reported as such", async ({ transport, ...host }) => {
  await host.writeProgram("echo hello");
  await refused(() => transport.files.status("/"), "host", "Cannot reach the files", "ended");
  assertEquals((await transport.vmadm([], QUICK)).stdout, "hello\n");
}, [
  'ForceCommand case $SSH_ORIGINAL_COMMAND in internal-sftp) exit 1;; *) eval "$SSH_ORIGINAL_COMMAND";; esac',
]);
