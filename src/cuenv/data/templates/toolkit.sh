# shellcheck shell=sh
# __head__
#[ back
# Back to what was: cuenv export shell --off
#]
if [ -n "${_CUENV_SHELL_ON-}" ]; then
  # shellcheck disable=SC2043 # the placeholder stands for several names
  for _cuenv_v in __variables__; do
    _cuenv_at=
    eval "_cuenv_at=\"\${_CUENV_SHELL_$_cuenv_v-}\""
    case "$_cuenv_at" in
      s*) eval "export $_cuenv_v=\"\${_cuenv_at#s}\"" ;;
      u) unset "$_cuenv_v" ;;
    esac
    unset "_CUENV_SHELL_$_cuenv_v"
  done
  unset _CUENV_SHELL_ON _cuenv_v _cuenv_at
fi
#[ switch
# shellcheck disable=SC2043 # the placeholder stands for several names
for _cuenv_v in __variables__; do
  eval "_cuenv_at=\"\${$_cuenv_v+s}\${$_cuenv_v-}\""
  if [ -z "$_cuenv_at" ]; then _cuenv_at=u; fi
  eval "export _CUENV_SHELL_$_cuenv_v=\"\$_cuenv_at\""
done
export _CUENV_SHELL_ON=yes
for _cuenv_v in PATH LD_LIBRARY_PATH; do
  eval "_cuenv_rest=\"\${$_cuenv_v-}\""
  _cuenv_kept=
  if [ -n "$_cuenv_rest" ]; then _cuenv_rest="$_cuenv_rest:"; fi
  while [ -n "$_cuenv_rest" ]; do
    _cuenv_at="${_cuenv_rest%%:*}"
    _cuenv_rest="${_cuenv_rest#*:}"
    case "$_cuenv_at" in
      __patterns__) ;;
      *) _cuenv_kept="$_cuenv_kept:$_cuenv_at" ;;
    esac
  done
  eval "export $_cuenv_v=\"\${_cuenv_kept#:}\""
done
if [ -z "$LD_LIBRARY_PATH" ]; then unset LD_LIBRARY_PATH; fi
export CUDA_HOME=__place__
export CUDA_PATH="$CUDA_HOME"
export PATH="$CUDA_HOME/bin${PATH:+:$PATH}"
unset _cuenv_v _cuenv_at _cuenv_rest _cuenv_kept
#]
