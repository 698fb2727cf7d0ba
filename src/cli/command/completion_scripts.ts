// `zonewright completion` prints the script of a shell. It knows no command: it passes on the words and shows the
// answer, so it never goes out of date.

import { nearest } from "../../domain/near_word.ts";
import { cannot } from "./arguments.ts";
import { EXIT, type Noun } from "./command.ts";

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
        line=\${line#"$before"}
        # A name that somebody chose is text, and never a command.
        case \${COMP_WORDS[COMP_CWORD]} in
          \\"*) [[ $line == *[\\"\\\\\$\\\`!]* ]] && continue ;;
          \\'*) [[ $line == *\\'* ]] && continue ;;
          *) printf -v line %q "$line" ;;
        esac
        COMPREPLY+=("$line")
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

/** `zonewright completion SHELL`: the script asks the program itself for words, so it never needs an update. */
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
        const found = `${JSON.stringify(shell)}, expected ${SHELLS.join(", ")}`;
        throw cannot(`complete for ${found}${nearest(shell, SHELLS)}`);
      }
      terminal.out(script);
      return Promise.resolve(EXIT.ok);
    },
  },
};
