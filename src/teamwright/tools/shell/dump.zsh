# What zsh has after its startup, written to the file "$1" as parts that each end with a NUL byte:
# options that differ from the usual, PATH, aliases as a list of names and texts that "" ends, then name and text of
# each function, and "end".
\builtin setopt >| "$1"
\builtin unsetopt aliases
\builtin emulate -R zsh
\builtin unsetopt aliases
\builtin zmodload zsh/parameter
{
  \builtin printf '\0%s\0' "$PATH"
  for teamwright_name in "${(@k)aliases}"; do
    [[ -n $teamwright_name ]] && \builtin printf '%s\0%s\0' "$teamwright_name" "${aliases[$teamwright_name]}"
  done
  \builtin printf '\0'
  for teamwright_name in "${(@k)functions}"; do
    if [[ ${functions[$teamwright_name]} == *'builtin autoload -X'* ]]; then
      [[ $teamwright_name == _* ]] && continue
      \builtin autoload +X -- "$teamwright_name" 2>/dev/null || continue
    fi
    \builtin printf '%s\0' "$teamwright_name"
    \builtin typeset -f -- "$teamwright_name"
    \builtin printf '\0'
  done
  \builtin printf 'end\0'
} >> "$1"
