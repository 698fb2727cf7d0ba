// The pages of the host as an operator uses them: overview, images, workflows and system.

import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Page } from "playwright-core";
import type { AgentProcess } from "../support/agent_process.ts";
import { fixtureFiles, openIndexServer } from "../mirror/index_server.ts";
import { CLOSED_ADDRESS } from "../support/closed_port.ts";
import { FAILING, newJob, WAITING, withAgent } from "./agent.ts";
import { browserTest, expectSoundAtAllWidths } from "./browser.ts";

/** With the sample index. */
const DEV = "--dev";
const RELEASE = "/ui/images/zonewright-sample/2.0";

/** A workflow with a job that failed, and a job that waits. @returns the workflow's uuid */
async function fill(agent: AgentProcess): Promise<string> {
  const failed = await newJob(agent, FAILING);
  const waiting = await newJob(agent, WAITING);
  await agent.job(waiting, "waiting");
  const { workflow_uuid } = await agent.job(failed, "failure");
  return String(workflow_uuid);
}

async function commands(page: Page): Promise<string[]> {
  const part = page.locator(".terminal", { hasText: "The same from a terminal" }).last();
  await part.locator("summary").click();
  return await part.locator(".command code").allInnerTexts();
}

browserTest(
  "the overview shows the host, what waits and what failed, as it happens",
  (browser) =>
    withAgent(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui`);
      await page.getByText("Nothing is running").waitFor();
      await page.locator("h1 .badge", { hasText: "simulated" }).waitFor();
      await fill(agent);
      await page.locator(".card", { hasText: "approve-change" }).getByText("approval").waitFor();
      await page.locator(".failures").getByText("the checksum is wrong").waitFor();
      await page.getByRole("img", { name: "1 failed" }).waitFor();
      const slots = page.locator(".fact", { hasText: "Slots" });
      assertMatch(await slots.innerText(), /\d of \d+ busy/);
      await page.locator(".failures").getByRole("link").click();
      await page.getByText("Failed in copy").waitFor();
    }),
);

browserTest(
  "a host that cannot be reached is one banner, and a sync that failed another",
  (browser) =>
    withAgent(
      browser,
      async (agent) => {
        await agent.post("/agent/v1/index/sync", {});
        const { page } = await browser.open(`${agent.url}/ui`, { tolerated: /status of 502/ });
        await page.locator("h1 .badge", { hasText: "ssh to 127.0.0.1" }).waitFor();
        const banners = page.locator("main > .banner");
        await banners.filter({ hasText: "Cannot reach" }).waitFor();
        await banners.filter({ hasText: /index/i }).waitFor();
        await page.locator(".fact", { hasText: "Image index" }).getByText("the last sync failed")
          .waitFor();
        assertEquals(await banners.count(), 2);
        await banners.getByText(/^\d parts of the host could not be read/).click();
        await banners.getByText(/^pool could not be read/).waitFor();
        await expectSoundAtAllWidths(page, "unreachable");
        await page.getByRole("link", { name: "Images", exact: true }).first().click();
        await page.getByText("The last sync failed").waitFor();
        await page.getByRole("link", { name: "Machines", exact: true }).click();
        await page.getByRole("button", { name: "Try again" }).waitFor();
      },
      "--host",
      `ssh://root@${CLOSED_ADDRESS}`,
      "--index",
      `http://${CLOSED_ADDRESS}`,
      "--allow-http-index",
    ),
);

browserTest(
  "an artifact is found in the index, downloaded, and leads to a new machine",
  (browser) =>
    withAgent(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/images`);
      await page.getByRole("link", { name: "zonewright sample 2.0" }).waitFor();
      await page.getByRole("button", { name: "Sync now…" }).click();
      const [cli] = await commands(page);
      assert(cli?.startsWith("zonewright image sync"), cli);
      await page.getByRole("button", { name: "Sync now", exact: true }).click();
      // As it goes it gives the focus back, which must not come between another field and its text.
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await page.getByRole("button", { name: "Sync now…" }).and(page.locator(":enabled")).waitFor();
      await page.getByRole("searchbox").fill("preview dev");
      await page.getByRole("link", { name: "zonewright sample 2.0" }).waitFor({
        state: "detached",
      });
      await page.getByRole("searchbox").fill("lts");
      await page.getByRole("link", { name: "zonewright sample 2.0" }).click();
      const artifact = page.locator(".artifact", { hasText: "installer" });
      assertMatch(await artifact.innerText(), /x86_64[\s\S]*sha512:[\s\S]*check: index/);
      const link = artifact.getByRole("link", { name: "New machine from this image" });
      const { pathname, searchParams } = new URL(await link.getAttribute("href") ?? "", agent.url);
      assertEquals(pathname, "/ui/new");
      assertEquals(Object.fromEntries(searchParams), {
        distro: "zonewright-sample",
        release: "2.0",
        build: "20261101",
        arch: "x86_64",
        format: "iso",
        variant: "installer",
      });
      await artifact.getByRole("button", { name: "Download…" }).click();
      await page.getByRole("button", { name: "Download 8 MiB" }).click();
      await artifact.locator(".state-succeeded").waitFor();
    }, DEV),
);

browserTest(
  "a running sync shows its progress",
  async (browser) => {
    await using server = openIndexServer(await fixtureFiles());
    const silent = Array.from({ length: 100 }, () => ({ kind: "silent" }) as const);
    server.faults.set("v1/distros/aurora/index.json", silent);
    await withAgent(
      browser,
      async (agent) => {
        const { page } = await browser.open(`${agent.url}/ui/images`);
        await page.getByText(/reading documents, \d+ of \d+/).waitFor();
        await page.getByRole("progressbar", { name: /Documents of the sync/ }).waitFor();
        assert(await page.getByRole("button", { name: "Syncing" }).isDisabled());
      },
      "--index",
      server.url,
      "--allow-http-index",
    );
  },
);

browserTest(
  "a workflow is checked, made, run with fields of an earlier job, and deleted",
  (browser) =>
    withAgent(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/workflows`);
      await page.getByText("There are no workflows yet").waitFor();
      await page.getByRole("button", { name: "New workflow…" }).click();
      const text = page.getByRole("textbox", { name: "Workflow, as JSON" });
      const chain = [{
        name: "greet",
        body: "(job, cb) => cb(null, job.params.to + job.params.n)",
      }];
      await text.fill('{"name": ');
      await page.getByRole("button", { name: "Validate" }).click();
      await page.locator(".banner-bad").waitFor();
      await text.fill(JSON.stringify({ name: "hello", chain }));
      await page.getByRole("button", { name: "Validate" }).click();
      await page.getByText('"hello" is valid: 1 task').waitFor();
      assertEquals((await agent.get("/workflows")).headers.get("x-count"), "0");
      await page.getByRole("button", { name: "Create" }).click();

      await page.getByRole("region", { name: "Source of greet" }).waitFor();
      await page.getByRole("textbox", { name: "Params" }).fill('{"to": "moon", "n": 7}');
      const [cli = "", curl = ""] = await commands(page);
      assert(cli.includes("job run hello -p to=moon -p n:=7 --follow"), cli);
      assert(curl.includes(`"to":"moon","n":7`), curl);
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.locator("h1 .state-succeeded").waitFor();
      await page.getByRole("tab", { name: "Results" }).click();
      await page.locator("#part").getByText("moon7").waitFor();

      await page.getByRole("link", { name: "Workflows" }).click();
      await page.getByRole("link", { name: "hello", exact: true }).click();
      await page.getByRole("textbox", { name: "to", exact: true }).fill("sun");
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.locator("h1 .state-succeeded").waitFor();
      await page.getByRole("tab", { name: "Results" }).click();
      await page.locator("#part").getByText("sun7").waitFor();

      await page.goBack();
      await page.getByRole("button", { name: "Delete…" }).click();
      await page.getByRole("button", { name: "Delete hello" }).click();
      await page.getByText("There are no workflows yet").waitFor();
    }),
);

browserTest(
  "the system shows settings with their origins, and the doctor on request",
  (browser) =>
    withAgent(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/system`);
      const setting = page.locator(".settings li", { hasText: "state_dir" });
      assertMatch(await setting.innerText(), /--state-dir/);
      await page.getByRole("searchbox").fill("retention nobody has");
      await page.getByText("No settings match").waitFor();
      await page.getByRole("button", { name: "Examine the host" }).click();
      await page.getByText("Examined").waitFor();
      await page.getByRole("region", { name: "Doctor" }).getByText("store", { exact: true })
        .waitFor();
    }),
);

browserTest(
  "the tabs of the job list follow the filter, and all matching jobs can be selected",
  (browser) =>
    withAgent(browser, async (agent) => {
      await fill(agent);
      const { page } = await browser.open(`${agent.url}/ui/jobs`);
      await page.locator(".rows-body .row").nth(1).waitFor();
      const tab = (name: string, count: number) =>
        page.getByRole("tab", { name: `${name} ${count}`.replace(" ", "") }).or(
          page.getByRole("tab", { name: `${name} ${count}` }),
        ).first().waitFor();
      await tab("Failed", 1);
      await tab("Waiting", 1);
      await page.getByRole("searchbox").fill("approve");
      await tab("Failed", 0);
      await tab("Waiting", 1);
      await page.locator(".rows-body").getByRole("checkbox").check();
      await page.getByRole("button", { name: "Select all that match" }).click();
      await page.getByText("1 selected").waitFor();
      await page.getByRole("button", { name: "Cancel 1" }).click();
      await page.getByRole("button", { name: "Cancel 1 job" }).click();
      await page.locator(".rows-body .state-canceled").waitFor();
    }),
);

browserTest(
  "the pages of the host have no serious finding, and none is wider than its window",
  (browser) =>
    withAgent(browser, async (agent) => {
      const workflow = await fill(agent);
      const { page } = await browser.open(`${agent.url}/ui`);
      const look = async (path: string, ready: string) => {
        await page.goto(agent.url + path);
        await page.locator(ready).first().waitFor();
        await expectSoundAtAllWidths(page, path);
      };
      await look("/ui", ".fact");
      await look("/ui/images", ".distro");
      await look("/ui/images?search=nothing", ".empty");
      await look(RELEASE, ".artifact");
      await look("/ui/workflows", ".workflows li");
      await look(`/ui/workflows/${workflow}`, ".job-line");
      await look("/ui/system?settings=all", ".settings li");
      await page.getByRole("button", { name: "Examine the host" }).click();
      await page.getByText("Examined").waitFor();
      await expectSoundAtAllWidths(page, "doctor");
    }, DEV),
);
