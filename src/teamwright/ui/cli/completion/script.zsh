#compdef teamwright
# Completion of teamwright for zsh: the words up to the cursor are handed to the program, which answers with words.
_teamwright_completion() {
    local kind word about
    local -a words_told words_shown open_told open_shown
    while IFS=$'\t' read -r kind word about; do
        case $kind in
            word) words_told+=("$word"); words_shown+=("$word${about:+  -- $about}") ;;
            open) open_told+=("$word"); open_shown+=("$word${about:+  -- $about}") ;;
            dir) compset -P 1 '--*='; _files -/ ;;
            file) compset -P 1 '--*='; _files ;;
        esac
    done < <(_TEAMWRIGHT_COMPLETE=zsh _TEAMWRIGHT_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" \
        ${~${(Q)words[1]}} 2>/dev/null </dev/null)
    (( $#words_told )) && compadd -l -d words_shown -a words_told
    (( $#open_told )) && compadd -l -S '' -d open_shown -a open_told
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _teamwright_completion "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _teamwright_completion teamwright
fi
