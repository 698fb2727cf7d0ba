// The pages of machines, as an operator uses them, with the screen of a simulated guest.

import { assert, assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { DESCRIPTION, ISO, type MachineAgent, withMachineAgent } from "../http/machine_process.ts";
import { programOfRun } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import { browserTest, expectSoundAtAllWidths, type OpenBrowser } from "./browser.ts";

const MACHINE = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
const NAME = "web1";
const REQUEST = { machine: { ...DESCRIPTION, alias: NAME } };
/** How X names the key Delete. */
const DELETE_KEY = 0xffff;

/** An agent that ends after the pages. */
function withMachine(
  browser: OpenBrowser,
  run: (agent: MachineAgent) => Promise<void>,
): Promise<void> {
  return withMachineAgent(programOfRun(), async (agent) => {
    try {
      await run(agent);
    } finally {
      await browser.closePages();
    }
  });
}

/** Presses a button of the page, then the one of its dialog. */
async function act(page: Page, title: string): Promise<void> {
  await page.getByRole("button", { name: `${title}…` }).click();
  await page.getByRole("button", { name: `${title} ${NAME}`, exact: true }).click();
}

async function keysOf(agent: MachineAgent): Promise<string> {
  const path = `${agent.stateDir}/simulator/processes/${MACHINE}.input`;
  return await Deno.readTextFile(path).catch(() => "");
}

/** Whether the viewer is among what the page has loaded. */
const LOADED =
  "performance.getEntriesByType('resource').some(({ name }) => name.includes('/screen-'))";

browserTest(
  "a machine is shown from its creation to its end, and its screen takes keys",
  (browser) =>
    withMachine(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/machines`);
      await page.getByText("This host has no machines").waitFor();
      await agent.make(MACHINE, REQUEST);
      const row = page.getByRole("row").filter({ hasText: NAME });
      await row.locator(".badge", { hasText: "running" }).waitFor();
      assertEquals(await page.evaluate(LOADED), false);
      await row.getByRole("link").click();

      const connected = page.locator(".screen-state-connected");
      await connected.waitFor();
      assertEquals(await page.evaluate(LOADED), true);
      const picture = () =>
        page.evaluate("document.querySelector('.screen canvas').toDataURL()") as Promise<string>;
      await until("the screen to be drawn", async () => (await picture()).length > 1_000);
      const before = await picture();
      await page.getByRole("button", { name: "Type" }).click();
      await page.keyboard.type("q");
      await until("the key to be echoed", async () => await picture() !== before);
      await page.keyboard.press("Control+Alt+Shift+L");
      await page.locator("button:focus", { hasText: "Type" }).waitFor();

      await page.getByText("Keys", { exact: true }).click();
      await page.getByRole("button", { name: "Send Ctrl-Alt-Del" }).click();
      await until(
        "the guest to get the keys",
        async () => (await keysOf(agent)).includes(String(DELETE_KEY)),
      );

      await page.getByRole("button", { name: "Reboot…" }).click();
      await page.getByLabel("Immediately, by force").check();
      await page.getByText("The same from a terminal").click();
      const commands = await page.locator(".command code").allInnerTexts();
      assert(commands[0]?.startsWith(`zonewright machine reboot ${MACHINE} --force`), commands[0]);
      assert(commands[1]?.includes(`'{"force":true}'`), commands[1]);
      await page.getByRole("button", { name: `Reboot ${NAME}` }).click();
      const reboot = page.locator(".job-line", { hasText: "machine-reboot" });
      await reboot.locator(".state-succeeded").waitFor();
      // It reconnects by itself.
      await connected.waitFor();

      await agent.simulate("guest", MACHINE, "power-off");
      await page.getByText(`${NAME} is off`).waitFor();
      assertEquals(
        await page.locator(".empty code").innerText(),
        `zonewright machine boot ${MACHINE} --url ${agent.url}`,
      );
      await page.getByText(`/${ISO}`).waitFor();
      await act(page, "Eject");
      await page.locator(".facts").getByText("none").waitFor();
      await act(page, "Boot");
      await connected.waitFor();
      await act(page, "Delete");
      await page.getByText("The host no longer has this machine").waitFor();
      await page.getByRole("navigation").getByRole("link", { name: "Machines" }).click();
      await page.getByText("This host has no machines").waitFor();
    }),
);

browserTest(
  "a first visit shows the machines that vmadm named last, until it has answered",
  (browser) =>
    withMachine(browser, async (agent) => {
      await agent.make(MACHINE, REQUEST);
      await (await fetch(`${agent.url}/agent/v1/machines`)).json();
      const { page } = await browser.open(`${agent.url}/ui/library`);
      const asked = Promise.withResolvers<void>();
      const answered = Promise.withResolvers<void>();
      await page.route("**/agent/v1/machines", async (route) => {
        asked.resolve();
        await answered.promise;
        await route.continue();
      });
      await page.getByRole("navigation").getByRole("link", { name: "Machines" }).click();
      await asked.promise;
      await page.getByRole("row").filter({ hasText: NAME }).waitFor();
      await page.getByText("as of").waitFor();
      answered.resolve();
      await page.getByText("as of").waitFor({ state: "hidden" });
      await page.getByRole("row").filter({ hasText: NAME }).waitFor();
    }),
);

browserTest(
  "the pages of machines have no serious finding, and none is wider than its window",
  (browser) =>
    withMachine(browser, async (agent) => {
      await agent.make(MACHINE, REQUEST);
      const { page } = await browser.open(`${agent.url}/ui/machines`);
      const check = (what: string) => expectSoundAtAllWidths(page, what);
      await page.locator(".rows-body .row").waitFor();
      await check("machines");
      await page.getByRole("searchbox").fill("nothing");
      await page.getByText("No machines match").waitFor();
      await check("no machine fits");
      await page.goto(`${agent.url}/ui/machines/${MACHINE}`);
      await page.locator(".screen-state-connected").waitFor();
      await check("machine");
      await page.getByRole("button", { name: "Delete…" }).click();
      await check("dialog");
    }),
);
