// The commonest mistakes of somebody who reads nothing beforehand, typed against a running agent: each ends
// with its exit code, the fact, and a command to type next, which exists and is not the same call again.

import { assert, assertEquals } from "@std/assert";
import { commandOf, linesIn } from "../../cli/hinted_commands.ts";
import { withOperator, wordsOf } from "./operator_agent.ts";

const NOBODY = "00000000-0000-4000-8000-00000000000a";

/** What is typed; `@done`, `@later` and `@dir` stand for a finished job, a delayed one and the folder. */
type Mistake = readonly [typed: string, code: number, fact: string, hint: string];

const COMMAND_LINE: readonly Mistake[] = [
  ["", 2, "expected one of demo, serve", "zonewright --help"],
  ["machin list", 2, 'did you mean "machine"?', "zonewright --help"],
  ["vm list", 2, 'did you mean "machine"?', "zonewright --help"],
  ["job lst", 2, 'did you mean "job list"?', "zonewright job --help"],
  [`machine start ${NOBODY}`, 2, 'did you mean "machine boot"?', "zonewright machine --help"],
  ["job logs @done", 2, 'did you mean "job tail"?', "zonewright job --help"],
  ["job", 2, "expected one of job run", "zonewright job --help"],
  ["job get", 2, "an operand is missing, expected job get JOB", "zonewright job get --help"],
  ["job get a b", 2, 'unexpected operand "b"', "zonewright job get --help"],
  ["job list --stat failed", 2, 'did you mean "--state"?', "zonewright job list --help"],
  [
    "job list --limit",
    2,
    "--limit has no value, expected N, found none",
    "zonewright job list --help",
  ],
  [
    "job list --limit -1",
    2,
    'Cannot use --limit "-1", expected a number from 1',
    "job list --help",
  ],
  ["--versoin", 2, 'did you mean "--version"?', "zonewright --help"],
  ["job list --limit 1 --limit 2", 2, "--limit is given twice", "zonewright job list --help"],
  ["--verbose job list", 2, "expected a command before the flag", "zonewright --help"],
  [
    "completion tcsh",
    2,
    'Cannot complete for "tcsh", expected bash',
    "zonewright completion --help",
  ],
];

const JOBS: readonly Mistake[] = [
  ["job list --limit all", 2, 'Cannot use --limit "all", expected a number', "job list --help"],
  ["job list --state done", 2, 'Cannot filter by execution "done"', "job list --help"],
  ["job list --since yesteryear", 2, "expected today (from midnight", "zonewright job list --help"],
  ["job list --since 2026-11-22T18:30", 2, "it names no time zone", "zonewright job list --help"],
  ["job list --since 1h --until 2h", 2, "expected --until to be the later", "job list --help"],
  ["job list --since -2h", 2, "a time ago such as 2h or 7d", "zonewright job list --help"],
  ["job list --columns uid", 2, 'workflow: did you mean "uuid"?', "job list --help"],
  ["job list --param zone", 2, "expected K=V, or K:=JSON", "zonewright job list --help"],
  [`job get ${NOBODY}`, 4, NOBODY, "zonewright job list"],
  ["job get nonsense", 4, "nonsense", "zonewright job list"],
  [`job tail ${NOBODY}`, 4, NOBODY, "zonewright job list"],
  ["job run nothing-like-it", 4, "Cannot find workflow", "zonewright workflow list"],
  ["job run helo", 4, 'did you mean "hello"?', "zonewright workflow list"],
  ['job run hello --at "0 3 * * *"', 2, "there is no cron here, a job runs once", "job run --help"],
  [
    "job run hello --at soon",
    2,
    "expected a time from now such as +90s",
    "zonewright job run --help",
  ],
  ["job run hello -p target=x", 2, "use --target", "zonewright job run --help"],
  [
    "job run hello -p a:={",
    2,
    "Cannot read --param a: it is not JSON",
    "zonewright job run --help",
  ],
  ["job run hello --wait --timeout soon", 2, "expected a time such as 90s", "job run --help"],
  ["job cancel", 2, "expected a job, or filters", "zonewright job cancel --help"],
  ["job cancel @done", 6, "Cannot cancel job", "zonewright job retry @done"],
  ["job cancel --workflow hello", 2, "there is no terminal to ask on", "job cancel --help"],
  ["job resume @done", 6, "Cannot resume job", "zonewright job get @done"],
  ["job retry @later", 6, "Cannot retry job", "zonewright job wait @later"],
];

const FILES: readonly Mistake[] = [
  ["workflow create", 2, "-f FILE is missing", "zonewright workflow create --help"],
  ["workflow create -f none.json", 4, "it does not exist", "workflow create --help"],
  ["workflow create -f broken.json", 2, "broken.json: it is not JSON", "workflow create --help"],
  ["workflow apply -f list.json", 2, "it is JSON, but a list", "workflow apply --help"],
  ["workflow create -f empty.json", 2, "name is missing", "zonewright workflow create --help"],
  ["workflow delete nosuch", 4, "Cannot find workflow", "zonewright workflow list"],
  [`workflow get ${NOBODY}`, 4, NOBODY, "zonewright workflow list"],
  ["workflow validate -f none.json", 4, "it does not exist", "zonewright workflow validate --help"],
  ["machine create vm.json", 2, "did you mean -f vm.json?", "zonewright machine create --help"],
  ["workflow try hello.json", 2, "did you mean -f hello.json?", "zonewright workflow try --help"],
  ["machine create -f vm.json", 2, "a medium is missing", "zonewright machine create --help"],
  ["machine create -f vm.json --iso https://a/b.iso", 2, "its --sha256", "machine create --help"],
  ["machine create -f vm.json --iso a.iso --sha256 abc", 2, "64 hexadecimal", "create --help"],
  ["machine create -f vm.json --iso a.iso", 4, "--media-dir", "zonewright media list"],
  [`machine get ${NOBODY}`, 4, NOBODY, "zonewright machine list"],
  [`machine boot ${NOBODY}`, 4, NOBODY, "zonewright machine list"],
  [`machine delete ${NOBODY}`, 2, "expected --yes", "zonewright machine delete --help"],
  ["media add https://images.example.org/a.iso", 2, "--sha256", "zonewright media add --help"],
  ["media add https://a.example/a.iso --check most", 2, "expected one of", "media add --help"],
  ["media rm nosuch", 4, "or the name of an uploaded file", "zonewright media list"],
  ["media upload empty.iso", 2, "it is empty, expected a medium", "media upload --help"],
  ["image show debian/9", 4, 'Cannot find release "9" of debian', "zonewright image list"],
  ["image list nosuch", 4, 'Cannot find distro "nosuch"', "zonewright image list  shows"],
  ["image show debian", 2, "expected DISTRO/RELEASE", "zonewright image show --help"],
  ["image list nosuch/9", 4, "nosuch", "zonewright image list  shows the distros"],
];

const AGENTS: readonly Mistake[] = [
  ["status --url @closed", 3, "connection refused", "zonewright serve --dev"],
  ["status --url https://@agent", 3, "it speaks http", "zonewright status --url http://@agent"],
  ["status --url nonsense", 2, "as the address of an agent, expected one", "status --help"],
  ["status --url a:1 --socket b", 2, "are both given", "zonewright status --help"],
  ["status --token-file vm.json", 2, "it contains no token", "zonewright status --help"],
  ["status --socket vm.json", 3, "vm.json: it is not a socket", "zonewright serve --dev"],
  ["status --token-file none", 2, "--token-file @dir/none", "zonewright status --help"],
  ["api get stats", 2, 'Cannot call "stats", expected a path', "zonewright api --help"],
  ["api FETCH /stats", 2, 'Cannot use method "FETCH", expected one of GET', "api --help"],
  ["config check --config none.toml", 2, "no such file", "zonewright config check --help"],
  ["config check --slots many", 2, '"many" is not an integer from 1 to 64', "config check --help"],
  ["config check --config quotes.toml", 2, 'expected host = "simulated"', "config check --help"],
  ["config show --running --slots 3", 2, "--slots is about this machine", "config show --help"],
  ["config show --url @agent --socket a.sock", 2, "are both given", "config show --help"],
  ["config show --running --socket none", 3, "Cannot reach the agent at @dir/none", "serve --dev"],
  ["doctor --url @agent --fix", 2, "--fix is about this machine", "zonewright doctor --help"],
  ["doctor --running --run stat", 2, 'did you mean "state"?', "zonewright doctor --help"],
  ["config check --config json.toml", 2, "this is not TOML", "zonewright config check --help"],
  ["config init @dir --force", 6, "it is not a regular file", "zonewright config init -"],
  ["config set slot 3", 2, 'did you mean "slots"?', "zonewright config show"],
  ["config init quotes.toml", 6, "it exists", "zonewright config set"],
  ["db check --state-dir none", 4, "it does not exist", "zonewright "],
  ["db prune", 2, "--older-than is missing", "zonewright db prune --help"],
  ["token create --scope read --dev", 2, "--name is missing, expected", "token create --help"],
  ["token create --name x --dev", 2, "--scope is missing, expected read", "token create --help"],
  ["token create --name x --scope root --dev", 2, "expected read or admin", "token create --help"],
  ["install upstart", 2, "expected systemd or smf", "zonewright install --help"],
  ["doctor --run everything --dev", 2, 'Cannot run check "everything"', "zonewright doctor --help"],
  ["upgrade vm.json", 2, "it has no digest", "zonewright upgrade vm.json --sha256 HEX"],
  ["upgrade ./vm.json", 2, "it has no digest", "zonewright upgrade ./vm.json --sha256 HEX"],
  ["serve --dev --state-dir quotes.toml", 6, "is a file", "zonewright doctor --run state"],
  ["serve --dev --state-dir state", 6, "is using it", "zonewright status"],
];

const MISTAKES = [...COMMAND_LINE, ...JOBS, ...FILES, ...AGENTS];

/** What is wrong with the answer to one mistake, if anything. */
function faultsOf(
  line: string,
  [, code, fact, hint]: Mistake,
  ended: { readonly code: number; readonly out: string; readonly err: string },
): string[] {
  const lines = ended.err.trimEnd().split("\n");
  const error = lines.find((text) => text.startsWith("zonewright: ")) ?? "";
  const hints = lines.filter((text) => text.startsWith("hint: "));
  const commands = hints.flatMap(linesIn);
  commands.forEach(commandOf);
  const faults = [
    ended.code === code ? "" : `exits ${ended.code}, not ${code}`,
    ended.out === "" ? "" : "prints on standard output",
    error.includes(fact) ? "" : `does not say ${fact}`,
    hints.join("\n").includes(hint) ? "" : `does not suggest ${hint}`,
    commands.length > 0 ? "" : "suggests no command",
    commands.includes(line) ? "suggests the same call" : "",
    /internal|undefined|\[object|os error/i.test(ended.err) ? "shows what is inside" : "",
  ].filter((fault) => fault !== "");
  return faults.length === 0 ? [] : [`${line}: ${faults.join(", ")}\n${ended.err}`];
}

Deno.test("common mistakes end with an exit code, a fact and the next command", () =>
  withOperator(async (fill, screen) => {
    assert(MISTAKES.length >= 50);
    const faults: string[] = [];
    for (const mistake of MISTAKES) {
      const [typed, code, fact, hint] = mistake;
      const line = fill(typed);
      const one = screen();
      const ended = await one.run(...wordsOf(line));
      const expected: Mistake = [line, code, fill(fact), fill(hint)];
      faults.push(...faultsOf(line, expected, { code: ended, out: one.out(), err: one.err() }));
    }
    assertEquals(faults.join("\n"), "");
  }));

Deno.test("the same mistakes with --json are one object on standard error", () =>
  withOperator(async (fill, screen) => {
    for (const [typed, code] of MISTAKES) {
      const line = fill(typed);
      // These print no documents.
      if (/^(?:serve|completion)/.test(line)) continue;
      const one = screen();
      assertEquals([line, await one.run("--json", ...wordsOf(line)), one.out()], [line, code, ""]);
      const error = JSON.parse(one.err());
      assertEquals([line, error.exit_code], [line, code]);
      assertEquals(Object.keys(error).slice(0, 4), ["code", "message", "hint", "exit_code"]);
    }
  }));
