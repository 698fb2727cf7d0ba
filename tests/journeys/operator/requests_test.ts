// The commonest requests of an operator, each answered by one command line of a running agent.

import { assert, assertEquals } from "@std/assert";
import { withOperator, wordsOf } from "./operator_agent.ts";

/** What is typed, and what standard output must match; `@` words as in operator_agent.ts. */
type Asked = readonly [request: string, typed: string, shows: RegExp];

const LOOKING: readonly Asked[] = [
  ["what failed today and why", "job list --failed --since today", /failed +copy +.*No space left/],
  ["why did it fail", "job why @failed", /error +No space left[^]*next: zonewright job retry/],
  ["why, by a part of its uuid", "job why @short", /error +No space left/],
  ["what did it log", "job why @failed", /\d\d:\d\d:\d\d copying/],
  ["all jobs", "job list", /UUID +STATE +NAME +TASK OR ERROR +DURATION +AGE/],
  ["what waits for its time", "job list --state queued", /queued +hello +starts in \d+ d/],
  ["states in the words of documents", "job list --state success", /succeeded +hello/],
  ["jobs of this day", "job list --since today", /copy/],
  ["jobs of a workflow", "job list --workflow hello", /hello/],
  ["jobs with a text", 'job list --search "no space"', /copy/],
  ["jobs since yesterday", "job list --since 1d --limit 1", /queued/],
  ["only uuids", "job list --columns uuid --limit 1", /^UUID\n[0-9a-f]{8}\n$/],
  ["jobs for a script", "job list --failed --json", /"error": "No space left"/],
  ["one job", "job get @done", /state +succeeded[^]*STEP +STATE/],
  ["what it returned", "job get @done", /\{"greeting":"hello"\}/],
  ["the whole document", "job get @done --full", /"chain_results"/],
  ["what it reported", "job info @failed", /copying/],
  ["how it ended", "job wait @done", /^succeeded\n$/],
  ["follow it to its end", "job tail @done", /./],
  ["how many jobs there are", "job stats", /last hour/],
  ["the same as curl", "job list --failed --curl", /^curl .*state=failed/],
  ["the agent", "status", /queued|unfinished/],
  ["its settings", "config show", /slots/],
  ["where a setting comes from", "config show --origin", /slots/],
  ["what the running agent has in force", "config show --running --origin", /dev +\S+ +--dev/],
  ["what is in force elsewhere", "config show --url @agent", /state_dir +@dir\/state/],
  ["that for a script", "config show --url @agent --json", /"dev": true/],
  [
    "a socket as a setting",
    "config show --socket a.sock --origin",
    /socket +@dir\/a.sock +--socket/,
  ],
  ["what the agent's doctor finds", "doctor --running --run state", /^ok +state +\S/],
  ["that for a script", "doctor --url @agent --run state --json", /"outcome": "ok"/],
  ["the call behind it", "doctor --running --curl", /^curl .*\/agent\/v1\/doctor\n$/],
  ["the settings as a file", "config init -", /slots/],
  ["the workflows", "workflow list", /hello/],
  ["those of the agent too", "workflow list --all", /provision-machine/],
  ["one workflow", "workflow get hello", /CHAIN +TASK/],
  ["is this workflow good", "workflow validate -f hello.json", /^$|hello/],
  ["the machines", "machine list", /UUID +ALIAS/],
  ["leftovers", "machine leftovers", /MACHINE +JOB/],
  ["my ISOs", "media list", /NAME +SIZE +KIND/],
  ["images of the index", "image find --limit 1", /DISTRO +RELEASE/],
  ["any call", "api GET /stats", /all_time/],
  ["what the interface is", "api GET /openapi.json", /"openapi"/],
  ["the version", "version", /zonewright/],
  ["help", "help job list", /--failed/],
  ["the manual", "man", /\.TH ZONEWRIGHT/],
];

const DOING: readonly Asked[] = [
  ["run a workflow", "job run hello", /^[0-9a-f-]{36}\n$/],
  ["run it and wait", "job run hello --wait", /state +succeeded[^]*\{"greeting":"hello"\}/],
  ["run it tonight", "job run hello --at +8h", /^[0-9a-f-]{36}\n$/],
  ["store a workflow", "workflow apply -f hello.json", /./],
  ["do it again", "job retry @failed", /^[0-9a-f-]{36}\n$/],
  ["stop it", "job cancel @later", /canceled/],
  ["take an ISO", "media upload small.iso", /small\.iso/],
  ["remove it", "media rm small.iso", /^$|small/],
  ["take one by another name", "media upload disc.iso --name boot.iso", /boot\.iso/],
  [
    "a machine, and its console",
    "machine create -f vm.json --iso boot.iso",
    /^machine +(\S+)\njob +\S+\nsee it +zonewright machine console \1\n$/,
  ],
];

Deno.test("each of the commonest requests is one command line", () =>
  withOperator(async (fill, screen) => {
    const requests = [...LOOKING, ...DOING];
    assert(requests.length >= 40);
    const faults: string[] = [];
    for (const [request, typed, shows] of requests) {
      const line = fill(typed);
      const one = screen();
      const code = await one.run(...wordsOf(line));
      const out = one.out();
      // A pattern has the folder as it is written here.
      const shown = out.replaceAll(fill("@dir"), "@dir");
      if (code === 0 && shows.test(shown)) continue;
      faults.push(`${request}: ${line} exits ${code}\n${out.slice(0, 400)}${one.err()}`);
    }
    assertEquals(faults.join("\n"), "");
  }));

Deno.test("the same requests with --json print JSON alone: a document, or an object a line", () =>
  withOperator(async (fill, screen) => {
    const faults: string[] = [];
    for (const [request, typed] of [...LOOKING, ...DOING]) {
      // These print texts for people or for a shell.
      if (typed.includes("--curl") || /^(?:man|help|config init -)/.test(typed)) continue;
      const line = fill(typed);
      const one = screen();
      const code = await one.run(...wordsOf(line), ...(line.includes("--json") ? [] : ["--json"]));
      if (code === 0 && isJson(one.out())) continue;
      faults.push(`${request}: ${line} exits ${code}\n${one.out().slice(0, 400)}${one.err()}`);
    }
    assertEquals(faults.join("\n"), "");
  }));

function isJson(text: string): boolean {
  const parses = (part: string) => {
    try {
      return typeof JSON.parse(part) === "object";
    } catch {
      return false;
    }
  };
  return parses(text) || text.trimEnd().split("\n").every(parses);
}
