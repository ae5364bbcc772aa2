# What bash has after its startup, written to the file "$1" as parts that each end with a NUL byte:
# options, more options, PATH, aliases, then name and text of each function, and "end".
\builtin set +o >| "$1"
\builtin set +eufvxn
\builtin trap - DEBUG ERR RETURN EXIT
\builtin printf '\0' >> "$1"
\builtin shopt -p >> "$1"
\builtin printf '\0%s\0' "$PATH" >> "$1"
\builtin alias -p >> "$1"
\builtin printf '\0' >> "$1"
\builtin shopt -u expand_aliases
{
  IFS=$'\n'
  set -f
  for teamwright_function in $(\builtin declare -F); do
    teamwright_function=${teamwright_function#declare -* }
    \builtin printf '%s\0' "$teamwright_function"
    \builtin declare -f -- "$teamwright_function"
    \builtin printf '\0'
  done
  \builtin printf 'end\0'
} >> "$1"
