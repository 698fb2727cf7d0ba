// Every page of the menu, by the keyboard alone, and what it shows of a host with the sample index.

import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { FAILING, newJob, withAgent } from "./agent.ts";
import { browserTest } from "./browser.ts";

/** What each page shows once it is there. */
const SHOWN: Readonly<Record<string, string>> = {
  Overview: ".fact",
  Jobs: ".rows-body .state-failed",
  Machines: ".empty",
  "New machine": ".request-form",
  Library: ".drop",
  Images: ".distro",
  Workflows: ".workflows li",
  Hosts: ".hosts li",
  System: ".policy",
};

/** Presses Tab until a link has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 40; presses++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate("document.activeElement.textContent") === name) return;
  }
  throw new Error(`No press of Tab reached ${name}`);
}

browserTest(
  "every page of the menu is reached and left by the keyboard",
  (browser) =>
    withAgent(browser, async (agent) => {
      await agent.job(await newJob(agent, FAILING), "failure");
      const { page } = await browser.open(`${agent.url}/`);
      for (const [title, shown] of Object.entries(SHOWN)) {
        await page.locator(".nav-link").first().waitFor();
        // From the top, as on a page that was just opened.
        await page.evaluate("document.activeElement.blur()");
        await page.locator(".skip").focus();
        await tabTo(page, title);
        await page.keyboard.press("Enter");
        await page.locator(shown).first().waitFor();
        assertEquals(await page.locator(".nav-link[aria-current]").innerText(), title);
      }
    }, "--dev"),
);

browserTest(
  "the link at the top of a page skips its menu, and keeps its filter",
  (browser) =>
    withAgent(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/jobs?state=failed`);
      await page.getByText("No jobs match this filter").waitFor();
      await page.locator(".skip").focus();
      await page.keyboard.press("Enter");
      await page.locator("main:focus").waitFor();
      await page.keyboard.press("Tab");
      await page.locator(".tab:focus", { hasText: "Failed" }).waitFor();
      await page.getByRole("navigation").getByRole("link", { name: "Library" }).click();
      await page.waitForURL("**/ui/library");
    }),
);

browserTest(
  "a job is retried from its second task by the keyboard",
  (browser) =>
    withAgent(browser, async (agent) => {
      const failed = await newJob(agent, FAILING);
      await agent.job(failed, "failure");
      const { page } = await browser.open(`${agent.url}/ui/jobs/${failed}`, {
        reducedMotion: "reduce",
      });
      const line = page.locator(".task-failed summary");
      await line.focus();
      await page.keyboard.press("Enter");
      await page.getByText(/^Attempt 2,/).waitFor();
      await page.getByRole("button", { name: "Retry from here…" }).focus();
      await page.keyboard.press("Enter");
      const retry = page.getByRole("button", { name: "Retry", exact: true });
      await retry.focus();
      // Escape closes, and the focus is where it was. The dialog is hidden a moment before it is gone.
      await page.keyboard.press("Escape");
      await page.locator(".dialog").waitFor({ state: "detached" });
      assertEquals(
        await page.evaluate("document.activeElement.textContent"),
        "Retry from here…",
      );
      // Nothing moves for those who asked for that.
      assertEquals(
        await page.evaluate("getComputedStyle(document.activeElement).transitionProperty"),
        "none",
      );
      await page.keyboard.press("Enter");
      await retry.focus();
      await page.keyboard.press("Enter");
      await page.getByText("Repeats").waitFor();
      await page.locator(".task", { hasText: "check" }).getByText("kept").waitFor();
    }),
);
