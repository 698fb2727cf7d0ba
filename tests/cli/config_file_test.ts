// `config init` and `config set`: what is written can be read, comments stay, and nothing wrong gets in.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { withSetting } from "../../src/config/toml.ts";
import { SETTING_ROWS, type SettingRow } from "../../src/config/settings.ts";
import { readConfig } from "../../src/config/sources.ts";
import { withFolder } from "../support/until.ts";
import { openScreen } from "./screen.ts";

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function run(...words: string[]): Promise<Ran> {
  return runWith({}, ...words);
}

async function runWith(env: Record<string, string>, ...words: string[]): Promise<Ran> {
  const screen = openScreen({ env });
  const code = await screen.run("config", ...words);
  return { code, out: screen.out(), err: screen.err() };
}

function read(path: string, text: string): ReturnType<typeof readConfig> {
  return readConfig({ flags: {}, env: {}, cwd: "/", os: "linux", file: { path, text } });
}

Deno.test("config init writes every setting as a comment, prints it for -, and replaces none", () =>
  withFolder(async (folder) => {
    const path = join(folder, "etc", "zonewright.toml");
    assertEquals(await run("init", path), { code: 0, out: `wrote ${path}\n`, err: "" });
    const text = await Deno.readTextFile(path);
    for (const { key } of SETTING_ROWS) {
      assert(new RegExp(`^# ${key}(?: =|:)`, "m").test(text), key);
    }
    for (const line of text.split("\n")) assert(/^(?:#|\[|$)/.test(line), line);
    assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o640);
    read(path, text.replaceAll(/^# (\w+ = )/gm, "$1"));
    assertEquals((await run("init", "-")).out, text);
    await Deno.writeTextFile(path, "# mine\n");
    const refused = await run("init", path);
    assertEquals([refused.code, refused.out], [6, ""]);
    assertStringIncludes(
      refused.err,
      `Cannot write ${path}: it exists, expected a new file, or --force`,
    );
    assertStringIncludes(refused.err, "hint: zonewright config set");
    assertEquals(await Deno.readTextFile(path), "# mine\n");
    assertEquals((await run("init", path, "--force")).out, `replaced ${path}\n`);
    assertEquals(await Deno.readTextFile(path), text);
  }));

const file = (text: string) => ({ path: "z.toml", text });

Deno.test("config set changes one line of what config init wrote, whatever the setting", () =>
  withFolder(async (folder) => {
    const path = join(folder, "zonewright.toml");
    await run("init", path);
    const text = await Deno.readTextFile(path);
    for (const row of SETTING_ROWS) {
      const changed = withSetting(file(text), row, '"x"').split("\n");
      const added = changed.filter((line) => !text.split("\n").includes(line));
      assertEquals(added, [`${row.key} = "x"`]);
      assertEquals(changed.length, text.split("\n").length + 1);
      assertEquals(changed.filter((line) => !added.includes(line)).join("\n"), text);
    }
  }));

const KEPT = `# Ours since 2024.
slots = 3   # four was too many
media_dir = [ # two
  "/a", # the first: "x = 1" # still
  "/b",
]   # end
host = "simulated#1" # not a comment inside

[limits]   # of this host
retry_max = 5

[policy]
`;

function row(name: string): SettingRow {
  const [key = "", table] = name.split(".").toReversed();
  return SETTING_ROWS.find((one) => one.key === key && one.table === (table ?? null)) as SettingRow;
}

Deno.test("config set keeps comments, blanks and the order of the file", () => {
  const cases: [string, string, string, string][] = [
    ["slots", "8", "slots = 3   # four was too many", "slots = 8   # four was too many"],
    [
      "media_dir",
      '["/c"]',
      'media_dir = [ # two\n  "/a", # the first: "x = 1" # still\n  "/b",\n]   # end',
      'media_dir = ["/c"]   # end',
    ],
    ["host", '"local"', 'host = "simulated#1" # not', 'host = "local" # not'],
    ["limits.retry_max", "20", "retry_max = 5", "retry_max = 20"],
    ["limits.tasks_max", "20", "retry_max = 5\n", "retry_max = 5\ntasks_max = 20\n"],
    ["policy.vcpus_max", "4", "[policy]\n", "[policy]\nvcpus_max = 4\n"],
    ["compat", '"document"', "inside\n\n[limits]", 'inside\ncompat = "document"\n\n[limits]'],
  ];
  for (const [name, value, before, after] of cases) {
    assert(KEPT.includes(before), before);
    assertEquals(withSetting(file(KEPT), row(name), value), KEPT.replace(before, after));
    const windows = KEPT.replaceAll("\n", "\r\n");
    assertEquals(
      withSetting(file(windows), row(name), value),
      KEPT.replace(before, after).replaceAll("\n", "\r\n"),
    );
  }
  assertEquals(withSetting(file(""), row("slots"), "8"), "slots = 8\n");
  assertEquals(
    withSetting(file("slots = 1\n"), row("limits.tasks_max"), "8"),
    "slots = 1\n\n[limits]\ntasks_max = 8\n",
  );
});

Deno.test("two commands that change the file at once lose neither change", () =>
  withFolder(async (folder) => {
    const path = join(folder, "zonewright.toml");
    const made = await Promise.all([run("init", path), run("init", path)]);
    assertEquals(made.map(({ code }) => code).toSorted(), [0, 6], made[1].err);
    const changes = [["slots", "3"], ["log_level", "debug"], ["keep_finished", "10d"]];
    const set = await Promise.all(changes.map((words) => run("set", ...words, "--config", path)));
    assertEquals(set.map(({ err }) => err), ["", "", ""]);
    const { slots, log_level, keep_finished } = read(path, await Deno.readTextFile(path));
    assertEquals([slots.value, log_level.value, keep_finished.value], [3, "debug", 864_000]);
    assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name), ["zonewright.toml"]);
  }));

Deno.test("config set says what puts the change in force, and what the value was", () =>
  withFolder(async (folder) => {
    const path = join(folder, "z.toml");
    await Deno.writeTextFile(path, "# a note\nslots = 3\n", { mode: 0o604 });
    const restart = await run("set", "--config", path, "slots", "8");
    assertEquals([restart.code, restart.err], [0, ""]);
    assertStringIncludes(restart.out, `${path}: slots = 8 (was 3)\na restart puts it in force: `);
    const reload = await run("set", "--config", path, "log_level", "debug");
    assertStringIncludes(reload.out, "a reload puts it in force: ");
    const json = await run("set", "--config", path, "policy.vcpus_max", "8", "--json");
    assertEquals(JSON.parse(json.out).in_force_after, "reload");
    const overridden = await runWith(
      { ZONEWRIGHT_SLOTS: "5" },
      "set",
      "--config",
      path,
      "slots",
      "8",
    );
    assertStringIncludes(overridden.out, `${path}: slots = 8 (was 8)\n`);
    assertEquals(overridden.err, "ZONEWRIGHT_SLOTS overrides the file here\n");
    const hidden = { ZONEWRIGHT_LISTEN: "127.0.0.1:0" };
    const wrong = await runWith(hidden, "set", "--config", path, "listen", "0.0.0.0:80");
    assertEquals(wrong.code, 2);
    assertStringIncludes(wrong.err, "is not a loopback address");
    const list = await run("set", "--config", path, "media-dir", "/a", "/b");
    assertEquals(list.code, 0, list.err);
    const text = await Deno.readTextFile(path);
    assertStringIncludes(text, "# a note\nslots = 8\n");
    assertEquals(read(path, text).media_dir.value, ["/a", "/b"]);
    assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o604);
  }));

Deno.test("config set refuses what an agent could not read, and writes nothing", () =>
  withFolder(async (folder) => {
    const path = join(folder, "z.toml");
    const text = "slots = 3\nlimits.retry_max = 5\n";
    await Deno.writeTextFile(path, text);
    const refused: [string[], number, string][] = [
      [["slots", "0"], 2, 'Cannot set slots: "0" is not an integer from 1 to 64'],
      [["slots", "1", "2"], 2, "Cannot set slots to 2 values, expected one"],
      [["slot", "1"], 2, 'Cannot find the setting "slot": did you mean "slots"?'],
      [["listen", "0.0.0.0:80"], 2, "is not a loopback address"],
      [["limits.tasks_max", "5"], 6, "Cannot change limits.tasks_max: it is not on a line"],
    ];
    for (const [words, code, why] of refused) {
      const said = await run("set", "--config", path, ...words);
      assertEquals([said.code, said.out], [code, ""], words.join(" "));
      assertStringIncludes(said.err, why);
      assertStringIncludes(said.err, "hint: zonewright config ");
      assertEquals(await Deno.readTextFile(path), text);
    }
    const broken: [string, string][] = [
      ["host = simulated\n", `${path}:1:8: a text needs quotes: found host = simulated, expected`],
      ["slots = 2\nslots = 3\n", `${path}:2:1: this is set above already, expected it once`],
    ];
    for (const [source, why] of broken) {
      await Deno.writeTextFile(path, source);
      const said = await run("set", "--config", path, "slots", "1");
      assertEquals([said.code, said.out], [2, ""]);
      assertStringIncludes(said.err, `Cannot change the configuration: ${why}`);
      assertEquals(await Deno.readTextFile(path), source);
    }
    const missing = await run("set", "--config", join(folder, "none"), "slots", "1");
    assertEquals(missing.code, 4);
    assertStringIncludes(missing.err, "hint: zonewright config init");
    assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name), ["z.toml"]);
  }));

Deno.test("config init and config set replace no folder, no device and no link to one", () =>
  withFolder(async (folder) => {
    const link = join(folder, "link");
    await Deno.symlink("/dev/null", link);
    const pipe = join(folder, "pipe");
    await new Deno.Command("mkfifo", { args: [pipe] }).output();
    const refused = [
      ["init", "--force", folder],
      ["init", "--force", link],
      ["set", "--config", link, "slots", "3"],
      ["set", "--config", folder, "slots", "3"],
      ["set", "--config", pipe, "slots", "3"],
    ];
    for (const words of refused) {
      const { code, out, err } = await run(...words);
      assertEquals([words, code, out], [words, 6, ""]);
      assert(/it is not a regular file|is a directory/.test(err), err);
    }
    assert((await Deno.lstat("/dev/null")).isCharDevice);
    assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name).sort(), ["link", "pipe"]);
  }));

Deno.test("config set follows a link to the file and leaves the link", () =>
  withFolder(async (folder) => {
    const path = join(folder, "z.toml");
    await Deno.writeTextFile(path, "slots = 3\n");
    await Deno.symlink("z.toml", join(folder, "link"));
    assertEquals((await run("set", "--config", join(folder, "link"), "slots", "4")).code, 0);
    assertEquals(await Deno.readTextFile(path), "slots = 4\n");
    assert((await Deno.lstat(join(folder, "link"))).isSymlink);
  }));
