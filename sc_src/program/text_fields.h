// The fields of instructions and shapes in the text format, one line each: the writer and the
// reader are both generated from here. `Archive` is FieldWriter (text_writer.cpp) or FieldReader
// (text_reader.cpp).
#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include <tilewright/program/program.h>

namespace tilewright::program_detail {

/// Whether the text has a field: `required` and `shown` fields are always written; `shown` and
/// `optional` ones have a default that is taken when they are not given; a field that is `unused`
/// here must hold its default, and its key is refused.
enum class Use { required, shown, optional, unused };

/// The enumerators first .. last.
template <class Enum>
std::vector<Enum> choices(Enum first, Enum last) {
  std::vector<Enum> list;
  for (auto i = static_cast<int>(first); i <= static_cast<int>(last); ++i) {
    list.push_back(static_cast<Enum>(i));
  }
  return list;
}

inline Engine default_engine(Opcode op) {
  switch (op) {
    case Opcode::compute:
      return Engine::matrix;
    case Opcode::load:
    case Opcode::allocate:
    case Opcode::release:
      return Engine::dma_in;
    case Opcode::store:
      return Engine::dma_out;
    case Opcode::send:
      return Engine::net_send;
    case Opcode::recv:
      return Engine::net_recv;
  }
  return Engine::matrix;
}

/// All fields of an instruction but `op` and `name`, which open its line.
template <class Archive, class I>
void instruction_fields(Archive& a, I& i) {
  using O = Opcode;
  const auto on = [&i](std::initializer_list<Opcode> ops, Use use) {
    for (const Opcode op : ops) {
      if (i.op == op) return use;
    }
    return Use::unused;
  };
  const Use needed = Use::required, shown = Use::shown, maybe = Use::optional;
  const bool compute = i.op == O::compute;

  if (compute) a.shape("shape", needed, i.operand);
  const ComputeShape* shape = compute ? a.shape_of(i) : nullptr;
  const Engine engine = shape ? shape->engine : default_engine(i.op);
  const std::uint32_t parts = shape ? shape->denominator : 0;
  a.choice("engine", on({O::compute, O::allocate, O::release}, shown), i.engine, engine,
           compute ? std::vector<Engine>{engine} : choices(Engine::dma_in, Engine::dma_out));
  a.count("begin", on({O::compute}, maybe), i.begin, 0, 0, parts > 0 ? parts - 1 : 0);
  const std::uint32_t rest = parts > i.begin ? parts - i.begin : 0;
  a.count("amount", on({O::compute}, shown), i.amount, rest, 1, rest);
  a.channel("channel", on({O::send, O::recv}, needed), i.channel);
  if (!compute && !i.shared) {
    a.count("peers", on({O::send, O::recv}, needed), i.operand, 0, 0, kNone);
  }
  const bool moves = i.op == O::load || i.op == O::store;
  a.choice("space", moves ? maybe : on({O::allocate, O::release}, needed), i.space, Space::dram,
           choices(moves ? Space::dram : Space::sram, Space::host));
  a.share("bytes", compute ? Use::unused : needed, i.share);
  a.bytes("head", on({O::load}, maybe), i.head, 0);
  std::uint32_t sharers = i.shared ? i.operand : kNone;
  a.count("shared", on({O::load}, maybe), sharers, kNone, 0, kNone - 1);
  if constexpr (!std::is_const_v<I>) {
    i.shared = sharers != kNone;
    if (i.shared) i.operand = sharers;
  }
  a.earlier("until", on({O::store, O::compute}, maybe), i.until);
  a.choice("phase", shown, i.phase, Phase::forward, choices(Phase::forward, Phase::optimizer));
  const bool to_host = moves && i.space == Space::host;
  a.choice("cause", on({O::load, O::store, O::send, O::recv}, shown), i.cause,
           to_host ? Cause::offload : Cause::memory,
           choices(to_host ? Cause::offload : Cause::memory, Cause::offload));
  a.after("after", maybe, i.after, i.after_previous);
}

/// All fields of a shape but `engine`, which opens its line.
template <class Archive, class S>
void shape_fields(Archive& a, S& s) {
  const bool matrix = s.engine == Engine::matrix;
  const Use on_matrix = matrix ? Use::required : Use::unused;
  a.name("format", Use::required, s.format);
  a.count("parts", Use::shown, s.denominator, 1, 1, kNone);
  a.extent("batch", matrix ? Use::shown : Use::unused, s.batch, 1);
  a.extent("m", on_matrix, s.m, 0);
  a.extent("n", on_matrix, s.n, 0);
  a.extent("k", on_matrix, s.k, 0);
  const double flop = matrix ? 2.0 * static_cast<double>(s.batch) * static_cast<double>(s.m) *
                                   static_cast<double>(s.n) * static_cast<double>(s.k)
                             : 0;
  a.real("flop", matrix ? Use::shown : Use::unused, s.flop, flop);
  a.real("elements", matrix ? Use::unused : Use::required, s.elements, 0);
  a.real("sram_bytes", Use::shown, s.sram_bytes, 0);
  a.real("sram_written", Use::optional, s.sram_written, 0);
  a.real("dma_in", Use::optional, s.dma_in, 0);
  a.real("dma_out", Use::optional, s.dma_out, 0);
}

/// A field of a call that may run over several values in one line.
struct CallField {
  const char* key;
  std::uint32_t Call::*field;
  bool none_allowed;  ///< kNoMicroBatch, written "none"
  bool always_written;
};
constexpr CallField kCallFields[] = {{"micro_batch", &Call::micro_batch, true, true},
                                     {"layer", &Call::layer, false, true},
                                     {"after", &Call::after, false, false}};

}  // namespace tilewright::program_detail
