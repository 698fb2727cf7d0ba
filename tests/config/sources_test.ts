import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type Config, SETTING_ROWS } from "../../src/config/settings.ts";
import {
  configLines,
  type ConfigSources,
  flagWords,
  loadConfig,
  originText,
  readConfig,
} from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";
import { VERSION } from "../../src/runtime/executable.ts";
import { withFolder } from "../support/until.ts";

function read(sources: Partial<ConfigSources> = {}): Config {
  return readConfig({ flags: {}, env: {}, cwd: "/here", os: "linux", ...sources });
}

function file(text: string): ConfigSources["file"] {
  return { path: "/etc/zonewright/zonewright.toml", text };
}

/** The messages of a configuration that is refused. */
function problems(sources: Partial<ConfigSources>): string[] {
  const error = assertThrows(() => read(sources), AgentError);
  assertEquals(error.code, "invalid_argument");
  return error.errors.map((one) => one.message);
}

Deno.test("readConfig() fills in the defaults of a Linux host", () => {
  const config = read();
  assertEquals(config.state_dir, {
    value: "/var/lib/zonewright",
    origin: { kind: "default" },
  });
  assertEquals(config.listen.value, { hostname: "127.0.0.1", port: 8780 });
  assertEquals(config.host.value, { kind: "local" });
  assertEquals(config.vmadm.value, "/usr/sbin/vmadm");
  assertEquals([config.socket.value, config.index.value], [null, null]);
  assertEquals(config.compat.value, "document");
  assert(config.limits.body_bytes_max.value >= 1_048_576 + 1024);
});

Deno.test("readConfig() keeps state where illumos keeps files over a reboot", () => {
  assertEquals(read({ os: "illumos" }).state_dir.value, "/opt/custom/zonewright");
});

Deno.test("readConfig() with dev simulates the host and works below the current folder", () => {
  const config = read({ flags: { dev: true } });
  assertEquals(config.host, {
    value: { kind: "simulated", name: "simulated" },
    origin: { kind: "default" },
  });
  assertEquals(config.state_dir.value, "/here/run");
});

Deno.test("readConfig() prefers flags to variables, variables to the file, the file to the default", () => {
  const toml = file('slots = 5\nlog_level = "debug"\nvmadm = "/file/vmadm"\n');
  const env = { ZONEWRIGHT_SLOTS: "6", ZONEWRIGHT_LOG_LEVEL: "warn" };
  const config = read({ flags: { slots: "7" }, env, file: toml });
  assertEquals([config.slots.value, originText(config.slots.origin)], [7, "--slots"]);
  assertEquals(
    [config.log_level.value, originText(config.log_level.origin)],
    ["warn", "ZONEWRIGHT_LOG_LEVEL"],
  );
  assertEquals(
    [config.vmadm.value, originText(config.vmadm.origin)],
    ["/file/vmadm", "/etc/zonewright/zonewright.toml"],
  );
  assertEquals(originText(config.zones.origin), "default");
});

Deno.test("readConfig() reads limits from their table, their flags and their variables", () => {
  const config = read({
    flags: { "tasks-max": "11" },
    env: { ZONEWRIGHT_RETRY_MAX: "12" },
    file: file("[limits]\nbody_bytes_max = 4096\ntasks_max = 10\n"),
  });
  assertEquals(config.limits.tasks_max.value, 11);
  assertEquals(config.limits.retry_max.value, 12);
  assertEquals(config.limits.body_bytes_max.value, 4096);
});

Deno.test("readConfig() resolves a relative path where it was written", () => {
  const config = read({
    flags: { "media-dir": ["iso", "/other"] },
    file: file('state_dir = "state"\n'),
  });
  assertEquals(config.media_dir.value, ["/here/iso", "/other"]);
  assertEquals(config.state_dir.value, "/etc/zonewright/state");
});

Deno.test("readConfig() splits lists in variables", () => {
  const env = { ZONEWRIGHT_MEDIA_DIR: "/a:/b", ZONEWRIGHT_ALLOW_HOST: "one.example,two.example" };
  const config = read({ env });
  assertEquals(config.media_dir.value, ["/a", "/b"]);
  assertEquals(config.allow_host.value, ["one.example", "two.example"]);
});

Deno.test("readConfig() reads hosts, addresses and times", () => {
  assertEquals(read({ flags: { host: "ssh://root@gz:2222" } }).host.value, {
    kind: "ssh",
    destination: "root@gz",
    port: 2222,
  });
  assertEquals(read({ flags: { host: "ssh://gz.example.org" } }).host.value, {
    kind: "ssh",
    destination: "gz.example.org",
    port: 22,
  });
  const ssh = { "ssh-identity": "keys/id", "ssh-known-hosts": "/etc/known_hosts" };
  const { ssh_identity, ssh_known_hosts } = read({ flags: ssh });
  assertEquals([ssh_identity.value, ssh_known_hosts.value], ["/here/keys/id", "/etc/known_hosts"]);
  assertEquals(read({ flags: { listen: "[::1]:0" } }).listen.value, { hostname: "::1", port: 0 });
  assertEquals(read({ flags: { listen: "off", socket: "/s" } }).listen.value, null);
  assertEquals(read({ flags: { "index-interval": "2h" } }).index_interval.value, 7200);
  assertEquals(read({ flags: { "index-interval": "off" } }).index_interval.value, 0);
  assertEquals(read({ flags: { index: "https://a.example/" } }).index.value, "https://a.example");
  assertEquals(read({ flags: { index: "tree" } }).index.value, "/here/tree");
});

Deno.test("readConfig() names the nearest key, variable and flag for an unknown one", () => {
  assertEquals(problems({ file: file("lisen = 1\n") }), [
    '/etc/zonewright/zonewright.toml: unknown key "lisen": did you mean "listen"?',
  ]);
  assertEquals(problems({ file: file("[limits]\ntask_max = 1\n") }), [
    '/etc/zonewright/zonewright.toml [limits]: unknown key "task_max": did you mean "tasks_max"?',
  ]);
  assertEquals(problems({ env: { ZONEWRIGHT_STATEDIR: "/x" } }), [
    'unknown variable "ZONEWRIGHT_STATEDIR": did you mean "ZONEWRIGHT_STATE_DIR"?',
  ]);
  assertEquals(problems({ flags: { slot: "1" } }), [
    'unknown flag "--slot": did you mean "--slots"?',
  ]);
  assertEquals(problems({ flags: { host: "simulate" } }), [
    '--host: "simulate" is not one of local, simulated, simulated:NAME and ssh://[user@]host[:port]: ' +
    'did you mean "simulated"?',
  ]);
});

Deno.test("readConfig() refuses values with where they came from and what was expected", () => {
  assertEquals(problems({ flags: { slots: "0" } }), [
    '--slots: "0" is not an integer from 1 to 64',
  ]);
  assertEquals(problems({ env: { ZONEWRIGHT_DEV: "yes" } }), [
    'ZONEWRIGHT_DEV: "yes" is not true or false',
  ]);
  assertEquals(problems({ file: file("slots = 1.5\n") }), [
    "/etc/zonewright/zonewright.toml: slots: 1.5 is not an integer from 1 to 64",
  ]);
  for (
    const flags of [
      { listen: "8780" },
      { listen: "127.0.0.1:70000" },
      { "log-level": "loud" },
      { host: "ssh://" },
      { host: "ssh://-oProxyCommand=x" },
      { host: "ssh://-x@gz" },
      { host: "ssh://gz:0" },
      { host: "ssh://gz:70000" },
      { host: "ssh://gz/zones" },
      { host: "ssh://user:word@gz" },
      { index: "ftp://a.example" },
      { index: "https://user:word@a.example" },
      { "index-interval": "5s" },
      { "state-dir": "" },
      { compat: "restify" },
      { "allow-host": ["a.example:80"] },
    ]
  ) assertEquals(problems({ flags }).length, 1);
});

Deno.test("readConfig() repeats no password and no query of an address that it refuses", () => {
  const refusals = [
    { flags: { store: "postgresql://agent:hunter2@db.example/fleet" } },
    { flags: { store: "postgres://agent:hun/ter2@db.example/fleet" } },
    { flags: { store: "postgresql://db.example/fleet?password=hunter2" } },
    { flags: { host: "ssh://root:hunter2@gz" } },
    { flags: { index: `ftp://${"m".repeat(80)}:hunter2@a.example` } },
    { file: file("store = postgres://agent:hunter2@db.example/fleet") },
    { file: file('store: "postgres://agent:hunter2@db.example/fleet"') },
  ];
  for (const refused of refusals) {
    const [message = ""] = problems(refused);
    assert(!/hun.?ter2|m{9}/.test(message), message);
    assert(message.includes("***"), message);
  }
});

Deno.test("readConfig() refuses to listen beyond loopback", () => {
  for (const listen of ["0.0.0.0:8780", "[::]:8780", "192.0.2.7:8780", "gz.example:8780"]) {
    const [message] = problems({ flags: { listen } });
    assert(message?.includes("is not a loopback address"), message);
  }
});

Deno.test("readConfig() refuses an index without TLS unless it is allowed", () => {
  const index = "http://a.example";
  assertEquals(problems({ flags: { index } }).length, 1);
  const config = read({ flags: { index, "allow-http-index": true } });
  assertEquals(config.index.value, index);
});

Deno.test("readConfig() refuses an agent without any listener", () => {
  assertEquals(problems({ flags: { listen: "off" } }).length, 1);
});

Deno.test("readConfig() reports every problem at once, and each only once", () => {
  const found = problems({
    flags: { slots: "many", dev: "perhaps" },
    env: { ZONEWRIGHT_X: "1" },
    file: file('limits = 3\nlog_format = "xml"\n'),
  });
  assertEquals(found.length, 5);
});

Deno.test("readConfig() does not take flags such as constructor for settings", () => {
  assertEquals(read({ flags: Object.create({ slots: "0" }) }).slots.value, 4);
});

Deno.test("every setting has a flag and a key of its own", () => {
  const { length } = SETTING_ROWS;
  assertEquals(new Set(SETTING_ROWS.map((row) => row.flag)).size, length);
  assertEquals(new Set(SETTING_ROWS.map((row) => row.variable)).size, length);
});

Deno.test("loadConfig() reads the file that a flag or a variable names", () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/z.toml`, "slots = 9\n");
    const base = { env: {}, cwd: folder, os: "linux" };
    const byFlag = await loadConfig({ ...base, flags: { config: "z.toml" } });
    assertEquals(byFlag.slots, { value: 9, origin: { kind: "file", path: `${folder}/z.toml` } });
    const env = { ZONEWRIGHT_CONFIG: `${folder}/z.toml` };
    assertEquals((await loadConfig({ ...base, flags: { dev: true }, env })).slots.value, 9);
  }));

Deno.test("loadConfig() refuses a missing file that was named", () =>
  withFolder(async (folder) => {
    const sources = { flags: { config: "none.toml" }, env: {}, cwd: folder, os: "linux" };
    const error = await assertRejects(() => loadConfig(sources), AgentError);
    assertEquals(error.code, "not_found");
  }));

Deno.test("VERSION is the version of deno.json", async () => {
  const text = await Deno.readTextFile(new URL("../../deno.json", import.meta.url));
  assertEquals(JSON.parse(text).version, VERSION);
});

Deno.test("readConfig() reads callback hosts as URLs write them, and refuses anything else", () => {
  const hosts = ["127.0.0.1:9000", "hooks.example.org", "b.example.org:443", "c.example.org:80"];
  assertEquals(read({ flags: { "callback-host": hosts } }).callback_host.value, hosts);
  for (const host of ["http://a", "a/b", "A.example.org", "user@host", "host:080"]) {
    assertEquals(problems({ flags: { "callback-host": [host] } }).length, 1, host);
  }
});

Deno.test("readConfig() reads a failpoint, and refuses one that names no write", () => {
  const config = read({ flags: { failpoint: "job_record:2:after" } });
  assertEquals(config.failpoint.value, { write: "job_record", count: 2, when: "after" });
  for (const text of ["job_record", "job_record:0:after", "job_record:1:during", "Job:1:before"]) {
    assertEquals(problems({ flags: { failpoint: text } }).length, 1, text);
  }
});

Deno.test("readConfig() reads how long finished jobs are kept", () => {
  assertEquals(read().keep_finished.value, 90 * 86_400);
  assertEquals(read({ flags: { "keep-finished": "7d" } }).keep_finished.value, 7 * 86_400);
  assertEquals(read({ flags: { "keep-finished": "off" } }).keep_finished.value, 0);
});

Deno.test("flagWords() returns flags that produce the same configuration", () => {
  const config = read({
    flags: { dev: true, "media-dir": ["/a", "/b"] },
    env: { ZONEWRIGHT_ALLOW_HOST: "a.example.com,b.example.com", ZONEWRIGHT_SLOTS: "7" },
    file: file(
      'listen = "off"\nsocket = "/run/z.sock"\nhost = "ssh://root@gz:2222"\ncache_max = 12345\n' +
        'index_interval = "off"\n[policy]\nforbid_property = ["quota", "nics.mac"]\n',
    ),
  });
  const [first, ...words] = flagWords(config);
  assertEquals(first, "--config=/etc/zonewright/zonewright.toml");
  const flags: Record<string, string | string[] | boolean> = {};
  for (const word of words) {
    const [, flag = "", value] = /^--([a-z-]+)(?:=(.*))?$/.exec(word) ?? [];
    const row = SETTING_ROWS.find((one) => one.flag === flag);
    assert(row !== undefined && value !== "", word);
    if (value === undefined) flags[flag] = true;
    else if (row.kind.repeatable !== true) flags[flag] = value;
    else flags[flag] = [...(flags[flag] as string[] | undefined ?? []), value];
  }
  const again = read({ flags });
  for (const [index, { name, setting }] of configLines(again).entries()) {
    assertEquals([name, setting.value], [name, configLines(config)[index]?.setting.value]);
  }
});
