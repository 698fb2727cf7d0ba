// The configuration that an installation writes can be read, whatever is uncommented of it.

import { assertEquals } from "@std/assert";
import { SETTING_ROWS } from "../../src/config/settings.ts";
import { readConfig } from "../../src/config/sources.ts";
import { defaultConfig } from "../../src/service/installation.ts";
import { SERVICE_MANAGERS, SERVICE_PATHS } from "../../src/service/manager.ts";

for (const manager of SERVICE_MANAGERS) {
  Deno.test(`the configuration for ${manager} is sound, and so are its suggestions`, () => {
    const written = defaultConfig(manager, SERVICE_PATHS[manager]);
    const keys = Array.from(written.matchAll(/^(?:# )?(\w+)(?: = |: )/gm), ([, key]) => key);
    const expected = SETTING_ROWS.map(({ key }) => key);
    // The first line names the program.
    assertEquals(new Set(keys), new Set(["zonewright", ...expected]));
    const suggested = written.replaceAll(/^# (\w+ = )/gm, "$1");
    for (const text of [written, suggested]) {
      const file = { path: SERVICE_PATHS[manager].config, text };
      const { socket, state_dir } = readConfig({ flags: {}, env: {}, cwd: "/", os: "linux", file });
      assertEquals(socket.value, SERVICE_PATHS[manager].socket);
      assertEquals(state_dir.value, SERVICE_PATHS[manager].stateDir);
    }
  });
}
