#[ home
set -gx CUDA_HOME __place__
set -gx CUDA_PATH __place__
#]
#[ front
if not contains -- __folder__ $__name__
    if test -n "$__name__"
        set -gx __name__ __folder__:"$__name__"
    else
        set -gx __name__ __folder__
    end
end
#]
#[ archs
set -gx TORCH_CUDA_ARCH_LIST __archs__
#]
