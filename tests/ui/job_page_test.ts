// The page of a job for a person who waits for it, or ends its wait: a notification at its end, and a log that stays
// at its end.

import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import type { Page } from "playwright-core";
import type { AgentProcess } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import { newJob, WAITING, withAgent } from "./agent.ts";
import { browserTest } from "./browser.ts";

/** Notes the notifications, which the desktop of a test does not show. */
const NOTED = `
  globalThis.noted = [];
  globalThis.Notification = class extends Notification {
    constructor(title, options) {
      super(title, options);
      globalThis.noted.push({ title, ...options });
    }
  };`;

/** Makes a job that is due in an hour. @returns its uuid */
async function newDelayedJob(agent: AgentProcess): Promise<string> {
  const chain = [{ name: "only", body: "(job, cb) => cb()" }];
  const made = await agent.post("/workflows", { name: "later", chain });
  const job = await agent.post("/jobs", {
    workflow: made.body.uuid ?? "",
    exec_after: new Date(Date.now() + 3_600_000).toISOString(),
  });
  return String(job.body.uuid);
}

const ASKING = {
  name: "approve-change",
  chain: [{
    name: "approval",
    body: "(job, cb) => { log.info('asked operations'); log.warn('nobody answers'); cb('wait'); }",
  }],
};

browserTest(
  "a job that waits is failed by a person, and its title, icon and filtered log say why",
  (browser) =>
    withAgent(browser, async (agent) => {
      const uuid = await newJob(agent, ASKING);
      await agent.job(uuid, "waiting");
      const { page } = await browser.open(`${agent.url}/ui/jobs/${uuid}`);
      const titled = (state: string) =>
        until(state, async () => (await page.title()).startsWith(`${state}: approve-change`));
      await titled("waiting");
      const icon = () => page.locator("link[rel=icon]").getAttribute("href");
      const before = await icon();
      await page.getByRole("button", { name: "Resume…" }).click();
      await page.getByLabel("It failed").check();
      await page.getByRole("textbox", { name: "Error" }).fill("the change was refused");
      await page.getByRole("button", { name: "Fail the task" }).click();
      await page.locator(".banner-bad", { hasText: "the change was refused" }).waitFor();
      await titled("failed");
      assertNotEquals(await icon(), before);
      const lines = page.getByRole("log").locator(".log-line");
      const filter = page.getByRole("searchbox", { name: "Filter the log" });
      await filter.fill("NOBODY");
      await until("one line", async () => await lines.count() === 1);
      assertMatch(
        await lines.innerText(),
        /^\d\d:\d\d:\d\d\.\d{3}\s+warn\s+approval\s+nobody answers/,
      );
      await filter.fill("nobody said this");
      await page.getByText("No lines match").waitFor();
    }),
);

const noted = (page: Page) => page.evaluate("globalThis.noted");

browserTest(
  "a person who asked is notified once, when the job has ended",
  (browser) =>
    withAgent(browser, async (agent) => {
      const uuid = await newDelayedJob(agent);
      const { page } = await browser.open(`${agent.url}/ui`, { permissions: ["notifications"] });
      await page.addInitScript(NOTED);
      await page.goto(`${agent.url}/ui/jobs/${uuid}`);
      await page.getByRole("button", { name: "Notify me" }).click();
      await page.getByRole("button", { name: "You will be notified" }).waitFor();
      assertEquals(await noted(page), []);
      await agent.post(`/jobs/${uuid}/cancel`, {});
      await page.locator("h1 .state-canceled").waitFor();
      await until("the notification", async () => String(await noted(page)) !== "");
      assertEquals(await noted(page), [{ title: "canceled: later", body: "", tag: uuid }]);
      assertEquals(await page.getByRole("button", { name: "Notify me" }).count(), 0);
    }),
);

browserTest(
  "a browser that refuses notifications is named",
  (browser) =>
    withAgent(browser, async (agent) => {
      const uuid = await newDelayedJob(agent);
      const { page } = await browser.open(`${agent.url}/ui/jobs/${uuid}`, { permissions: [] });
      await page.getByRole("button", { name: "Notify me" }).click();
      await page.getByRole("button", { name: "Blocked by the browser" }).waitFor();
    }),
);

/** Lines of two windows, each too long for a line of the page. */
const TALKING = {
  name: "talk",
  chain: [{
    name: "say",
    body:
      "(job, cb) => { for (let n = 1; n <= 120; n++) log.info(`line ${n} ${'word '.repeat(60)}`);" +
      " cb('wait'); }",
  }, WAITING.chain[1] ?? { name: "none", body: "" }],
};

browserTest(
  "a log follows its end through changes of the window, until a person goes up",
  (browser) =>
    withAgent(browser, async (agent) => {
      const uuid = await newJob(agent, TALKING);
      await agent.job(uuid, "waiting");
      const viewport = { width: 1280, height: 900 };
      const { page } = await browser.open(`${agent.url}/ui/jobs/${uuid}`, { viewport });
      const follow = page.getByRole("checkbox", { name: "Follow" });
      await page.getByText("line 120", { exact: false }).waitFor();
      const atEnd = () =>
        until("the end of the log", async () =>
          await page.evaluate(`(() => {
            const { scrollHeight, scrollTop, clientHeight } = document.querySelector(".log");
            return scrollHeight > 2 * clientHeight && scrollHeight - scrollTop - clientHeight < 40;
          })()`) as boolean);
      await atEnd();
      for (const size of [{ width: 500, height: 700 }, { width: 1800, height: 1000 }, viewport]) {
        await page.setViewportSize(size);
        await atEnd();
        assertEquals([size.width, await follow.isChecked()], [size.width, true]);
      }
      // A window that is dragged has its next size before the page hears of the last.
      for (let round = 0; round < 20; round++) {
        await page.setViewportSize({ width: 1800, height: 1000 });
        await page.setViewportSize({ width: 500, height: 700 });
      }
      await page.setViewportSize(viewport);
      await atEnd();
      assertEquals(await follow.isChecked(), true);
      await page.locator(".log").hover();
      await page.mouse.wheel(0, -2_000);
      await until("a log that stays", async () => !await follow.isChecked());
      await agent.post(`/jobs/${uuid}/resume`, {});
      await page.getByText("applied").waitFor({ state: "attached" });
      assertEquals(await follow.isChecked(), false);
      await follow.check();
      await atEnd();
    }),
);
