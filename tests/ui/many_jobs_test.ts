// The list of jobs of a host with a long history: counted, filtered, searched and scrolled, while the page holds few rows.

import { assert } from "@std/assert";
import { join } from "@std/path";
import { fillWithJobs } from "../../bench/fill.ts";
import { DATABASE_NAME } from "../../src/state_dir/state_dir.ts";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { FAILING, newJob } from "./agent.ts";
import { browserTest } from "./browser.ts";

const JOBS = 100_000;
/** Rows that a page may hold, whatever the list has. */
const ROWS_MAX = 150;

/** A state folder with that many failed jobs; the target of each is its number. */
async function fill(stateDir: string): Promise<void> {
  const agent = await startAgentProcess(programOfRun(), stateDir, ["--host", "simulated"]);
  try {
    await agent.job(await newJob(agent, FAILING), "failure");
  } finally {
    await agent.stop();
  }
  fillWithJobs(join(stateDir, DATABASE_NAME), JOBS - 1, "failed", {
    target: "'/datasets/' || CAST(number AS INTEGER)",
  });
}

browserTest(
  "a list of 100,000 jobs is counted, searched to its end and scrolled",
  (browser) =>
    withFolder(async (folder) => {
      const stateDir = join(folder, "state");
      await fill(stateDir);
      const agent = await startAgentProcess(programOfRun(), stateDir, ["--host", "simulated"]);
      try {
        const { page } = await browser.open(`${agent.url}/ui/jobs`);
        const rows = page.locator(".rows-body .row");
        const target = page.locator(".rows-body .row .cell-target").first();
        await page.getByRole("tab", { name: `Failed${JOBS.toLocaleString("en")}` }).or(
          page.getByRole("tab", { name: `Failed ${JOBS.toLocaleString("en")}` }),
        ).first().waitFor();
        await page.getByRole("tab", { name: /^Succeeded/ }).click();
        await page.getByText("No jobs match this filter").waitFor();
        await page.getByRole("tab", { name: /^Failed/ }).click();
        await rows.first().waitFor();
        const search = page.getByRole("searchbox");
        // The oldest: every other job is looked at before.
        await search.fill("/import-dataset");
        await until("the oldest job", async () =>
          await rows.count() === 1 && await target.innerText() === "/import-dataset");
        await search.fill("nothing has this");
        await page.getByText("No jobs match this filter").waitFor();
        await search.fill("");
        await rows.first().waitFor();
        await until(
          "the newest job",
          async () =>
            await target.innerText() === `/datasets/${JOBS - 1}`,
        );
        const height = async () => Number(await page.evaluate("document.body.scrollHeight"));
        let seen = await rows.count();
        for (let scrolls = 0; scrolls < 5; scrolls++) {
          const before = await height();
          await page.evaluate("scrollTo(0, document.body.scrollHeight)");
          await until("more rows", async () => await height() > before);
          seen = Math.max(seen, await rows.count());
        }
        assert(seen <= ROWS_MAX, `${seen} rows`);
        await page.getByText("Loading more").waitFor();
      } finally {
        await browser.closePages();
        await agent.stop();
      }
    }),
);
