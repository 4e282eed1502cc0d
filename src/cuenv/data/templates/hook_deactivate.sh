# shellcheck shell=sh
# Written by cuenv hook; changes here are lost. Take it away with: cuenv hook --remove
if [ -n "${CONDA_PREFIX-}" ]; then
  _cuenv_n="${_CUENV_HOOK_DEPTH-}"
  case "$_cuenv_n" in '' | *[!0-9]* | 0* | ???*) _cuenv_n=0 ;; esac
  _cuenv_at=
  if [ "$_cuenv_n" -gt 0 ]; then eval "_cuenv_at=\"\${_CUENV_HOOK_PREFIX_$_cuenv_n-}\""; fi
  if [ "$_cuenv_at" = "$CONDA_PREFIX" ]; then
    # shellcheck disable=SC2043 # the placeholder stands for several names
    for _cuenv_v in __variables__; do
      eval "_cuenv_at=\"\${_CUENV_HOOK_${_cuenv_v}_$_cuenv_n-}\""
      case "$_cuenv_at" in
        s*) eval "export $_cuenv_v=\"\${_cuenv_at#s}\"" ;;
        u) unset "$_cuenv_v" ;;
      esac
      unset "_CUENV_HOOK_${_cuenv_v}_$_cuenv_n"
    done
    unset "_CUENV_HOOK_PREFIX_$_cuenv_n"
    if [ "$_cuenv_n" -gt 1 ]; then
      export _CUENV_HOOK_DEPTH="$((_cuenv_n - 1))"
    else
      unset _CUENV_HOOK_DEPTH
    fi
  fi
  unset _cuenv_n _cuenv_i _cuenv_at _cuenv_on _cuenv_v
fi
