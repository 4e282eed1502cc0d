# Written by cuenv hook; changes here are lost. Take it away with: cuenv hook --remove
if test -n "$CONDA_PREFIX"
    set -l _cuenv_n "$_CUENV_HOOK_DEPTH"
    string match -qr '^[1-9][0-9]?$' -- "$_cuenv_n"; or set _cuenv_n 0
    set -l _cuenv_at _CUENV_HOOK_PREFIX_$_cuenv_n
    if test $_cuenv_n -gt 0 -a "$$_cuenv_at" = "$CONDA_PREFIX"
        for _cuenv_v in __variables__
            set -l _cuenv_old _CUENV_HOOK_{$_cuenv_v}_$_cuenv_n
            set -l _cuenv_how
            set -l _cuenv_was
            # a substitution would cut the value at its line breaks
            printf %s "$$_cuenv_old" | begin
                read -z -n 1 _cuenv_how
                read -z _cuenv_was
            end
            if test "$_cuenv_how" = s
                set -gx $_cuenv_v "$_cuenv_was"
            else if test "$_cuenv_how" = u
                set -eg $_cuenv_v
            end
            set -eg $_cuenv_old
        end
        set -eg $_cuenv_at
        if test $_cuenv_n -gt 1
            set -gx _CUENV_HOOK_DEPTH (math $_cuenv_n - 1)
        else
            set -eg _CUENV_HOOK_DEPTH
        end
    end
end
