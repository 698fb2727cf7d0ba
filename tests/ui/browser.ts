// A browser that looks at an agent's console, as a person would. What a page must never do is noted all the time:
// errors on its console, breaches of its policy, and requests to another host.

import { assertEquals } from "@std/assert";
import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { PACKED_UI, packUi } from "../../vendors/ui.ts";
import { programOfRun } from "../support/agent_process.ts";
import { explained, onFailure } from "../support/failure.ts";
import { findProgram, programTest } from "../support/program.ts";
import { withDeadline } from "../support/until.ts";

const BROWSER = "chromium";
/** Milliseconds in which what a test waits for has to come. */
export const DEADLINE_MS = 180_000;
/** Milliseconds in which a page says what it shows: one that hangs does not say it. */
const SHOWN_MS = 5_000;
/** Characters of that. */
const SHOWN_CHARACTERS = 1_500;

/** A page, what it should not have done so far, and what it showed at last. */
interface WatchedPage {
  readonly page: Page;
  readonly faults: string[];
  shown: string;
}

/** How a page is opened. */
export interface OpenOptions extends BrowserContextOptions {
  /** What the browser may note on its console, at any time: refusals and cuts that the test brings about. */
  readonly tolerated?: RegExp;
}

/** Opens pages of one browser. */
export interface OpenBrowser {
  open(url: string, options?: OpenOptions): Promise<{ readonly page: Page }>;
  /** Closes every page: one that outlives its agent would look for it. */
  closePages(): Promise<void>;
}

/** The browser of a file of tests, from its first test to its last. */
let launched: Browser | undefined;

/** Registers a test that needs the browser; at its end no page may have a fault. */
export function browserTest(name: string, fn: (browser: OpenBrowser) => Promise<void>): void {
  if (!isRegistered) registerBrowser();
  programTest(BROWSER, name, () => explained(() => withPages(fn)));
}

let isRegistered = false;

function registerBrowser(): void {
  isRegistered = true;
  Deno.test.beforeAll(async () => {
    // The binary and the file for Node carry theirs.
    if (programOfRun().name === "source") await packUi(PACKED_UI);
    const executablePath = findProgram(BROWSER);
    if (executablePath === undefined) return; // its tests are skipped, or say so
    // The sandbox of the browser needs a user of its own; it only sees pages of these tests.
    const args = ["--no-sandbox"];
    launched = await chromium.launch({ executablePath, args, timeout: DEADLINE_MS });
  });
  Deno.test.afterAll(() => launched?.close());
}

/** Addresses of single things, which may go while a page shows them. */
const GONE = /\/agent\/v1\/(?:machines|jobs)\/[0-9a-f-]{36}$/;

/** Runs with pages that share nothing with those of other tests. */
async function withPages(fn: (browser: OpenBrowser) => Promise<void>): Promise<void> {
  const browser = launched;
  if (browser === undefined) throw new Error(`${BROWSER} went away`);
  const opened: WatchedPage[] = [];
  const closePages = async () => {
    await Promise.all(opened.map(noteShown));
    // A browser that has crashed has none any more; what the test waited for says so.
    await Promise.allSettled(browser.contexts().map((context) => context.close()));
  };
  try {
    await fn({
      async open(url, { tolerated, ...options } = {}) {
        const context = await browser.newContext(options);
        context.setDefaultTimeout(DEADLINE_MS);
        const watched = { page: await context.newPage(), faults: [], shown: "" };
        watch(watched, new URL(url).origin, tolerated);
        opened.push(watched);
        onFailure(() => accountOf(watched));
        await watched.page.goto(url);
        return watched;
      },
      closePages,
    });
  } finally {
    await closePages();
  }
  assertEquals(opened.flatMap(({ faults }) => faults), []);
}

/** Notes what a page shows while it is open. */
async function noteShown(watched: WatchedPage): Promise<void> {
  const { page } = watched;
  if (page.isClosed()) return;
  const asking = page.evaluate("document.body.innerText") as Promise<string>;
  const text = await withDeadline(asking, SHOWN_MS, () => "the text of a page").catch(String);
  const words = text.trim().replaceAll(/\s*\n\s*/g, " | ").slice(0, SHOWN_CHARACTERS);
  watched.shown = `${page.url()} showed: ${words}`;
}

function accountOf({ shown, faults }: WatchedPage): string {
  return [shown, ...faults.map((fault) => `The page's console: ${fault}`)].join("\n");
}

function watch({ page, faults }: WatchedPage, origin: string, tolerated?: RegExp): void {
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    // The browser notes each 404; a page that asks for what has just been removed tells its user.
    if (message.text().includes("404") && GONE.test(message.location().url)) return;
    const words = `${message.text()} ${message.location().url}`;
    if (tolerated?.test(words) !== true) faults.push(words);
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(origin) && !url.startsWith("data:")) faults.push(`request to ${url}`);
  });
}

const DESK = 1280;
/** Widths of a phone, a desk and a wall, in pixels. */
export const WIDTHS = [390, DESK, 2560] as const;
const HEIGHT = 900;
/** Widths between those, at both sides of where the layout changes. */
const WIDTHS_BETWEEN = [
  600,
  860,
  861,
  1000,
  1001,
  1100,
  1101,
  1180,
  1181,
  1240,
  1241,
  1261,
] as const;
/** Whether the page fits its window, and what stands in a line its box; what is cut off there cannot be scrolled to. */
const FITS = `document.documentElement.scrollWidth <= innerWidth &&
  [...document.querySelectorAll(".row, .card, .job-line, .upload-line, .checks li, .settings li")]
    .every(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth + 1)`;

/**
 * Expects in both schemes and at each width that the page fits its window and has no serious finding. A scheme changes
 * colours alone, and no part of a page looks different beyond the width of a desk.
 */
export async function expectSoundAtAllWidths(page: Page, what: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    // A colour that is on its way to another has a contrast of its own.
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: HEIGHT });
      const rules = axeRules(colorScheme === "light", width <= DESK);
      const serious = rules === undefined ? [] : await findings(page, rules);
      const found = [what, colorScheme, width, await page.evaluate(FITS), serious];
      assertEquals(found, [what, colorScheme, width, true, []]);
    }
  }
  for (const width of WIDTHS_BETWEEN) {
    await page.setViewportSize({ width, height: HEIGHT });
    assertEquals([what, width, await page.evaluate(FITS)], [what, width, true]);
  }
}

/** What is to be looked for, the first scheme being that for all but colours; undefined for nothing. */
function axeRules(isFirstScheme: boolean, hasNewColours: boolean): axe.RunOptions | undefined {
  const ofColours = { type: "rule" as const, values: ["color-contrast", "link-in-text-block"] };
  if (!isFirstScheme) return hasNewColours ? { runOnly: ofColours } : undefined;
  return hasNewColours ? {} : { rules: { "color-contrast": { enabled: false } } };
}

/** What axe-core finds that is serious or worse, as `rule: element`. */
export async function findings(page: Page, rules: axe.RunOptions = {}): Promise<string[]> {
  if (await page.evaluate("typeof axe") === "undefined") await page.evaluate(axe.source);
  const options: axe.RunOptions = { resultTypes: ["violations"], ...rules };
  const looking = page.evaluate(`axe.run(${JSON.stringify(options)})`);
  // An evaluation has no time limit of its own.
  const found = await withDeadline(looking, DEADLINE_MS, () => `axe on ${page.url()}`) as {
    violations: { id: string; impact: string; nodes: { html: string }[] }[];
  };
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`));
}
