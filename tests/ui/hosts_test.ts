// The hosts in a browser: what the one of a SQLite store shows, and that a cordon stops its jobs until it ends.

import { assert, assertEquals } from "@std/assert";
import { newJob, newToken, WAITING, withAgent } from "./agent.ts";
import { browserTest, expectSoundAtAllWidths } from "./browser.ts";

browserTest(
  "a host is cordoned and uncordoned, and its jobs wait meanwhile",
  (browser) =>
    withAgent(
      browser,
      async (agent) => {
        const { page } = await browser.open(`${agent.url}/ui/hosts`);
        const line = page.locator(".hosts li", { hasText: "gz01" });
        await line.locator(".badge", { hasText: "connected" }).waitFor();
        await line.getByText("this host").waitFor();
        // It answers.
        assertEquals(await line.getByRole("button", { name: "Forget gz01" }).count(), 0);
        await expectSoundAtAllWidths(page, "hosts");
        await line.getByRole("button", { name: "Cordon gz01" }).click();
        const dialog = page.getByRole("dialog");
        await dialog.locator(".terminal summary").click();
        const commands = await dialog.locator(".command code").allInnerTexts();
        assert(commands[0]?.startsWith("zonewright host cordon "), commands[0]);
        await dialog.getByRole("button", { name: "Cordon gz01" }).click();
        await line.locator(".badge", { hasText: "cordoned" }).waitFor();
        const job = await newJob(agent, WAITING);
        await line.getByText("1 queued").waitFor();
        assertEquals((await agent.get(`/jobs/${job}`)).body.execution, "queued");
        await dialog.waitFor({ state: "detached" });
        await line.getByRole("button", { name: "Uncordon gz01" }).click();
        await page.getByRole("dialog").getByRole("button", { name: "Uncordon gz01" }).click();
        await line.locator(".badge", { hasText: "connected" }).waitFor();
        await agent.job(job, "waiting");
      },
      "--host",
      "simulated:gz01",
    ),
);

browserTest(
  "the list of jobs drops its error about hosts once they can be read again",
  (browser) =>
    withAgent(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/system`, { tolerated: /net::ERR_/ });
      // No event says that they can be read.
      await page.route("**/agent/v1/events?*", (route) => route.abort());
      await page.route("**/agent/v1/hosts", (route) => route.abort());
      await page.getByRole("navigation").getByRole("link", { name: "Jobs" }).click();
      const banner = page.locator(".banner-bad", { hasText: "The agent does not answer" });
      await banner.waitFor();
      await page.unroute("**/agent/v1/hosts");
      await banner.waitFor({ state: "detached" });
    }),
);

browserTest(
  "a read token sees the hosts without actions",
  (browser) =>
    withAgent(browser, async (agent) => {
      const token = await newToken(agent, "viewer", "read");
      const { page } = await browser.open(`${agent.url}/ui/hosts`);
      await page.getByLabel("Token").fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.locator(".hosts .badge", { hasText: "connected" }).waitFor();
      assertEquals(await page.locator(".hosts button", { hasText: "…" }).count(), 0);
    }, "--require-token"),
);
