// Commands on a host over ssh: the script that starts each of them there, what its session reports, and its words.

import { AgentError } from "../../domain/error.ts";
import { checkAborted } from "../../runtime/wait.ts";
import { type CommandOptions, type CommandResult, runCommand } from "../program.ts";
import { addressOf, SSH, type SshConnection, sshWords } from "./connection.ts";

/** How much later the remote deadline is, seconds. */
const FAR_DEADLINE_GRACE_SECONDS = 5;

/**
 * Starts the program there. Closing a session kills nothing on the remote host, and ssh's exit code 255 may be the
 * program's. The input of the script is first the program's, then stays open. If it closes before the program has ended,
 * because the call was canceled, ssh was killed or the connection broke, the script kills its process group, itself
 * included. In case it never sees that, it also enforces the deadline. It marks on both streams where the program's output
 * begins, and reports its exit code at the end; any other end of the session is an error of ssh.
 *
 * `$1` is the mark, `$2` the deadline in seconds, `$3` is `cut` or `keep`, `$4` how many bytes of
 * the input are the program's; then the program and its arguments. `keep`: the program continues when the
 * input closes. Bytes are read one by one, so that nothing beyond them is consumed.
 */
const SCRIPT = `
mark=$1 limit=$2 end=$3 bytes=$4
shift 4
PATH=/usr/bin:/usr/sbin:/bin:/sbin:/usr/local/bin
export PATH
echo "$mark begin"
echo "$mark begin" >&2
if [ ! -f "$1" ] || [ ! -x "$1" ]; then echo "$mark end missing" >&2; exit 1; fi
cd / || exit 1
( sleep "$limit"; kill -s KILL 0 ) </dev/null >/dev/null 2>&1 &
{
  if [ "$bytes" -gt 0 ]; then dd ibs=1 obs=4096 count="$bytes" 2>/dev/null; fi
  exec >/dev/null 2>&1
  cat
  if [ "$end" = cut ]; then kill -s KILL 0; fi
} | {
  env -i LC_ALL=C PATH="$PATH" "$@"
  printf '\\n%s end %d\\n' "$mark" "$?" >&2
  kill -s KILL 0
}
`;

/** Signals whose numbers are the same on every known system. */
const SIGNALS: Readonly<Record<number, string>> = {
  1: "SIGHUP",
  2: "SIGINT",
  3: "SIGQUIT",
  4: "SIGILL",
  5: "SIGTRAP",
  6: "SIGABRT",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  13: "SIGPIPE",
  14: "SIGALRM",
  15: "SIGTERM",
};

/**
 * Runs a remote program to its end, as runCommand() does a local one. With `released`, the program continues to its end or deadline when the
 * connection breaks. If a session ends before the program starts, it is tried once more over a new
 * connection.
 * @param program absolute path on the remote host
 * @param options without `env` and `cwd`: the environment is cleared, the folder is `/`
 * @throws {AgentError} see runCommand(); `host` also when no connection can be made, or when it broke
 * while the program ran
 */
export async function runFarCommand(
  connection: SshConnection,
  newMark: () => string,
  program: string,
  args: readonly string[],
  options: Omit<CommandOptions, "env" | "cwd">,
): Promise<CommandResult> {
  const far = { connection, newMark, program, args, options };
  const first = await attempt(far);
  if (first.kind === "ended") return first.result;
  // The connection broke while idle, and this is the first call to notice.
  if (first.kind === "not_begun" && !await connection.isUp()) {
    const second = await attempt(far);
    if (second.kind === "ended") return second.result;
    throw brokenSession(far, second);
  }
  throw brokenSession(far, first);
}

interface FarCommand {
  readonly connection: SshConnection;
  readonly newMark: () => string;
  readonly program: string;
  readonly args: readonly string[];
  readonly options: Omit<CommandOptions, "env" | "cwd">;
}

type SshRun =
  | { readonly kind: "ended"; readonly result: CommandResult }
  | { readonly kind: "not_begun" | "cut_off"; readonly words: string };

async function attempt({ connection, newMark, program, args, options }: FarCommand) {
  const { host } = connection;
  const action = `Cannot run ${JSON.stringify(program)} on ${addressOf(host)}`;
  const mark = newMark();
  const input = options.stdin ?? "";
  const bytes = typeof input === "string" ? new TextEncoder().encode(input) : input;
  const limit = Math.ceil(options.deadlineMs / 1000) + FAR_DEADLINE_GRACE_SECONDS;
  const end = options.released === undefined ? "cut" : "keep";
  const line = commandLine(
    ["/bin/sh", "-c", SCRIPT, "zonewright", mark, `${limit}`, end, `${bytes.length}`, program]
      .concat(args),
  );
  return await connection.session(options.signal, async (ssh): Promise<SshRun> => {
    checkAborted(action, options.signal);
    try {
      const all = [...ssh, "-T", "--", host.destination, `exec ${line}`];
      const its = { stdin: bytes, stdinStaysOpen: true, cwd: host.folder };
      const result = await runCommand(SSH, all, { ...options, ...its });
      return readAttempt(result, mark, `${action}: there is no such program`);
    } catch (cause) {
      if (!(cause instanceof AgentError)) throw cause;
      const [, why] = /: (.*)/s.exec(cause.message) ?? [];
      throw new AgentError(cause.code, `${action}: ${why}`, { cause });
    }
  });
}

/**
 * Reads the result of the program from the streams of a session.
 * @param missing message for a program that does not exist
 * @throws {AgentError} `host` when the program does not exist
 */
function readAttempt(result: CommandResult, mark: string, missing: string): SshRun {
  const { stdout, stderr, durationMs } = result;
  const begun = `${mark} begin\n`;
  const at = stderr.indexOf(begun);
  const from = stdout.indexOf(begun);
  const rest = at < 0 ? "" : stderr.slice(at + begun.length);
  const ended = new RegExp(`^${mark} end (\\d+|missing)$`, "m").exec(rest);
  if (at < 0) return { kind: "not_begun", words: sshWords(stderr) };
  if (ended === null || from < 0) return { kind: "cut_off", words: sshWords(stderr.slice(0, at)) };
  if (ended[1] === "missing") throw new AgentError("host", missing);
  // A shell reports a signal as 128 plus its number; ksh93, the sh of illumos, as 256 plus that.
  const reported = Number(ended[1]);
  const code = reported > 256 ? reported - 128 : reported;
  const signal = code > 128 ? SIGNALS[code - 128] ?? null : null;
  return {
    kind: "ended",
    result: {
      code,
      signal,
      stdout: stdout.slice(from + begun.length),
      // The line feed before the mark is the script's.
      stderr: rest.slice(0, Math.max(0, ended.index - 1)),
      durationMs,
    },
  };
}

function brokenSession(
  { connection, program, options }: FarCommand,
  { kind, words }: Exclude<SshRun, { kind: "ended" }>,
): AgentError {
  const action = `Cannot run ${JSON.stringify(program)} on ${addressOf(connection.host)}`;
  const what = kind === "not_begun"
    ? "ssh opened no session"
    : options.released === undefined
    ? "the connection broke while it ran, and it was killed there"
    : "the connection broke while it ran, and the program runs on there";
  return new AgentError("host", `${action}: ${what}: ${words}`);
}

/**
 * Largest size of one command, bytes. Linux allows 128 KiB for one argument, and the whole command is one
 * argument of the remote shell.
 */
const COMMAND_BYTES_MAX = 100 * 1024;

/**
 * Quotes a text as one word of a POSIX shell: ssh joins its arguments with spaces and lets the login shell parse them.
 * @throws {AgentError} `invalid_argument` for a NUL or half a surrogate pair, which no argument can contain
 */
export function quoted(word: string): string {
  if (word.includes("\0") || !word.isWellFormed()) {
    const message = `Cannot pass ${JSON.stringify(word.slice(0, 80))} to a program on another ` +
      "host, expected text without NUL and without lone surrogates";
    throw new AgentError("invalid_argument", message);
  }
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * A command line of these words.
 * @throws {AgentError} `invalid_argument` like quoted(); `too_large` beyond COMMAND_BYTES_MAX
 */
export function commandLine(words: readonly string[]): string {
  const line = words.map(quoted).join(" ");
  const bytes = new TextEncoder().encode(line).length;
  if (bytes <= COMMAND_BYTES_MAX) return line;
  const message = `Cannot run a command on another host: it has ${bytes} bytes, ` +
    `expected at most ${COMMAND_BYTES_MAX}`;
  throw new AgentError("too_large", message);
}
