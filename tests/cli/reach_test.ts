// What is said where an agent cannot be reached: by the wrong scheme, with a certificate that proves nothing,
// under a name that nobody has, and where another program answers.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { makeCertificate } from "../http/tls_files.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { commandOf, linesIn } from "./hinted_commands.ts";
import { openScreen } from "./screen.ts";

/** Asks for the status, which must fail. @returns its message and its hint */
async function asked(...flags: string[]): Promise<{ error: string; hint: string }> {
  const screen = openScreen();
  assertEquals(await screen.run("status", ...flags), 3, screen.err());
  assertEquals(screen.out(), "");
  const [error = "", hint = "", ...others] = screen.err().trimEnd().split("\n");
  assertEquals(others, []);
  linesIn(hint).forEach(commandOf);
  return { error, hint };
}

/** Runs with the address of a server, which is closed in the end. */
async function withServer(
  tls: { cert: string; key: string } | undefined,
  run: (address: string) => Promise<void>,
): Promise<void> {
  const place = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  const other = () => new Response("Not Found", { status: 404 });
  const server = tls === undefined
    ? Deno.serve(place, other)
    : Deno.serve({ ...place, ...tls }, other);
  try {
    await run(`127.0.0.1:${server.addr.port}`);
  } finally {
    await server.shutdown();
  }
}

programTest(
  "openssl",
  "a certificate, and http where https is spoken, are named with what to do",
  () =>
    withFolder(async (folder) => {
      const made = await makeCertificate(folder, "agent");
      const others = await makeCertificate(folder, "others", { names: "DNS:other.example" });
      const read = async ({ certPath, keyPath }: typeof made) => ({
        cert: await Deno.readTextFile(certPath),
        key: await Deno.readTextFile(keyPath),
      });
      await withServer(await read(made), async (address) => {
        const plain = await asked("--url", `http://${address}`);
        assertStringIncludes(
          plain.error,
          "it does not speak http, perhaps https, expected an address",
        );
        assertEquals(plain.hint, `hint: zonewright status --url https://${address}`);
        const unknown = await asked("--url", `https://${address}`);
        assertStringIncludes(unknown.error, "not signed by a trusted authority, expected --ca");
        assertEquals(unknown.hint, `hint: zonewright status --url https://${address} --ca FILE`);
        const trusted = await asked("--url", `https://${address}`, "--ca", made.certPath);
        assertStringIncludes(trusted.error, "what answers there is not zonewright");
        assertEquals(trusted.hint, "hint: zonewright status --help");
      });
      await withServer(await read(others), async (address) => {
        const named = await asked("--url", `https://${address}`, "--ca", others.certPath);
        assertStringIncludes(named.error, "its certificate names other hosts, expected an address");
      });
    }),
);

Deno.test("another server, and an unknown host name, are not agents", async () => {
  await withServer(undefined, async (address) => {
    const { error } = await asked("--url", address);
    assertEquals(
      error,
      `zonewright: Cannot reach the agent at http://${address}: what answers there is not zonewright`,
    );
  });
  const { error } = await asked("--url", "http://no-such-host.invalid:8780");
  assertStringIncludes(error, "http://no-such-host.invalid:8780: ");
  assertEquals(/error sending request|client error/.test(error), false, error);
});
