# bash completion for plumb. Commands and options are asked of the program itself, so that this file cannot fall behind; only the
# values of options stand here.
_plumb() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local plumb=${COMP_WORDS[0]/#\~/$HOME} words=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$("$plumb" --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p') --help --version"
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi
    case $prev in
        --backend | --reference) words="eager jit ort" ;;
        --format)
            words=$("$plumb" "$command" --help 2>/dev/null | sed -n 's/^ *--format NAME *//p' | sed 's/([a-z]*)//g; s/ or /, /g' | tr -d ,)
            ;;
        --metric) words="psnr mae mse max_abs mean_rel rmse cosine snr max_ulp mismatch" ;;
        --profile) words="plumb torch" ;;
        --fill) words="zeros ones random" ;;
        --save) [ "$command" = run ] && words="all none" || words="all suspects none" ;;
        --save-as) words="npy pb" ;;
        --amp) words="fp16 bf16" ;;
        --by) words="module op dtype" ;;
        --sort) words="worst order" ;;
        --backward) [ "$command" = convert ] && words="joint forward backward" ;;
        --repro-level) words="0 1 2 3 4" ;;
        --inject)
            words="compile-error@ runtime-error@ crash@ hang@ accuracy@ nondeterministic@ nan@ bf16@ offset@ scale@ sign@ transpose@ shift@ saturate@ channel@ tail@ zero@ one-element@"
            ;;
        store) [[ $cur == -* ]] || words="ls verify gc" ;;
    esac
    if [ -z "$words" ] && [[ $cur == -* ]]; then
        words=$("$plumb" "$command" --help 2>/dev/null | grep -o -- '^  .\{4\}--[a-z0-9-]*' | grep -o -- '--.*')
    fi
    [ -z "$words" ] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -o bashdefault -o default -F _plumb plumb
