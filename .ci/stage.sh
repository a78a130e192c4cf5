# Sourced: stage and fail, by which scripts here show slow work.

fail() {
  echo "error: $*" >&2
  exit 1
}

# stage TITLE COMMAND...: runs the command with its output in a file. Prints a line at the start, a
# line every 5 s with the current work, and a line at the end. After a failure stage prints the end
# of the output and ends the script.
stage() {
  local title=$1 log status=0 start=$SECONDS
  shift
  log=$(mktemp)
  echo "==> $title"
  (
    while sleep 5; do
      printf '    %4d s  %s\n' $((SECONDS - start)) "$(tail -n 1 "$log" | cut -c1-100)"
    done
  ) 9>&- &
  ticker=$!
  trap 'kill $ticker 2>/dev/null' EXIT
  "$@" >"$log" 2>&1 </dev/null || status=$?
  kill $ticker
  wait $ticker 2>/dev/null || true
  trap - EXIT
  if [ "$status" != 0 ]; then
    tail -n 25 "$log" >&2
    fail "$title: '$1' ended with status $status after $((SECONDS - start)) s (whole output: $log)"
  fi
  rm -f "$log"
  echo "    done in $((SECONDS - start)) s"
}
