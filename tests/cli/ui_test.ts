// `zonewright ui`: the address of the console, only where it leads somewhere.

import { assertEquals, assertMatch } from "@std/assert";
import { withHttpAgent } from "../http/http_agent.ts";
import { until, withFolder } from "../support/until.ts";
import { openScreen } from "./screen.ts";
import { CLOSED_ADDRESS } from "../support/closed_port.ts";

Deno.test("ui prints the address of the console of the agent that answers", async () => {
  await withHttpAgent(async ({ url }) => {
    const screen = openScreen();
    assertEquals([await screen.run("ui", "--url", url), screen.out()], [0, `${url}/ui\n`]);
    const json = openScreen();
    assertEquals(await json.run("ui", "--json", "--url", `${url}/`), 0);
    assertEquals(JSON.parse(json.out()), { url: `${url}/ui` });
  });
});

Deno.test("ui opens the console by the program of the desktop, for a person at a display", async () => {
  await withHttpAgent(({ url }) =>
    withFolder(async (folder) => {
      const opened = `${folder}/opened`;
      const run = async (isTerminal: boolean, env: Record<string, string>, ...flags: string[]) => {
        const screen = openScreen({ isTerminal, env: { PATH: `/nowhere:${folder}`, ...env } });
        assertEquals(await screen.run("ui", "--url", url, ...flags), 0);
        assertEquals(screen.out(), `${url}/ui\n`);
        return await Deno.readTextFile(opened).catch(() => "");
      };
      // Without the program for it, the address has to do.
      assertEquals(await run(true, { DISPLAY: ":0" }), "");
      const program = `#!/bin/sh\nprintf '%s %s' "$#" "$1" > ${opened}\n`;
      await Deno.writeTextFile(`${folder}/xdg-open`, program, { mode: 0o755 });
      assertEquals(await run(true, {}), "");
      assertEquals(await run(false, { DISPLAY: ":0" }), "");
      assertEquals(await run(true, { DISPLAY: ":0" }, "--print"), "");
      await run(true, { WAYLAND_DISPLAY: "wayland-0" });
      const said = await until("the address to be opened", async () => {
        return (await Deno.readTextFile(opened).catch(() => "")) || undefined;
      });
      assertEquals(said, `1 ${url}/ui`);
    })
  );
});

Deno.test("ui exits 3 without an agent, and prints no address", async () => {
  const screen = openScreen();
  assertEquals(await screen.run("ui", "--url", `http://${CLOSED_ADDRESS}`), 3);
  assertEquals(screen.out(), "");
});

Deno.test("ui says that a browser cannot open a unix socket", async () => {
  const screen = openScreen();
  assertEquals(await screen.run("ui", "--socket", "/run/agent.sock"), 2);
  assertMatch(screen.err(), /Cannot open \/run\/agent\.sock in a browser: it is a unix socket/);
});
