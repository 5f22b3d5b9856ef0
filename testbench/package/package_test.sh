#!/usr/bin/env bash
# package_test.sh TEST CMAKE CPACK SOURCE BUILD CXX VERSION: one test of the installed package.
# `install` puts the built tree under BUILD/package/prefix, where the others find it.
set -euo pipefail
test=$1 cmake=$2 cpack=$3 source=$4 build=$5 cxx=$6 version=$7
root=$build/package prefix=$build/package/prefix
unset SYSTEMC_HOME

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "package.$test: $*" >&2; exit 1; }
expect() { grep -qF -- "$1" "$2" || { cat "$2" >&2; fail "'$1' is missing in $2"; }; }

# configure [option...]: the consumer, copied away from our source tree.
configure() {
  cp -r "$source/testbench/package/consumer" "$scratch/consumer"
  "$cmake" -S "$scratch/consumer" -B "$scratch/build" -G Ninja "-DCMAKE_CXX_COMPILER=$cxx" \
    "-DCMAKE_PREFIX_PATH=$prefix" "$@" >"$scratch/configure.log" 2>&1
}
# runs BINARY: it must give the iteration time that the installed executable reports.
runs() {
  local data=$prefix/share/tilewright
  local job=("$data/platforms/tx8-die.yaml" "$data/workloads/programs/ring-all-reduce.twp")
  "$1" "${job[@]}" >"$scratch/out"
  "$prefix/bin/tilewright" program --run "${job[1]}" --platform "${job[0]}" --json - \
    >"$scratch/result.json" 2>"$scratch/err"
  local seconds
  seconds=$(sed -nE 's/.*"iteration_time_s": ([0-9.e+-]+),.*/\1/p' "$scratch/result.json")
  expect "iteration $(awk "BEGIN { printf \"%.0f\", $seconds * 1e12 }") ps" "$scratch/out"
}

case $test in
  install)
    rm -rf "$prefix"
    "$cmake" --install "$build" --prefix "$prefix" >"$scratch/log"
    ;;

  contents)
    diff -r "$source/sc_include/tilewright" "$prefix/include/tilewright" || fail "headers differ"
    diff -r "$source/workloads" "$prefix/share/tilewright/workloads" || fail "workloads differ"
    diff "$source/platforms/tx8-wafer.yaml" "$prefix/share/tilewright/platforms/tx8-wafer.yaml"
    # Relocatable: nothing installed knows where it was built.
    ! grep -rlF -e "$source" -e "$build" "$prefix/lib" --include='*.cmake' --include='*.pc' ||
      fail "an installed file names the build machine's folders"
    [[ $("$prefix/bin/tilewright" --version) == "tilewright $version" ]] || fail "wrong version"
    ;;

  cmake_config)
    configure || { cat "$scratch/configure.log" >&2; fail "configuring failed"; }
    expect "tilewright data: $prefix/share/tilewright" "$scratch/configure.log"
    "$cmake" --build "$scratch/build" >"$scratch/build.log" 2>&1 ||
      { cat "$scratch/build.log" >&2; fail "the build failed"; }
    runs "$scratch/build/consumer"
    ;;

  pkg_config)
    pc=$(find "$prefix" -name tilewright.pc)
    export PKG_CONFIG_PATH=${pc%/*}
    [[ $(pkg-config --modversion tilewright) == "$version" ]] || fail "wrong version"
    # Word splitting is meant: pkg-config prints options.
    "$cxx" -std=c++17 $(pkg-config --cflags tilewright) "$source/testbench/package/consumer/main.cpp" \
      -o "$scratch/consumer" $(pkg-config --libs tilewright)
    runs "$scratch/consumer"
    ;;

  one_layer)
    # A tool that only writes programs needs no SystemC in its binary.
    mkdir "$scratch/tool"
    cat >"$scratch/tool/main.cpp" <<'CPP'
#include <iostream>

#include <tilewright/program/text.h>

int main() { std::cout << tilewright::program_text(tilewright::Program{}); }
CPP
    cat >"$scratch/tool/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(tool LANGUAGES CXX)
find_package(tilewright CONFIG REQUIRED)
add_executable(tool main.cpp)
target_link_libraries(tool PRIVATE tilewright::program)
CMAKE
    "$cmake" -S "$scratch/tool" -B "$scratch/build" -G Ninja "-DCMAKE_CXX_COMPILER=$cxx" \
      "-DCMAKE_PREFIX_PATH=$prefix" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail configure; }
    "$cmake" --build "$scratch/build" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail build; }
    "$scratch/build/tool" >"$scratch/out"
    expect "tilewright-program 1" "$scratch/out"
    ! ldd "$scratch/build/tool" | grep -q systemc || fail "the tool links SystemC"
    ;;

  wrong_standard)
    ! configure -DCMAKE_CXX_STANDARD=20 || fail "a C++20 consumer was accepted"
    tr -s ' \n' ' ' <"$scratch/configure.log" >"$scratch/log"
    expect "are built for C++17, but this project sets CMAKE_CXX_STANDARD to 20" "$scratch/log"
    expect "Write set(CMAKE_CXX_STANDARD 17)" "$scratch/log"
    # Where CMake cannot see it, the compiler says it.
    ! "$cxx" -std=c++20 -fsyntax-only "-I$prefix/include" "$scratch/consumer/main.cpp" \
      >"$scratch/log" 2>&1 || fail "C++20 was compiled"
    expect "compile with -std=c++17" "$scratch/log"
    rm -rf "$scratch/build" "$scratch/consumer"
    configure -DCMAKE_CXX_STANDARD=17 || { cat "$scratch/configure.log" >&2; fail "C++17 was refused"; }
    ;;

  systemc_home)
    # The system's SystemC under another roof.
    mkdir -p "$scratch/systemc/include" "$scratch/systemc/lib-linux64"
    include=$(pkg-config --variable=includedir systemc) lib=$(pkg-config --variable=libarchdir systemc)
    for part in systemc systemc.h sysc tlm tlm.h tlm_core tlm_utils; do
      [[ -e $include/$part ]] && ln -s "$include/$part" "$scratch/systemc/include/$part"
    done
    ln -s "$lib/libsystemc.so" "$scratch/systemc/lib-linux64/libsystemc.so"
    SYSTEMC_HOME=$scratch/systemc configure || { cat "$scratch/configure.log" >&2; fail "not found"; }
    expect "SystemCAny_LIBRARY:FILEPATH=$scratch/systemc/lib-linux64" "$scratch/build/CMakeCache.txt"
    # A SYSTEMC_HOME that holds none is an error, even where another SystemC is installed.
    rm -rf "$scratch/build" "$scratch/consumer"
    ! configure -DSYSTEMC_HOME=/nowhere || fail "an empty SYSTEMC_HOME was passed over"
    expect "SYSTEMC_HOME is '/nowhere'" "$scratch/configure.log"
    ;;

  systemc_cmake_config)
    # As SystemC's own build installs it.
    mkdir -p "$scratch/systemc/lib/cmake/SystemCLanguage"
    cat >"$scratch/systemc/lib/cmake/SystemCLanguage/SystemCLanguageConfig.cmake" <<CMAKE
add_library(SystemC::systemc SHARED IMPORTED)
set_target_properties(SystemC::systemc PROPERTIES
  IMPORTED_LOCATION "$(pkg-config --variable=libarchdir systemc)/libsystemc.so"
  INTERFACE_INCLUDE_DIRECTORIES "$(pkg-config --variable=includedir systemc)")
CMAKE
    configure "-DCMAKE_PREFIX_PATH=$prefix;$scratch/systemc" ||
      { cat "$scratch/configure.log" >&2; fail "not found"; }
    expect "SystemCLanguage_DIR:PATH=$scratch/systemc" "$scratch/build/CMakeCache.txt"
    ! grep -q '^SystemCAny_LIBRARY' "$scratch/build/CMakeCache.txt" || fail "searched all the same"
    rm -rf "$scratch/build" "$scratch/consumer"
    configure "-DSYSTEMC_HOME=$scratch/systemc" ||
      { cat "$scratch/configure.log" >&2; fail "not found below SYSTEMC_HOME"; }
    expect "SystemCLanguage_DIR:PATH=$scratch/systemc" "$scratch/build/CMakeCache.txt"
    ;;

  subproject)
    # Inside another project: the library alone, no tests, nothing to install, no Boost.
    mkdir "$scratch/parent"
    cp "$source/testbench/package/consumer/main.cpp" "$scratch/parent"
    cat >"$scratch/parent/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES CXX)
set(CMAKE_DISABLE_FIND_PACKAGE_Boost ON)
set(CMAKE_DISABLE_FIND_PACKAGE_GTest ON)
add_subdirectory("$source" tilewright)
add_executable(parent main.cpp)
target_link_libraries(parent PRIVATE tilewright::tilewright)
CMAKE
    "$cmake" -S "$scratch/parent" -B "$scratch/build" -G Ninja "-DCMAKE_CXX_COMPILER=$cxx" \
      >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "configuring failed"; }
    ! grep -q 'install.*tilewright' "$scratch/build/tilewright/cmake_install.cmake" ||
      fail "the subproject installs something"
    ;;

  deb)
    (cd "$scratch" && "$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$scratch/debs") \
      >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "cpack failed"; }
    runtime=$(ls "$scratch"/debs/tilewright_*.deb) dev=$(ls "$scratch"/debs/libtilewright-dev_*.deb)
    dpkg-deb -f "$runtime" Package Version Depends >"$scratch/control"
    expect "Package: tilewright" "$scratch/control"
    expect "Version: $version" "$scratch/control"
    for library in libsystemc libyaml-cpp libfmt libboost-program-options libstdc++6 libc6; do
      expect "$library" "$scratch/control"
    done
    dpkg-deb -f "$dev" Package Depends >"$scratch/control"
    for package in "tilewright (= $version)" libsystemc-dev libyaml-cpp-dev libfmt-dev \
      nlohmann-json3-dev; do
      expect "$package" "$scratch/control"
    done
    dpkg-deb -x "$runtime" "$scratch/root"
    dpkg-deb -x "$dev" "$scratch/root"
    [[ -e $scratch/root/usr/include/tilewright/simulate/simulate.h ]] || fail "no headers"
    data=$scratch/root/usr/share/tilewright
    (cd / && "$scratch/root/usr/bin/tilewright" run --platform "$data/platforms/tx8-die.yaml" \
      --model "$data/workloads/models/gpt2" --plan "$data/workloads/plans/gpt2-tx8-die.yaml" \
      --set plan.batch.global=4) >"$scratch/report" 2>"$scratch/err" ||
      { cat "$scratch/err" >&2; fail "the extracted executable failed"; }
    expect "Iteration time" "$scratch/report"
    ;;

  *)
    fail "no such test"
    ;;
esac
