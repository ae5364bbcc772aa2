# Completion of teamwright for bash: what stands before the cursor is handed to the program, which answers with words.
_teamwright_completion() {
    local kind word program=${1/#\~\//$HOME/}
    COMPREPLY=()
    while IFS=$'\t' read -r kind word; do
        case $kind in
            word) COMPREPLY+=("$word") ;;
            open) COMPREPLY+=("$word"); compopt -o nospace 2>/dev/null ;;
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default -o filenames 2>/dev/null ;;
        esac
    done < <(_TEAMWRIGHT_COMPLETE=bash _TEAMWRIGHT_LINE="${COMP_LINE:0:COMP_POINT}" _TEAMWRIGHT_WORD="$2" \
        "$program" 2>/dev/null </dev/null)
}
complete -o nosort -F _teamwright_completion teamwright 2>/dev/null || complete -F _teamwright_completion teamwright
