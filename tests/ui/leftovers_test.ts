// What failed jobs have left, in a browser: from the overview to the section that lists it, until it is dropped.

import { assert, assertEquals } from "@std/assert";
import { DESCRIPTION, ISO, type MachineAgent, withMachineAgent } from "../http/machine_process.ts";
import { programOfRun } from "../support/agent_process.ts";
import { browserTest, expectSoundAtAllWidths, type OpenBrowser } from "./browser.ts";

const NAME = "web1";
const REQUEST = { machine: { ...DESCRIPTION, alias: NAME }, media: { path: ISO } };

/** An agent, which ends after the pages, on a host where machines neither start nor go. */
function withBusyHost(
  browser: OpenBrowser,
  run: (agent: MachineAgent) => Promise<void>,
): Promise<void> {
  return withMachineAgent(programOfRun(), async (agent) => {
    await agent.simulate("fault", "start_failure", "9");
    await agent.simulate("fault", "delete_busy");
    try {
      await run(agent);
    } finally {
      await browser.closePages();
    }
  });
}

/** Makes a machine that its failed job cannot remove. @returns the uuids of both */
async function leave(agent: MachineAgent): Promise<{ uuid: string; job: string }> {
  const { body } = await agent.post("/agent/v1/machines", REQUEST);
  await agent.job(String(body.job_uuid), "failure");
  return { uuid: String(body.uuid), job: String(body.job_uuid) };
}

browserTest(
  "the overview leads to what failed jobs have left, which shows each attempt until it is dropped",
  (browser) =>
    withBusyHost(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/machines`);
      await page.getByText("This host has no machines").waitFor();
      const lines = page.locator(".leftovers li");
      assertEquals(await lines.count(), 0);
      const { uuid, job } = await leave(agent);
      await lines.locator(`a[href="/ui/machines/${uuid}"]`, { hasText: NAME }).waitFor();
      await lines.getByText("no attempt yet").waitFor();

      await page.goto(`${agent.url}/ui`);
      await page.getByText("1 machine of a failed job is not yet removed").waitFor();
      await page.locator(".failures").getByRole("link", { name: "provision-machine" }).waitFor();
      await page.getByRole("link", { name: "See leftovers" }).click();
      await page.waitForURL("**/ui/machines#leftovers");
      await page.locator("h2:focus", { hasText: "Left behind by failed jobs" }).waitFor();
      await lines.getByText("on simulated").waitFor();
      await expectSoundAtAllWidths(page, "before the first attempt");
      await lines.locator(`a[href="/ui/jobs/${job}"]`).waitFor();
      // A minute after the job, and no event says so.
      await lines.getByText("1 attempt, next in").waitFor();
      await lines.locator(".step-error", { hasText: "dataset is busy" }).waitFor();
      await expectSoundAtAllWidths(page, "after the first attempt");

      await page.getByRole("button", { name: `Drop ${NAME}` }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("simulated keeps what it has").waitFor();
      await dialog.locator(".terminal summary").click();
      const [cli = ""] = await dialog.locator(".command code").allInnerTexts();
      assert(cli.startsWith(`zonewright machine leftovers --drop ${uuid} --host `), cli);
      await dialog.getByRole("button", { name: `Drop leftover ${uuid.slice(0, 8)}` }).click();
      await lines.waitFor({ state: "detached" });
      assertEquals((await agent.get("/agent/v1/leftovers")).body.items, []);
      // The host has kept the machine.
      await page.getByRole("row").filter({ hasText: NAME }).waitFor();
    }),
);
