# shellcheck shell=sh
# Written by cuenv hook; changes here are lost. Take it away with: cuenv hook --remove
if [ -n "${CONDA_PREFIX-}" ]; then
  _cuenv_n="${_CUENV_HOOK_DEPTH-}"
  case "$_cuenv_n" in '' | *[!0-9]* | 0* | ???*) _cuenv_n=0 ;; esac
  _cuenv_on=no
  _cuenv_i=1
  while [ "$_cuenv_i" -le "$_cuenv_n" ]; do
    eval "_cuenv_at=\"\${_CUENV_HOOK_PREFIX_$_cuenv_i-}\""
    if [ "$_cuenv_at" = "$CONDA_PREFIX" ]; then _cuenv_on=yes; fi
    _cuenv_i=$((_cuenv_i + 1))
  done
  if [ "$_cuenv_on" = no ]; then
    _cuenv_n=$((_cuenv_n + 1))
    eval "export _CUENV_HOOK_PREFIX_$_cuenv_n=\"\$CONDA_PREFIX\""
    # shellcheck disable=SC2043 # the placeholder stands for several names
    for _cuenv_v in __variables__; do
      eval "_cuenv_at=\"\${$_cuenv_v+s}\${$_cuenv_v-}\""
      if [ -z "$_cuenv_at" ]; then _cuenv_at=u; fi
      eval "export _CUENV_HOOK_${_cuenv_v}_$_cuenv_n=\"\$_cuenv_at\""
    done
    export _CUENV_HOOK_DEPTH="$_cuenv_n"
  fi
#[ home
  export CUDA_HOME=__place__
  export CUDA_PATH=__place__
#]
#[ front
  _cuenv_at="$CONDA_PREFIX"/__folder__
  case ":${__name__-}:" in
    *":$_cuenv_at:"*) ;;
    *) export __name__="$_cuenv_at${__name__:+:$__name__}" ;;
  esac
#]
#[ archs
  export TORCH_CUDA_ARCH_LIST=__archs__
#]
  unset _cuenv_n _cuenv_i _cuenv_at _cuenv_on _cuenv_v
fi
