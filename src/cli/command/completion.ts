// Completes the word at the cursor: commands, flags, and the agent's jobs, workflows, machines and images. A shell calls
// `zonewright __complete WORD...`, the word at the cursor last, and gets a candidate per line with its meaning after a
// tab. Errors print nothing: an error message in the middle of a command line helps nobody.

import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { nameOf, SETTING_ROWS } from "../../config/settings.ts";
import { METHODS } from "../client/api_call.ts";
import { cannot, type Flag } from "./arguments.ts";
import type { Client } from "../client/client.ts";
import { type Command, EXIT, flagsOf, type Noun } from "./command.ts";
import { nearest } from "../../domain/near_word.ts";

/** One way to complete the word. */
interface Candidate {
  readonly value: string;
  /** For shells that show it. */
  readonly about: string;
}

/**
 * Markers by which the shell is asked to complete names of files or folders itself. After the tab comes the
 * part of the word before the name.
 */
const FILES: Candidate = { value: ":files", about: "" };
const FOLDERS: Candidate = { value: ":dirs", about: "" };

/** The nouns of the command line, loaded on use. */
type Nouns = Readonly<Record<string, () => Promise<Noun>>>;

/** Makes a client for the flags of the command line that is completed. */
type ClientFor = (flags: ReadonlyMap<string, string>) => Client;

/** Milliseconds for the agent to answer; short, since the user has just pressed Tab. */
const LIVE_MS = 1_500;
const LIVE_MAX = 100;

/**
 * The candidates for the last of the words.
 * @param words after the program's name
 */
export async function candidates(
  words: readonly string[],
  nouns: Nouns,
  clientFor: ClientFor,
): Promise<readonly Candidate[]> {
  const [nounName, ...rest] = words;
  if (nounName === undefined || rest.length === 0) {
    return startingWith(nounName ?? "", await summariesOf(nouns));
  }
  const noun = Object.hasOwn(nouns, nounName) ? await nouns[nounName]?.() : undefined;
  if (noun === undefined) return [];
  if (noun.kind === "command") return await ofCommand(noun.command, nounName, rest, clientFor);
  const [verb = "", ...operands] = rest;
  if (operands.length === 0) {
    const verbs = Object.entries(noun.verbs).map(([value, { summary }]) => ({
      value,
      about: summary,
    }));
    return startingWith(verb, verbs);
  }
  const command = Object.hasOwn(noun.verbs, verb) ? noun.verbs[verb] : undefined;
  return command === undefined
    ? []
    : await ofCommand(command, `${nounName} ${verb}`, operands, clientFor);
}

async function summariesOf(nouns: Nouns): Promise<Candidate[]> {
  return await Promise.all(
    Object.entries(nouns).map(async ([value, load]) => {
      const noun = await load();
      return { value, about: noun.kind === "command" ? noun.command.summary : noun.summary };
    }),
  );
}

function startingWith(typed: string, all: readonly Candidate[]): readonly Candidate[] {
  return all.filter(({ value }) => value.startsWith(typed));
}

async function ofCommand(
  command: Command,
  name: string,
  words: readonly string[],
  clientFor: ClientFor,
): Promise<readonly Candidate[]> {
  const flags = flagsOf(command);
  const typed = words.at(-1) ?? "";
  const { given, operands, open } = readWords(words.slice(0, -1), flags);
  const live = { command: name, typed, ask: askWith(clientFor, given) };
  const equals = typed.startsWith("--") ? typed.indexOf("=") : -1;
  if (equals > 0) {
    const flag = flags.find((one) => answersTo(one, typed.slice(0, equals)));
    if (flag?.placeholder === undefined) return [];
    const values = await flagValues(flag, { ...live, typed: typed.slice(equals + 1) });
    const before = typed.slice(0, equals + 1);
    const names = values.find(isForShell);
    if (names !== undefined) return [{ ...names, about: before }];
    const whole = values.map((one) => ({ ...one, value: `${before}${one.value}` }));
    return startingWith(typed, whole);
  }
  if (open !== undefined) return orNames(typed, await flagValues(open, live));
  if (typed.startsWith("-")) {
    const free = flags.filter((flag) => flag.many === true || !given.has(flag.name));
    return startingWith(typed, free.map(({ name, help }) => ({ value: `--${name}`, about: help })));
  }
  const kind = operandKind(command.operands ?? "", operands);
  return kind === undefined ? [] : orNames(typed, await valuesOf(kind, live));
}

function orNames(typed: string, values: readonly Candidate[]): readonly Candidate[] {
  return values.some(isForShell) ? values : startingWith(typed, values);
}

function isForShell(one: Candidate): boolean {
  return one === FILES || one === FOLDERS;
}

/** Whether a word is one of a flag's names. */
function answersTo({ name, also, short }: Flag, word: string): boolean {
  return word === `--${name}` || (also !== undefined && word === `--${also}`) ||
    (short !== undefined && word === `-${short}`);
}

/** Parses the words before the cursor; `open` is a flag whose value is at the cursor. */
function readWords(
  words: readonly string[],
  flags: readonly Flag[],
): { given: Map<string, string>; operands: number; open: Flag | undefined } {
  const given = new Map<string, string>();
  let operands = 0;
  let open: Flag | undefined;
  for (const word of words) {
    if (open !== undefined) {
      given.set(open.name, word);
      open = undefined;
      continue;
    }
    const [name = "", ...value] = word.split("=");
    const flag = flags.find((one) => answersTo(one, name));
    if (flag === undefined) {
      operands += word.startsWith("-") ? 0 : 1;
    } else if (flag.placeholder === undefined || value.length > 0) {
      given.set(flag.name, value.join("="));
    } else open = flag;
  }
  return { given, operands, open };
}

/** The word for the operand at the cursor, such as `JOB` of `JOB [FILE]...`. */
function operandKind(text: string, at: number): string | undefined {
  const kinds = text.split(" ").filter((word) => word !== "");
  const last = kinds.at(-1);
  const kind = kinds[at] ?? (last?.endsWith("...") === true ? last : undefined);
  return kind?.replaceAll(/[[\].]/g, "");
}

/** Asks the agent for a list, and reads each of its objects. */
type Lookup = (
  path: string,
  read: (one: JsonObject) => Candidate | undefined,
) => Promise<readonly Candidate[]>;

/** What the values of a command line are looked up with; `typed` is the word at the cursor. */
interface Live {
  readonly command: string;
  readonly typed: string;
  readonly ask: Lookup;
}

async function flagValues(
  { words, placeholder = "" }: Flag,
  live: Live,
): Promise<readonly Candidate[]> {
  return words?.map(plain) ?? await valuesOf(placeholder, live);
}

/** The possible values of a placeholder. */
async function valuesOf(
  placeholder: string,
  { command, typed, ask }: Live,
): Promise<readonly Candidate[]> {
  switch (placeholder) {
    case "PATH":
      // For `api` it is a path of the agent's, not a file.
      return command === "api" ? [] : [FILES];
    case "FILE":
    case "MEDIUM":
      return [FILES];
    case "DIR":
    case "URL|DIR":
      return [FOLDERS];
    case "JOB":
      return await ask(
        `/jobs?limit=${LIVE_MAX}`,
        (job) => candidate(job.uuid, `${job.execution} ${job.name}`),
      );
    case "WORKFLOW":
      return await ask("/workflows?builtin=true", (one) => candidate(one.name, String(one.uuid)));
    case "MACHINE":
      return await ask(
        "/agent/v1/machines",
        (one) => candidate(one.uuid, `${one.state} ${one.alias ?? ""}`),
      );
    case "HOST":
      return await ask("/agent/v1/hosts", (host) => candidate(host.name, String(host.state)));
    case "DISTRO":
      return await distros(ask, "");
    case "DISTRO/RELEASE":
      return typed.includes("/") ? await releases(ask, typed) : await distros(ask, "/");
    case "SETTING":
      return SETTING_ROWS.map((row) => ({ value: nameOf(row), about: row.meaning }));
    case "METHOD":
      return METHODS.map(plain);
    default:
      // `cd|disk` lists its own values.
      return placeholder.includes("|") ? placeholder.split("|").map(plain) : [];
  }
}

function plain(value: string): Candidate {
  return { value, about: "" };
}

function candidate(value: unknown, about: string): Candidate | undefined {
  return typeof value === "string" ? { value, about: about.trim() } : undefined;
}

async function distros(ask: Lookup, end: string): Promise<readonly Candidate[]> {
  const all = await ask("/v1/index.json", ({ id, name }) => candidate(id, String(name ?? "")));
  return all.map(({ value, about }) => ({ value: value + end, about }));
}

async function releases(ask: Lookup, typed: string): Promise<readonly Candidate[]> {
  const distro = typed.slice(0, typed.indexOf("/"));
  const path = `/v1/distros/${encodeURIComponent(distro)}/index.json`;
  return await ask(path, ({ id, title }) => candidate(`${distro}/${id}`, String(title ?? "")));
}

/** Asks the agent named on the command line, for as long as a user would wait. */
function askWith(clientFor: ClientFor, given: ReadonlyMap<string, string>): Lookup {
  return async (path, read) => {
    const client = clientFor(given);
    try {
      const answer = await client.get(path, AbortSignal.timeout(LIVE_MS));
      const list = Array.isArray(answer)
        ? answer
        : Object.values(isJsonObject(answer) ? answer : {}).find(Array.isArray) ?? [];
      return list.slice(0, LIVE_MAX)
        .flatMap((one: unknown) => isJsonObject(one) ? read(one) ?? [] : []);
    } finally {
      client.close();
    }
  };
}

// `zonewright completion` prints the script of a shell. It knows no command: it passes on the words and shows the
// answer, so it never goes out of date.

/**
 * Bash: `:files` and `:dirs` hand the word back to its own completion, which also quotes what it finds. Bash
 * splits words at `:` and `=` and leaves them as typed, quotes included. They are joined again as on the
 * line, and a candidate begins where bash's own word does.
 */
const BASH = `# bash completion for zonewright: source <(zonewright completion bash)
_zonewright_plain() {
  # What a word means once it is read, though its quotes may be open still.
  plain=$1
  case $plain in
    \\"*) plain=\${plain#\\"} plain=\${plain%\\"} ;;
    \\'*) plain=\${plain#\\'} plain=\${plain%\\'} ;;
    *\\\\*) IFS= read plain <<< "$plain" || true ;;
  esac
}
_zonewright() {
  local line part plain kind found rest=$COMP_LINE before=
  local -a words=() names=()
  COMPREPLY=()
  for part in "\${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    _zonewright_plain "$part"
    if [[ \${#words[@]} -eq 0 || $rest == [[:space:]]* || -z $rest ]]; then
      words+=("$plain")
      before=
    else
      before=\${words[\${#words[@]}-1]}
      words[\${#words[@]}-1]=$before$plain
    fi
    rest=\${rest#*"$part"}
  done
  case \${COMP_WORDS[COMP_CWORD]} in [:=]*) before=\${words[\${#words[@]}-1]} ;; esac
  while IFS= read -r line; do
    case $line in
      :files* | :dirs*)
        kind=-f
        [[ $line == :dirs* ]] && kind=-d
        part=
        [[ $line == *$'\\t'* ]] && part=\${line#*$'\\t'}
        line=\${words[\${#words[@]}-1]}
        compopt -o filenames 2>/dev/null
        mapfile -t names < <(compgen $kind -- "\${line#"$part"}")
        for found in "\${names[@]}"; do
          found=$part$found
          COMPREPLY+=("\${found#"$before"}")
        done
        ;;
      *)
        line=\${line%%$'\\t'*}
        COMPREPLY+=("\${line#"$before"}")
        ;;
    esac
  done < <("\${words[0]}" __complete "\${words[@]:1}" 2>/dev/null)
}
complete -F _zonewright zonewright
`;

/** Zsh shows the meaning next to the candidate. */
const ZSH = `#compdef zonewright
# zsh completion for zonewright: source <(zonewright completion zsh)
_zonewright() {
  local -a lines values
  local line value
  lines=("\${(@f)$("\${(Q)words[1]}" __complete "\${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    [[ -z "$line" ]] && continue
    case "$line" in
      :files* | :dirs*)
        [[ "$line" == *$'\\t'* ]] && compset -P 1 '*='
        if [[ "$line" == :dirs* ]]; then _files -/; else _files; fi
        ;;
      *)
        value="\${line%%$'\\t'*}"
        values+=("\${value//:/\\\\:}:\${line#*$'\\t'}")
        ;;
    esac
  done
  (( \${#values} )) && _describe zonewright values
}
compdef _zonewright zonewright
`;

/** Fish reads value, tab and meaning as they are, and quotes the value. */
const FISH = `# fish completion for zonewright: zonewright completion fish | source
function __zonewright_complete
  # What the word means once it is read, though its quotes may be open still.
  set -l raw (commandline -ct)
  set -l typed (string unescape -- $raw; or string unescape -- $raw\\"; or string unescape -- $raw\\')
  set -l words (commandline -opc) "$typed"
  for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
    set -l parts (string split \\t -- $line)
    switch $parts[1]
      case ':files' ':dirs'
        set -l before "$parts[2]"
        set -l start (math (string length -- "$before") + 1)
        set -l name (string sub -s $start -- "$typed" | string escape --no-quoted)
        # Of a command that it does not know, fish completes files.
        set -l found (complete -C "__zonewright_names "(string replace -r '^\\\\\\\\~' '~' -- "$name"))
        test $parts[1] = ':dirs'; and set found (string match -r '.*/$|.*/\\t.*' -- $found)
        for one in $found
          echo "$before$one"
        end
      case '*'
        echo $line
    end
  end
end
complete -c zonewright -f -a "(__zonewright_complete)"
`;

/** The script for each supported shell. */
export const COMPLETION_SCRIPTS: Readonly<Record<string, string>> = {
  bash: BASH,
  zsh: ZSH,
  fish: FISH,
};

const SHELLS = Object.keys(COMPLETION_SCRIPTS);

export const COMPLETION: Noun = {
  kind: "command",
  command: {
    summary: "print the shell script that completes commands, jobs and machines",
    operands: SHELLS.join("|"),
    examples: [
      ["completion bash > /etc/bash_completion.d/zonewright", "for all users of a host"],
      ["completion zsh", "source <(zonewright completion zsh) in .zshrc"],
      ["completion fish", "zonewright completion fish | source"],
    ],
    flags: [],
    shared: "help",
    run({ args, terminal }) {
      const [shell = ""] = args.operands;
      const script = SHELLS.includes(shell) ? COMPLETION_SCRIPTS[shell] : undefined;
      if (script === undefined) {
        const found = `${JSON.stringify(shell)}: expected ${SHELLS.join(", ")}`;
        throw cannot(`complete for ${found}${nearest(shell, SHELLS)}`);
      }
      terminal.out(script);
      return Promise.resolve(EXIT.ok);
    },
  },
};
