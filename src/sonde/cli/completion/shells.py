"""The scripts of shells: each asks ``sonde completion SHELL -- ...`` and gives the answer to its shell.

The first line of an answer is ``-``, or how names of files end that could stand there too: ``files``, ``files.bt``.
Each other line is a word, a tab, its help; a word that will go on ends in a character of its own, PART.
"""

from __future__ import annotations

from . import complete_words
from .answers import Answer, Candidate

PART = "\x01"

_BASH = r"""# Written by sonde completion bash
_sonde() {
    local line word IFS=$'\n'
    local -a answer
    mapfile -t answer < <("${COMP_WORDS[0]/#~/$HOME}" completion bash -- \
                          "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    COMPREPLY=()
    for line in "${answer[@]:1}"; do
        word="${line%%$'\t'*}"
        [[ $word == *$'\x01' ]] && compopt -o nospace
        COMPREPLY+=("${word%$'\x01'}")
    done
    case "${answer[0]}" in
        files) compopt -o filenames; COMPREPLY+=($(compgen -f -- "$2")) ;;
        files*) compopt -o filenames
                COMPREPLY+=($(compgen -f -X "!*${answer[0]#files}" -- "$2") $(compgen -d -- "$2")) ;;
    esac
}
complete -o nosort -F _sonde sonde sonde.pyz
"""

_ZSH = r"""#compdef sonde sonde.pyz
# Written by sonde completion zsh
_sonde() {
    local line word
    local -a answer whole whole_help part part_help
    answer=("${(@f)$(${(Q)words[1]/#\~/$HOME} completion zsh -- \
                     "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${(@)answer[2,-1]}"; do
        word="${line%%$'\t'*}"
        if [[ $word == *$'\x01' ]]; then
            part+=("${word%$'\x01'}"); part_help+=("${word%$'\x01'}  ${line#*$'\t'}")
        elif [[ -n $word ]]; then
            whole+=("$word"); whole_help+=("$word  ${line#*$'\t'}")
        fi
    done
    (( $#whole )) && compadd -V sonde -l -d whole_help -a whole
    (( $#part )) && compadd -V parts -S '' -l -d part_help -a part
    case "$answer[1]" in
        files) _files ;;
        files*) _files -g "*${answer[1]#files}" ;;
    esac
}
if [[ "$funcstack[1]" == _sonde ]]; then _sonde "$@"; else compdef _sonde sonde sonde.pyz; fi
"""

_FISH = r"""# Written by sonde completion fish
function __sonde_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l answer ($before[1] completion fish -- $before[2..] "$current" 2>/dev/null)
    for line in $answer[2..]
        string replace \x01 '' -- $line
    end
    switch "$answer[1]"
        case files
            __fish_complete_path "$current"
        case 'files*'
            __fish_complete_suffix "$current" (string replace files '' -- $answer[1])
    end
end
complete -c sonde -f -a '(__sonde_complete)'
complete -c sonde.pyz -f -a '(__sonde_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
FILES = {"bash": "share/bash-completion/completions/sonde", "zsh": "share/zsh/site-functions/_sonde",
         "fish": "share/fish/vendor_completions.d/sonde.fish"}  # below a prefix, where each looks for them


def answer_shell(shell: str, words: list[str]) -> str:
    """What a script is told. bash sends its line as far as the cursor and what it will replace, others words."""
    quote = ""
    if shell == "bash":
        line, replaced = [*words, "", ""][:2]
        (_, *before, current), quote = split_line(line)
        answer, cut = complete_words(before, current), max(0, len(current) - len(replaced))
    else:
        *before, current = words or [""]
        if shell == "fish":
            (*_, current), quote = split_line(current)
        answer, cut = complete_words(before, current), 0
    if quote and len(answer.candidates) == 1 and answer.candidates[0].is_part:  # alone it would end the quotes
        answer.candidates.append(Candidate(answer.candidates[0].word + " ", is_part=True))
    return _answer_text(answer, cut)


def _answer_text(answer: Answer, cut: int) -> str:
    """``cut``: the first characters of each word stand on the line, and stay."""
    lines = ["-" if answer.files is None else f"files{answer.files}"]
    for each in answer.candidates:
        if "\n" not in each.word and "\t" not in each.word:
            lines.append(f"{each.word[cut:]}{PART * each.is_part}\t{each.help}".replace("\n", " "))
    return "\n".join(lines) + "\n"


def split_line(line: str) -> tuple[list[str], str]:
    """The words of a line as far as it was typed, without what quotes them: the last one, which may be empty, is at the
    cursor. And the quote that is open there."""
    words, current, quote, is_begun = [], "", "", False
    at = 0
    while at < len(line):
        char = line[at]
        if quote == "'" and char != "'" or quote == '"' and char not in '"\\':
            current += char
        elif char == quote:
            quote = ""
        elif char == "\\" and at + 1 < len(line):
            at += 1
            current += line[at] if not quote or line[at] in '"\\$`' else char + line[at]
        elif not quote and char in "'\"":
            quote = char
        elif not quote and char in " \t\n":
            if current or is_begun:
                words.append(current)
            current, is_begun = "", False
            at += 1
            continue
        else:
            current += char
        is_begun = True
        at += 1
    return [*words, current], quote
