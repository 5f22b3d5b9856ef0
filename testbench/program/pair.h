// A small program text for the tests, and the errors of changed ones.
#pragma once

#include <stdexcept>
#include <string>

#include <tilewright/base/error.h>
#include <tilewright/program/text.h>

namespace tilewright::test {

/// Two tiles: one computes and sends, the other receives and stores.
inline const char* const kPair = R"(tilewright-program 1
channel wire
shape fc: matrix format=fp16 parts=2 m=8 n=4 k=2
segment producer
  weights: load fc bytes=64
  first:   compute fc shape=fc amount=1 after=weights
           compute fc shape=fc amount=1 after=weights
           send result channel=wire peers=0 bytes=4KiB after=first,2 cause=pipeline
segment consumer
  recv result channel=wire peers=0 bytes=4096 cause=pipeline
  store result bytes=4096 after=0
group left
  tiles 0
  peers 1
  call producer micro_batch=0..3 layer=2
group right dram_bytes=1MiB
  tiles 1
  peers 0
  call consumer micro_batch=0..3
)";

inline Program pair() { return parse_program(kPair); }

inline std::string error_of(const std::string& text) {
  try {
    parse_program(text, "p.twp");
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("no '" + from + "'");
  return text.replace(at, from.size(), to);
}

}  // namespace tilewright::test
