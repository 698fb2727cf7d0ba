// `zonewright ui`: prints the address of the web console, and opens it in a browser if there is one.

import { addressText } from "./client/api_call.ts";
import { cannot } from "./command/arguments.ts";
import type { Noun } from "./command/command.ts";
import { pause } from "../runtime/wait.ts";
import type { Terminal } from "./output/terminal.ts";

/** The page below the agent's address. */
const PATH = "/ui";
/** The desktop's program that opens a URL in the user's preferred browser. */
const OPENER = "xdg-open";
/** A display sets one of these variables. */
const DISPLAYS = ["WAYLAND_DISPLAY", "DISPLAY"] as const;
/** Milliseconds to wait for a failing opener to exit; one still running is the browser itself. */
const OPENER_MS = 1_500;

/** Exits with 3 when there is no agent, instead of printing an address that leads nowhere. */
export const UI: Noun = {
  kind: "command",
  command: {
    summary: "open the web console, or print its address",
    examples: [
      ["ui", "print the address; at a terminal with a display, open it too"],
      ["ui --print", "open nothing"],
      ["ui --url https://gz-7.example.com:8780", "of another agent"],
    ],
    flags: [{ name: "print", help: "print the address only" }],
    notes: [
      "xdg-open opens the browser, if it is installed and there is a display.",
      "Where the agent requires a token, the console asks for one: zonewright token create. A token of " +
      "scope read shows everything and changes nothing.",
    ],
    shared: "agent",
    async run({ args, client, printer, terminal }) {
      const { address } = client;
      if (address.kind !== "url") {
        throw cannot(
          `open ${addressText(address)} in a browser: it is a unix socket, expected an address`,
        );
      }
      // This needs no token; the page asks for one.
      await client.send({ method: "GET", path: "/agent/v1/session" });
      const url = address.base + PATH;
      if (printer.json) printer.document({ url });
      else terminal.out(`${url}\n`);
      if (!args.has("print") && !printer.json) await openInBrowser(url, terminal);
    },
  },
};

/**
 * Opens a URL in the browser of the person at the display. Does nothing in a script, without a display, or
 * without the program for it.
 * @returns whether a browser was asked to open it
 */
export async function openInBrowser(url: string, terminal: Terminal): Promise<boolean> {
  const { env, errIsTerminal, outIsTerminal } = terminal;
  const displays = DISPLAYS.some((name) => (env[name] ?? "") !== "");
  if (!displays || !errIsTerminal || !outIsTerminal) return false;
  const child = startOpener(url, env);
  if (child === undefined) return false;
  // A browser that the opener starts outlives this program.
  child.unref();
  const waiting = new AbortController();
  const opened = await Promise.race([
    child.status.then(({ success }) => success),
    pause(OPENER_MS, waiting.signal).then(() => true),
  ]);
  waiting.abort();
  return opened;
}

function startOpener(url: string, env: Terminal["env"]): Deno.ChildProcess | undefined {
  const streams = { stdin: "null", stdout: "null", stderr: "null" } as const;
  for (const folder of (env.PATH ?? "").split(":").filter((one) => one.startsWith("/"))) {
    try {
      return new Deno.Command(`${folder}/${OPENER}`, { args: [url], ...streams }).spawn();
    } catch {
      // Missing, or may not be run: try the next folder.
    }
  }
  return undefined;
}
