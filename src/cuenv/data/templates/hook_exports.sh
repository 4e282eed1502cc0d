# shellcheck shell=sh
#[ home
export CUDA_HOME=__place__
export CUDA_PATH=__place__
#]
#[ front
case ":${__name__-}:" in *:__folder__:*) ;; *) export __name__=__folder__"${__name__:+:$__name__}" ;; esac
#]
#[ archs
export TORCH_CUDA_ARCH_LIST=__archs__
#]
