// New machine in a browser: from an upload to a key that its screen echoes; the form and its JSON; refusals at their
// fields; and an order whose answer was cut.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import type { Page } from "playwright-core";
import { type JsonObject } from "../../src/domain/json.ts";
import { DESCRIPTION, ISO, type MachineAgent, withMachineAgent } from "../http/machine_process.ts";
import { programOfRun } from "../support/agent_process.ts";
import { isoBytes } from "../support/medium.ts";
import { until } from "../support/until.ts";
import { newToken, withAgent } from "./agent.ts";
import {
  browserTest,
  DEADLINE_MS,
  expectSoundAtAllWidths,
  findings,
  type OpenBrowser,
} from "./browser.ts";

const NAME = "web1";
/** The browser names each refusal on its console. */
const REFUSED = /status of 409|net::ERR_/;

/** Notes every title that the page has: one may be gone before it is looked for. */
const NOTE_TITLES = `
  globalThis.titles = [];
  new MutationObserver(() => {
    const title = document.querySelector("h1")?.textContent ?? "";
    if (titles.at(-1) !== title) titles.push(title);
  }).observe(document, { subtree: true, childList: true, characterData: true });`;

/** An agent that ends after the pages. */
function withHost(
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

function field(page: Page, label: string) {
  return page.getByLabel(label, { exact: true });
}

async function requestOf(page: Page): Promise<JsonObject> {
  return JSON.parse(await field(page, "Request as JSON").inputValue());
}

async function machinesOf(agent: MachineAgent): Promise<JsonObject[]> {
  const answer = await fetch(`${agent.url}/agent/v1/machines`);
  return await answer.json();
}

browserTest(
  "an upload becomes a machine whose screen echoes a key, in one tab",
  (browser) =>
    withHost(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/machines`);
      await page.getByRole("main").getByRole("link", { name: "New machine" }).click();
      await field(page, "Name").fill(NAME);
      await field(page, "Memory, MiB").fill("256");
      await field(page, "Size, MiB of disk 0").fill("1024");
      await field(page, "Upload a file").check();
      const buffer = Buffer.from(isoBytes(200_000));
      const file = { name: "debian-13.iso", mimeType: "application/octet-stream", buffer };
      await page.locator("input[type=file]").setInputFiles([file]);
      await page.locator(`[id="field-media.path"] option:checked`, { hasText: "debian-13.iso" })
        .waitFor({ state: "attached" });
      assertEquals((await requestOf(page)).media, { path: "debian-13.iso" });
      await page.getByRole("button", { name: "Check", exact: true }).click();
      await page.getByText("It boots debian-13.iso, 195 KiB").waitFor();
      assertEquals(await machinesOf(agent), []);
      await page.evaluate(NOTE_TITLES);
      await page.getByRole("button", { name: `Create ${NAME}` }).dblclick();
      await page.locator(".screen-state-connected").waitFor();
      const titles = await page.evaluate("globalThis.titles") as string[];
      assert(titles.some((title) => title.startsWith(`Making ${NAME}`)), titles.join());
      const [machine, ...others] = await machinesOf(agent);
      assertEquals(others, []);
      assertEquals(new URL(page.url()).pathname, `/ui/machines/${machine?.uuid}`);
      const picture = () =>
        page.evaluate("document.querySelector('.screen canvas').toDataURL()") as Promise<string>;
      await until("the screen to be drawn", async () => (await picture()).length > 1_000);
      const before = await picture();
      await page.getByRole("button", { name: "Type" }).click();
      await page.keyboard.type("q");
      await until("the key to be echoed", async () => await picture() !== before);
      // The draft has gone with its machine.
      await page.goto(`${agent.url}/ui/new`);
      await field(page, "Name").waitFor();
      assertEquals(await field(page, "Name").inputValue(), "");
    }),
);

browserTest(
  "the form and its JSON change each other, and neither loses what it does not know",
  (browser) =>
    withHost(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/new?path=${ISO}`);
      const json = field(page, "Request as JSON");
      const file = field(page, "File");
      await file.waitFor();
      await until("the file", async () => await file.inputValue() === ISO);
      // The link is used up: what is chosen later stays after a reload.
      assertEquals(new URL(page.url()).search, "");
      const request = {
        note: { kept: [1, { two: null }] },
        machine: { ...DESCRIPTION, zfs_io_priority: 7, alias: NAME },
        media: { path: ISO },
      };
      await json.fill(JSON.stringify(request));
      assertEquals(await field(page, "Name").inputValue(), NAME);
      await field(page, "Name").fill("web2");
      await field(page, "Resolvers").fill("192.0.2.1");
      await field(page, "Resolvers").pressSequentially(", 192.0.2.2");
      await page.getByRole("button", { name: "Add a disk" }).click();
      await page.getByRole("radio", { name: "Boots: disk 1" }).check();
      await page.getByRole("button", { name: "Remove disk 0" }).click();
      await field(page, "Brand").selectOption("bhyve");
      await field(page, "Boot ROM").selectOption("uefi");
      const { note, machine } = await requestOf(page);
      const { brand, alias, zfs_io_priority, disks, bootrom, resolvers } = machine as JsonObject;
      assertEquals(note, request.note);
      assertEquals([brand, alias, zfs_io_priority, bootrom], ["bhyve", "web2", 7, "uefi"]);
      assertEquals(disks, [{ model: "virtio", size: 10_240, boot: true }]);
      assertEquals(resolvers, ["192.0.2.1", "192.0.2.2"]);

      await json.fill('{\n  "machine": {\n    "brand": "kvm" "ram": 1\n  }\n}');
      await page.getByText('Line 3, column 20: found "\\"", expected a comma or }').waitFor();
      assertEquals(await field(page, "Name").inputValue(), "web2");
      assert(await field(page, "Name").isDisabled());
      assert(await page.getByRole("button", { name: "Check", exact: true }).isDisabled());
      await json.fill('{"machine": {"disks": {}}}');
      await page.getByText('Expected a list of objects under "machine.disks"').waitFor();
      await page.getByRole("button", { name: "Back to the last" }).click();
      assert(await field(page, "Name").isEnabled());
      assertEquals((await requestOf(page)).note, request.note);
      // Also when it is left and opened again.
      await page.getByRole("link", { name: "Library" }).click();
      await page.getByRole("link", { name: `New machine from ${ISO}` }).click();
      assertEquals(await field(page, "Name").inputValue(), "web2");

      await page.getByText("The same from a terminal").click();
      const [cli = "", curl = ""] = await page.locator(".command code").allInnerTexts();
      assert(cli.startsWith("zonewright machine create -f - --follow"), cli);
      assertStringIncludes(cli, `<<'JSON'\n{`);
      assertStringIncludes(curl, "-H 'idempotency-key: ");
    }),
);

browserTest(
  "refusals are shown at their fields, and disappear once these are valid",
  (browser) =>
    withHost(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/new?path=${ISO}`, {
        tolerated: REFUSED,
      });
      await field(page, "Memory, MiB").fill("0");
      await field(page, "IP address of net0").selectOption("fixed");
      await page.getByRole("button", { name: "Check", exact: true }).click();
      const error = (path: string) => page.locator(`[id="field-${path}-error"]`);
      assertStringIncludes(await error("machine.ram").innerText(), "must be an integer from 1");
      assertStringIncludes(
        await error("machine.nics[0].ip").innerText(),
        "must be an IPv4 address",
      );
      await page.getByRole("button", { name: "Show machine.ram" }).click();
      await page.locator(`[id="field-machine.ram"]:focus`).waitFor();
      assertEquals(await findings(page), []);
      await page.keyboard.press("Control+A");
      await page.keyboard.type("256");
      await field(page, "IP address of net0").selectOption("by DHCP");
      await field(page, "Network of net0").selectOption("admin");
      // The answer comes without another click.
      await page.getByText("nothing was created").waitFor();
      await field(page, "From a URL").check();
      await field(page, "URL").fill("https://images.example.com/a.iso");
      await error("media.digest").waitFor();
      await field(page, "From the library").check();
      await page.getByText("nothing was created").waitFor();
      assertEquals(await field(page, "File").inputValue(), ISO);
      assertEquals(await machinesOf(agent), []);
    }),
);

browserTest(
  "an order whose answer was cut is sent again, and makes one machine",
  (browser) =>
    withHost(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/new?path=${ISO}`, {
        tolerated: REFUSED,
      });
      const keys: (string | undefined)[] = [];
      await page.route("**/agent/v1/machines", async (route) => {
        const request = route.request();
        if (request.method() !== "POST") return await route.continue();
        keys.push(request.headers()["idempotency-key"]);
        // The agent takes it; its answer does not arrive.
        const answer = await route.fetch({ timeout: DEADLINE_MS });
        if (keys.length === 1) await route.abort("connectionreset");
        else await route.fulfill({ response: answer });
      });
      await field(page, "Name").fill(NAME);
      await field(page, "Memory, MiB").fill("256");
      await field(page, "Size, MiB of disk 0").fill("1024");
      await page.getByRole("button", { name: `Create ${NAME}` }).click();
      await page.locator(".screen-state-connected").waitFor();
      assertEquals([keys.length, new Set(keys).size], [2, 1]);
      assertEquals((await machinesOf(agent)).length, 1);
    }),
);

browserTest(
  "a machine that cannot be made shows the reason, and the form has its request again",
  (browser) =>
    withHost(browser, async (agent) => {
      await agent.simulate("fault", "start_failure", "9");
      const { page } = await browser.open(`${agent.url}/ui/new?path=${ISO}`);
      await field(page, "Name").fill(NAME);
      await page.getByRole("button", { name: `Create ${NAME}` }).click();
      await page.locator("h1 .state-failed").waitFor();
      assertStringIncludes(await page.locator(".banner-bad").innerText(), "Failed in");
      await page.getByRole("link", { name: "Change the request" }).click();
      assertEquals(await field(page, "Name").inputValue(), NAME);
    }),
);

browserTest(
  "New machine has no serious finding in any state, and none is wider than its window",
  (browser) =>
    withHost(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/new`);
      const check = (what: string) => expectSoundAtAllWidths(page, what);
      await field(page, "File").waitFor();
      await field(page, "IP address of net0").selectOption("fixed");
      await check("form");
      for (const way of ["Upload a file", "From the index", "From a URL"]) {
        await field(page, way).check();
        await check(way);
      }
      await field(page, "From the library").check();
      await field(page, "File").selectOption(ISO);
      await field(page, "IP address of net0").selectOption("by DHCP");
      await field(page, "Name").fill(NAME);
      await page.getByRole("button", { name: "Check", exact: true }).click();
      await page.getByText("nothing was created").waitFor();
      await check("possible");
      await page.getByText("The same from a terminal").click();
      await check("commands");
      await field(page, "Request as JSON").fill("{");
      await page.getByText("Line 1, column 2: found the end").waitFor();
      await check("broken");
    }),
);

browserTest(
  "neither Enter nor the dialog of a file makes a machine",
  (browser) =>
    withHost(browser, async (agent) => {
      const path = "/agent/v1/media/library/debian-13.iso";
      await fetch(agent.url + path, { method: "PUT", body: isoBytes(120_000) });
      const { page } = await browser.open(`${agent.url}/ui/new?path=${ISO}`);
      await field(page, "Name").fill(NAME);
      await page.keyboard.press("Enter");
      await page.getByText("nothing was created").waitFor();
      await field(page, "Upload a file").check();
      const mimeType = "application/octet-stream";
      const file = { name: "debian-13.iso", mimeType, buffer: Buffer.from(isoBytes(240_000)) };
      await page.locator("input[type=file]").setInputFiles([file]);
      await page.getByRole("button", { name: "Replace debian-13.iso" }).click();
      await page.getByText("It boots debian-13.iso, 234 KiB").waitFor();
      assertEquals(await machinesOf(agent), []);
    }),
);

browserTest(
  "an image of the index is chosen among the newest",
  (browser) =>
    withAgent(browser, async (agent) => {
      await agent.post("/agent/v1/index/sync", {});
      await until("the index", async () => {
        const { images } = (await agent.get("/agent/v1/images?format=iso")).body;
        return Array.isArray(images) && images.length > 0;
      });
      const { page } = await browser.open(`${agent.url}/ui/new`);
      await field(page, "From the index").check();
      const choice = field(page, "Image, newest first");
      await page.getByRole("searchbox").fill("iso");
      await choice.selectOption({ index: 1 });
      const { media } = await requestOf(page);
      const { artifact } = media as JsonObject;
      const { distro, format, arch } = artifact as JsonObject;
      assertEquals([distro, format, arch], ["zonewright-sample", "iso", "x86_64"]);
      await page.getByRole("button", { name: "Check", exact: true }).click();
      await page.getByText("nothing was created").waitFor();
      // A link names the release by an alias, and no build.
      await page.goto(`${agent.url}/ui/new?distro=zonewright-sample&release=latest&format=iso`);
      await page.waitForURL("**/ui/new");
      assertStringIncludes(await choice.locator("option:checked").innerText(), "zonewright-sample");
    }, "--dev"),
);

browserTest(
  "the form offers what the policy and the networks of the host allow",
  (browser) =>
    withAgent(
      browser,
      async (agent) => {
        const { page } = await browser.open(`${agent.url}/ui/new`);
        const wordsOf = (label: string) => field(page, label).locator("option").allInnerTexts();
        await field(page, "Brand").waitFor();
        assertEquals(await wordsOf("Brand"), ["bhyve"]);
        assertEquals(await wordsOf("Network of net0"), ["external"]);
        await page.getByText("at most 2").waitFor();
        await page.getByText("The policy allows 1.").first().waitFor();
        assert(await page.getByRole("button", { name: "Add a disk" }).isDisabled());
        assert(await page.getByRole("button", { name: "Add a nic" }).isEnabled());
        const { brand, nics } = (await requestOf(page)).machine as JsonObject;
        assertEquals([brand, (nics as JsonObject[])[0]?.nic_tag], ["bhyve", "external"]);
      },
      ..."--allow-brand bhyve --vcpus-max 2 --disks-max 1 --allow-nic-tag external".split(" "),
    ),
);

browserTest(
  "a read token is shown how to make a machine, and has no form",
  (browser) =>
    withAgent(browser, async (agent) => {
      const token = await newToken(agent, "looker", "read");
      const { page } = await browser.open(`${agent.url}/ui/new`);
      await field(page, "Token").fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("This token may only read").waitFor();
      assertEquals(await page.locator("form").count(), 0);
      assertEquals(await page.getByRole("link", { name: "New machine" }).count(), 0);
    }, "--require-token"),
);
