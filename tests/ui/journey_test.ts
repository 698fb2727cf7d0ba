// The console in a browser, with an agent that runs jobs: from a job that failed to its retry, a job that waits,
// and a list that shows what happens.

import { Buffer } from "node:buffer";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { FAILING, newJob, WAITING, withAgent } from "./agent.ts";
import { browserTest } from "./browser.ts";
import { isoBytes } from "../support/medium.ts";
import { until } from "../support/until.ts";

browserTest(
  "an operator sees why a job failed, retries it, and resumes one that waits",
  (browser) =>
    withAgent(browser, async (agent) => {
      const failed = await newJob(agent, FAILING);
      await agent.job(failed, "failure");
      const { page } = await browser.open(`${agent.url}/`);
      assertEquals(new URL(page.url()).pathname, "/ui");
      await page.getByRole("link", { name: "Jobs", exact: true }).click();
      const row = page.getByRole("row").filter({ hasText: "import-dataset" });
      assertMatch(await row.innerText(), /failed[\s\S]*the checksum is wrong/);
      await row.getByRole("link").click();
      assertMatch(await page.locator(".banner").innerText(), /Failed in copy, after 2 attempts/);
      await page.getByRole("log").getByText("slow link").first().waitFor();
      const title = "failed: import-dataset · zonewright";
      await until("the title", async () => await page.title() === title);
      await page.getByRole("tab", { name: "Params" }).click();
      const params = await page.getByRole("region", { name: "Params, secrets masked" }).innerText();
      assert(!params.includes("hunter2") && params.includes("***"));
      await page.getByRole("button", { name: "Retry…" }).click();
      await page.getByText("The same from a terminal").click();
      const commands = await page.locator(".command code").allInnerTexts();
      assert(commands[0]?.startsWith(`zonewright job retry ${failed} --url ${agent.url}`));
      assert(commands[1]?.endsWith(`${agent.url}/agent/v1/jobs/${failed}/retry`));
      await page.getByRole("button", { name: "Retry", exact: true }).click();
      await page.getByText("Repeats").waitFor();
      assert(!page.url().includes(failed));

      const waiting = await newJob(agent, WAITING);
      await agent.job(waiting, "waiting");
      await page.goto(`${agent.url}/ui/jobs/${waiting}`);
      await page.getByRole("button", { name: "Resume…" }).click();
      await page.getByRole("button", { name: "Resume", exact: true }).click();
      // Without asking again: what happens is seen.
      await page.locator("h1 .state-succeeded").waitFor();
      await page.getByRole("log").getByText("applied").waitFor();
    }),
);

browserTest(
  "an operator uploads a file and makes a machine of it",
  (browser) =>
    withAgent(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/library`);
      await page.getByText("The library has no files").waitFor();
      const buffer = Buffer.from(isoBytes(120_000));
      const file = { name: "debian-13.iso", mimeType: "application/octet-stream", buffer };
      await page.locator("input[type=file]").setInputFiles([file]);
      await page.getByRole("link", { name: "New machine from debian-13.iso" }).click();
      await page.getByLabel("Name", { exact: true }).fill("web1");
      await page.getByLabel("Memory, MiB").fill("256");
      assertMatch(await page.getByLabel("Request as JSON").inputValue(), /"ram": 256,/);
      await page.getByRole("button", { name: "Check", exact: true }).click();
      await page.getByText("It boots debian-13.iso, 117 KiB").waitFor();
      await page.getByRole("button", { name: "Create web1" }).click();
      await page.waitForURL("**/ui/machines/*");
      await page.locator("h1", { hasText: "web1" }).waitFor();
    }),
);
