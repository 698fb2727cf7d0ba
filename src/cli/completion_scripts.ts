// What a shell is told so that it asks us. The scripts know nothing of the commands: they hand over
// the words and show what comes back, so they never grow old.

/**
 * Bash: `:files` hands the word back to its own completion of files. Bash also parts words at `:` and
 * `=`; they are joined as they stand on the line, and what is offered begins where its own word does.
 */
const BASH = `# bash completion for zonewright: source <(zonewright completion bash)
_zonewright() {
  local IFS=$'\\n' line part rest=$COMP_LINE before=
  local -a words=()
  COMPREPLY=()
  for part in "\${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if [[ \${#words[@]} -eq 0 || $rest == [[:space:]]* || -z $rest ]]; then
      words+=("$part")
      before=
    else
      before=\${words[\${#words[@]}-1]}
      words[\${#words[@]}-1]=$before$part
    fi
    rest=\${rest#*"$part"}
  done
  case \${COMP_WORDS[COMP_CWORD]} in [:=]*) before=\${words[\${#words[@]}-1]} ;; esac
  for line in $("\${words[0]}" __complete "\${words[@]:1}" 2>/dev/null); do
    if [ "$line" = ":files" ]; then
      compopt -o filenames 2>/dev/null
      COMPREPLY+=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"))
    else
      line=\${line%%$'\\t'*}
      COMPREPLY+=("\${line#"$before"}")
    fi
  done
}
complete -F _zonewright zonewright
`;

/** Zsh shows the meaning beside the candidate. */
const ZSH = `#compdef zonewright
# zsh completion for zonewright: source <(zonewright completion zsh)
_zonewright() {
  local -a lines values
  local line value
  lines=("\${(@f)$("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    [[ -z "$line" ]] && continue
    if [[ "$line" == ":files" ]]; then
      _files
    else
      value="\${line%%$'\\t'*}"
      values+=("\${value//:/\\\\:}:\${line#*$'\\t'}")
    fi
  done
  (( \${#values} )) && _describe zonewright values
}
compdef _zonewright zonewright
`;

/** Fish takes value, tab and meaning as they are. */
const FISH = `# fish completion for zonewright: zonewright completion fish | source
function __zonewright_complete
  set -l words (commandline -opc) (commandline -ct)
  for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
    if test "$line" = ":files"
      __fish_complete_path (commandline -ct)
    else
      echo $line
    end
  end
end
complete -c zonewright -f -a "(__zonewright_complete)"
`;

/** The script of each shell that there is one for. */
export const COMPLETION_SCRIPTS: Readonly<Record<string, string>> = {
  bash: BASH,
  zsh: ZSH,
  fish: FISH,
};
