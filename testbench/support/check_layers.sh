#!/usr/bin/env bash
# Checks that each layer includes only the layers it may know (docs/architecture.md), and that no
# library source prints or ends the process. Runs from the repository's root, wherever it is called.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# layer: what it may include, itself understood.
declare -A may=(
  [base]=""
  [workload]="base"
  [machine]="base"
  [program]="base"
  [plan]="base workload machine program"
  [hardware]="base machine program"
  [observe]="base machine program hardware"
  [cosim]="base machine program hardware"
  [simulate]="base workload machine program plan hardware observe cosim"
)

status=0
report() { echo "$*" >&2; status=1; }

for folder in sc_include/tilewright/*/ sc_src/*/; do
  layer=$(basename "$folder")
  [[ $layer == cli ]] && continue # the executable knows everything
  if [[ -z ${may[$layer]+known} ]]; then
    report "$folder: '$layer' is not a layer; add it to check_layers.sh and docs/architecture.md"
    continue
  fi
  while IFS=: read -r file line text; do
    included=$(sed -E 's|.*[<"]tilewright/([^/">]+).*|\1|' <<<"$text")
    [[ " $layer ${may[$layer]} " == *" $included "* ]] ||
      report "$file:$line: layer '$layer' may not include '$included' (allowed: ${may[$layer]:-nothing})"
  done < <(grep -rnE '#[[:space:]]*include[[:space:]]*[<"]tilewright/' "$folder" || true)
  while IFS=: read -r file line text; do
    report "$file:$line: a library neither prints nor ends the process:$text"
  done < <(grep -rnE 'std::(cout|cerr|exit|_Exit|abort|quick_exit)\b|\bfmt::print\(' "$folder" || true)
  # SystemC belongs to the hardware and to what elaborates it.
  case $layer in
    hardware | cosim | simulate) ;;
    *)
      while IFS=: read -r file line text; do
        report "$file:$line: layer '$layer' may not include SystemC"
      done < <(grep -rnE '#[[:space:]]*include[[:space:]]*[<"](systemc|tlm)' "$folder" || true)
      ;;
  esac
done
exit "$status"
