# Completion of teamwright for fish: the line up to the cursor is handed to the program, which answers with words.
function _teamwright_completion
    set -l word (commandline -ct)
    set -l program (commandline -opc)[1]
    for row in (_TEAMWRIGHT_COMPLETE=fish _TEAMWRIGHT_LINE=(commandline -cp) $program 2>/dev/null </dev/null)
        set -l parts (string split -m 2 \t -- $row)
        switch $parts[1]
            case word open
                if test (count $parts) -gt 2
                    printf '%s\t%s\n' $parts[2] $parts[3]
                else
                    printf '%s\n' $parts[2]
                end
            case dir
                __fish_complete_directories $word
            case file
                __fish_complete_path $word
        end
    end
end
complete --command teamwright --no-files --arguments '(_teamwright_completion)'
