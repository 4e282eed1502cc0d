# Written by cuenv hook; changes here are lost. Take it away with: cuenv hook --remove
if test -n "$CONDA_PREFIX"
    set -l _cuenv_n "$_CUENV_HOOK_DEPTH"
    string match -qr '^[1-9][0-9]?$' -- "$_cuenv_n"; or set _cuenv_n 0
    set -l _cuenv_on no
    set -l _cuenv_i 1
    while test $_cuenv_i -le $_cuenv_n
        set -l _cuenv_at _CUENV_HOOK_PREFIX_$_cuenv_i
        test "$$_cuenv_at" = "$CONDA_PREFIX"; and set _cuenv_on yes
        set _cuenv_i (math $_cuenv_i + 1)
    end
    if test $_cuenv_on = no
        set _cuenv_n (math $_cuenv_n + 1)
        set -gx _CUENV_HOOK_PREFIX_$_cuenv_n "$CONDA_PREFIX"
        for _cuenv_v in __variables__
            if set -q $_cuenv_v
                set -gx _CUENV_HOOK_{$_cuenv_v}_$_cuenv_n "s$$_cuenv_v"
            else
                set -gx _CUENV_HOOK_{$_cuenv_v}_$_cuenv_n u
            end
        end
        set -gx _CUENV_HOOK_DEPTH $_cuenv_n
    end
#[ home
    set -gx CUDA_HOME __place__
    set -gx CUDA_PATH __place__
#]
#[ front
    set -l _cuenv_at "$CONDA_PREFIX"/__folder__
    if not contains -- "$_cuenv_at" $__name__
        if test -n "$__name__"
            set -gx __name__ "$_cuenv_at:$__name__"
        else
            set -gx __name__ "$_cuenv_at"
        end
    end
#]
#[ archs
    set -gx TORCH_CUDA_ARCH_LIST __archs__
#]
end
