// Two hosts of one database in a browser: lists say which host each row is of, and can be narrowed to one.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { hostAt, newJob, untilHost, withHosts } from "../support/hosts.ts";
import { isoBytes } from "../support/medium.ts";
import { postgresFolder, postgresTest } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";
import { browserTest, expectSoundAtAllWidths, type OpenBrowser } from "./browser.ts";

const MACHINE = {
  brand: "kvm",
  alias: "web1",
  vcpus: 1,
  autoboot: false,
  ram: 256,
  disks: [{ boot: true, model: "virtio", size: 1024 }],
};

const NAME = "jobs and machines show their hosts, and are filtered by them";
// Without the server it is skipped by that name.
if (postgresFolder() === undefined) postgresTest(NAME, () => Promise.resolve());
else browserTest(`${NAME} [needs postgres]`, showHosts);

function showHosts(browser: OpenBrowser): Promise<void> {
  return withFolder(async (media) => {
    await Deno.writeFile(`${media}/installer.iso`, isoBytes(64 * 1024));
    await withHosts(async ({ one, other }) => {
      const making = { machine: MACHINE, media: { path: "installer.iso" } };
      const made = (await one.post("/agent/v1/machines", making)).body;
      await one.job(String(made.job_uuid), "success");
      const job = await newJob(other, "/b", "running");
      const { page } = await browser.open(`${one.url}/ui/jobs`);
      const rows = page.locator(".jobs-table .rows-body .row");
      const hosts = () => rows.locator(".cell-host").allInnerTexts();
      await until("both jobs to be listed", async () => (await hosts()).length === 2);
      assertEquals(await hosts(), ["gz02", "gz01"]);
      await expectSoundAtAllWidths(page, "jobs of two hosts");
      await page.setViewportSize({ width: 1400, height: 900 });
      await page.getByLabel("Host").selectOption("gz02");
      await until("the jobs of gz02", async () => (await hosts()).join() === "gz02");
      assertStringIncludes(page.url(), "host=gz02");
      await rows.locator(".job-link").click();
      await page.locator(".facts", { hasText: "gz02" }).waitFor();
      await page.goto(`${one.url}/ui/machines`);
      await page.locator(".machines-table .cell-host", { hasText: "gz01" }).waitFor();
      await expectSoundAtAllWidths(page, "machines of two hosts");
      await page.setViewportSize({ width: 1400, height: 900 });
      await page.getByLabel("Host").selectOption("gz02");
      await page.getByText("No machine fits this filter").waitFor();
      await page.goto(`${one.url}/ui/machines/${made.uuid}`);
      await page.locator(".facts", { hasText: "gz01" }).waitFor();
      // A host that is gone is one still, and the list says so in words.
      await other.kill();
      await untilHost(one, "gz02", "away");
      await page.goto(`${one.url}/ui/jobs?host=${(await hostAt(one, "gz02")).uuid}`);
      await until("the filter to name the host", async () => {
        const chosen = page.getByLabel("Host").locator("option:checked");
        return await chosen.innerText() === "gz02, away";
      });
      await one.post(`/jobs/${job}/cancel`);
      await page.locator(".row", { hasText: "has not confirmed" }).waitFor();
      await browser.closePages();
    }, ["--media-dir", media]);
  });
}
