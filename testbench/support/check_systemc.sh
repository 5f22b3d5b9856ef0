#!/usr/bin/env bash
# Checks that the sources keep to the rules of SystemC 3.0 (IEEE 1666-2023): nothing that it deprecates,
# and what only SystemC 2.3 needs in the one guarded place, sc_include/tilewright/hardware/process.h.
# Runs from the repository's root, wherever it is called.
#
# With a compiler as argument it also compiles the sources that register processes as SystemC 3 would
# (testbench/support/systemc3.h), whichever SystemC is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

guarded=sc_include/tilewright/hardware/process.h
status=0

sources() {
  find sc_include sc_src platforms testbench -type f \( -name '*.h' -o -name '*.cpp' \) |
    grep -vFx testbench/support/systemc3.h
}

# forbid PATTERN REASON [file allowed]: comments do not count.
forbid() {
  local pattern=$1 reason=$2 allowed=${3:-} file line text
  while IFS=: read -r file line text; do
    [[ $file == "$allowed" ]] && continue
    echo "$file:$line: $reason:$text" >&2
    status=1
  done < <(sources | xargs grep -nE -- "$pattern" | grep -vE '^[^:]+:[0-9]+:[[:space:]]*//' || true)
}

# Deprecated by SystemC 3.0.
forbid '\bSC_HAS_PROCESS\b' 'use TILEWRIGHT_HAS_PROCESS' "$guarded"
forbid '\bsc_[sg]et_default_time_unit\b' 'deprecated; give every sc_time its unit'
forbid '\bsc_time[ ({]+[0-9.a-z_]+[[:space:]]*,[[:space:]]*(true|false)\b' \
  'the constructor sc_time(value, bool) is deprecated; give it a unit'
# Deprecated longer, or not part of the standard.
forbid '\bnotify_delayed\b|\.timed_out[[:space:]]*\(' 'use notify(sc_time)'
forbid '\bsc_cycle[[:space:]]*\(|\bsc_initialize[[:space:]]*\(|\bsc_simulation_time\b' \
  'use sc_start() and sc_time_stamp()'
forbid '\bsensitive_(pos|neg)\b|\bsensitive[[:space:]]*\(' 'use sensitive <<'
forbid '\bwait_until\b|\bwatching[[:space:]]*\(|\bend_module[[:space:]]*\(' 'no longer in SystemC'
forbid '\bsc_(in|inout|out)_clk\b|\bsc_bit\b|\bsc_string\b' 'use sc_in<bool>, bool, std::string'
forbid '\bsc_get_curr_process_(handle|kind)\b' 'use sc_get_current_process_handle()'
forbid '\bsc_(get_curr_)?simcontext\b|\bsimcontext[[:space:]]*\(' 'the inside of one kernel'
forbid '\bSC_DISABLE_API_VERSION_CHECK\b' 'hides a mismatch of library and compiler'
# House rules that keep the above true.
forbid '#[[:space:]]*include[[:space:]]*[<"](systemc|tlm)\.h[>"]' 'include <systemc> or <tlm>'
forbid '\bSC_VERSION_MAJOR\b' "versions of SystemC are told apart in $guarded only" "$guarded"

if (($#)); then
  include=$(pkg-config --cflags systemc 2>/dev/null || true)
  while read -r unit; do
    # Word splitting is meant: pkg-config prints options.
    "$1" -std=c++17 -fsyntax-only -Werror=deprecated-declarations -Isc_include $include \
      -include testbench/support/systemc3.h "$unit" || { echo "$unit: not SystemC 3" >&2; status=1; }
  done < <(grep -lrE '\b(SC_METHOD|SC_THREAD|SC_CTHREAD)\b' sc_src --include='*.cpp' | sort)
fi
exit "$status"
