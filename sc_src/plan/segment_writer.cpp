#include "segment_writer.h"

#include <algorithm>
#include <array>

#include <tilewright/base/error.h>

namespace tilewright {
namespace {

Engine engine_of(Opcode op) {
  switch (op) {
    case Opcode::load:
    case Opcode::allocate: return Engine::dma_in;
    case Opcode::store:
    case Opcode::release: return Engine::dma_out;
    case Opcode::send: return Engine::net_send;
    case Opcode::recv: return Engine::net_recv;
    case Opcode::compute: return Engine::matrix;
  }
  return Engine::matrix;
}

Share whole(std::int64_t bytes) { return {static_cast<std::uint64_t>(bytes), 1, 0}; }

// Amounts are 32-bit: a finer cut than this changes no time by a picosecond that matters.
constexpr std::int64_t kMostPieces = 1 << 20;

}  // namespace

SegmentWriter::SegmentWriter(Program& program, std::string name, const Residency& residency,
                             DType precision)
    : program_(program), residency_(residency), precision_(precision) {
  segment_.name = std::move(name);
}

std::uint32_t SegmentWriter::add(Instruction i, const Dependences& after) {
  // The latest per engine implies the earlier ones.
  std::array<std::int64_t, kEngines> latest;
  latest.fill(-1);
  for (const std::uint32_t d : after) {
    auto& l = latest[static_cast<int>(segment_.code[d].engine)];
    l = std::max(l, static_cast<std::int64_t>(d));
  }
  // In-order engines make a dependence on the instruction's own stream redundant.
  const bool completes_in_order =
      i.engine == Engine::matrix || i.engine == Engine::vector || i.engine == Engine::net_recv;
  if (completes_in_order) latest[static_cast<int>(i.engine)] = -1;
  std::size_t n = 0;
  for (const std::int64_t l : latest) {
    if (l < 0) continue;
    if (n == i.after.size()) {
      throw InternalError("segment " + segment_.name + ": too many dependences");
    }
    i.after[n++] = static_cast<std::uint32_t>(l);
  }
  segment_.code.push_back(i);
  return static_cast<std::uint32_t>(segment_.code.size() - 1);
}

std::uint32_t SegmentWriter::transfer(Opcode op, std::uint16_t name, Phase phase, Cause cause,
                                      Share share, const Dependences& after) {
  Instruction i;
  i.op = op;
  i.engine = engine_of(op);
  i.name = name;
  i.phase = phase;
  i.cause = cause;
  i.share = share;
  if (op == Opcode::load && !started_) {
    i.after_previous = true;
    started_ = true;
  }
  return add(i, after);
}

std::uint32_t SegmentWriter::message(Opcode op, std::uint16_t name, Phase phase, Cause cause,
                                     Channel channel, Peers peer, Share share,
                                     const Dependences& after) {
  Instruction i;
  i.op = op;
  i.engine = engine_of(op);
  i.name = name;
  i.phase = phase;
  i.cause = cause;
  i.channel = static_cast<std::uint16_t>(channel);
  i.operand = static_cast<std::uint32_t>(peer);
  i.share = share;
  return add(i, after);
}

std::uint32_t SegmentWriter::compute(std::uint16_t name, Phase phase, std::uint32_t shape,
                                     Engine engine, std::uint32_t amount,
                                     const Dependences& after) {
  Instruction i;
  i.op = Opcode::compute;
  i.engine = engine;
  i.name = name;
  i.phase = phase;
  i.operand = shape;
  i.amount = amount;
  if (!started_) {
    i.after_previous = true;
    started_ = true;
  }
  return add(i, after);
}

void SegmentWriter::allocate(Space space, std::int64_t bytes) {
  if (bytes == 0) return;
  Instruction i;
  i.op = Opcode::allocate;
  i.engine = Engine::dma_in;
  i.name = program_.intern("memory");
  i.space = space;
  i.share = whole(bytes);
  i.after_previous = true;
  add(i, {});
}

void SegmentWriter::release(Space space, std::int64_t bytes) {
  if (bytes == 0) return;
  Instruction i;
  i.op = Opcode::release;
  i.engine = Engine::dma_out;
  i.name = program_.intern("memory");
  i.space = space;
  i.share = whole(bytes);
  // The last instruction of every engine that holds data.
  Dependences last;
  for (const Engine e : {Engine::matrix, Engine::vector, Engine::net_recv}) {
    for (std::size_t k = segment_.code.size(); k-- > 0;) {
      if (segment_.code[k].engine == e) {
        last.push_back(static_cast<std::uint32_t>(k));
        break;
      }
    }
  }
  add(i, last);
}

void SegmentWriter::append_ready(const std::string& tensor, Dependences& to) const {
  const auto it = ready_.find(tensor);
  if (it != ready_.end()) to.insert(to.end(), it->second.begin(), it->second.end());
}

void SegmentWriter::receive(const std::string& tensor, TensorClass cls,
                            const std::vector<std::int64_t>& parts, Phase phase, Channel channel,
                            Peers from) {
  const std::uint16_t name = program_.intern("stage transfer");
  Dependences ready;
  for (const std::int64_t part : parts) {
    const std::uint32_t r =
        message(Opcode::recv, name, phase, Cause::pipeline, channel, from, whole(part), {});
    ready = {r};
    if (!residency_[cls]) {
      ready = {transfer(Opcode::store, name, phase, Cause::memory, whole(part), {r})};
    }
  }
  ready_[tensor] = ready;
}

void SegmentWriter::gate(const std::string& tensor) { append_ready(tensor, gate_); }

std::uint32_t SegmentWriter::shape(const Kernel& kernel, const KernelCost& cost, Engine engine,
                                   std::uint32_t pieces) {
  ComputeShape s;
  s.engine = engine;
  s.format = program_.intern(to_string(precision_));
  s.denominator = pieces;
  if (engine == Engine::matrix) {
    s.batch = kernel.gemm.batch;
    s.m = kernel.gemm.m;
    s.n = kernel.gemm.n;
    s.k = kernel.gemm.k;
    s.flop = kernel.gemm.flop();
    s.sram_bytes = static_cast<double>(cost.sram_stream);
  } else {
    s.elements = kernel.vector_elements;
    // A fused vector part works on blocks that the matrix part's stream already accounts for.
    s.sram_bytes = kernel.matrix ? 0 : static_cast<double>(cost.sram_stream);
  }
  program_.shapes.push_back(s);
  return static_cast<std::uint32_t>(program_.shapes.size() - 1);
}

std::vector<std::int64_t> SegmentWriter::message_parts(std::int64_t bytes, std::int64_t blocks) {
  const std::int64_t last = bytes / std::max<std::int64_t>(1, blocks);
  if (blocks <= 1 || last == 0) return {bytes};
  return {bytes - last, last};
}

void SegmentWriter::kernel(const Kernel& k, const KernelCost& cost, const std::string& sent,
                           const std::vector<std::int64_t>& send, Channel channel, Peers to) {
  const std::uint16_t name = program_.intern(k.name);
  const bool sends = !send.empty();
  std::int64_t store_bytes = cost.store;
  for (const Access& w : k.writes) {
    if (sends && w.tensor == sent && !residency_[w.cls]) store_bytes -= w.bytes;
  }
  const bool streams = cost.load > 0 || store_bytes > 0 || sends;
  const std::int64_t blocks = streams ? std::min(cost.blocks, kMostPieces) : 1;
  const auto n = static_cast<std::uint32_t>(blocks);

  // Loads: the fill, then the rest behind it.
  Dependences from_dram = gate_, from_sram = gate_;
  const auto needs = [&](const Access& a) {
    if (!a.tensor.empty()) append_ready(a.tensor, residency_[a.cls] ? from_sram : from_dram);
  };
  needs(k.a);
  needs(k.b);
  for (const Access& r : k.reads) needs(r);
  Dependences first_data = from_sram, all_data = from_sram;
  if (cost.load > 0) {
    from_dram.insert(from_dram.end(), buffers_.begin(), buffers_.end());
    const std::int64_t fill = n == 1 ? cost.load : std::clamp<std::int64_t>(cost.fill, 1, cost.load);
    const std::uint32_t first =
        transfer(Opcode::load, name, k.phase, Cause::memory, whole(fill), from_dram);
    first_data.push_back(first);
    all_data.push_back(first);
    if (fill < cost.load) {
      all_data.back() =
          transfer(Opcode::load, name, k.phase, Cause::memory, whole(cost.load - fill), {});
    }
  } else {
    // Tensors in DRAM that this kernel accounts no bytes for still order it.
    first_data.insert(first_data.end(), from_dram.begin(), from_dram.end());
    all_data = first_data;
  }

  // Engines: the first block once the fill is there, the last once everything is.
  const Engine main = k.matrix ? Engine::matrix : Engine::vector;
  const bool has_main = k.matrix || k.vector_elements > 0;
  Dependences first_done = first_data, done = all_data, freed;
  if (has_main) {
    const std::uint32_t main_shape = shape(k, cost, main, n);
    std::uint32_t last = 0;
    if (n == 1) {
      last = compute(name, k.phase, main_shape, main, 1, all_data);
      first_done = {last};
      freed = {last};
    } else {
      last = compute(name, k.phase, main_shape, main, 1, first_data);
      first_done = {last};
      freed = {last};
      if (n > 2) {
        last = compute(name, k.phase, main_shape, main, n - 2, {});
        freed = {last};
      }
      last = compute(name, k.phase, main_shape, main, 1, all_data);
    }
    done = {last};
    if (k.matrix && k.vector_elements > 0) {
      const std::uint32_t epilogue = shape(k, cost, Engine::vector, n);
      if (n > 1) compute(name, k.phase, epilogue, Engine::vector, n - 1, first_done);
      done = {compute(name, k.phase, epilogue, Engine::vector, 1, {last})};
      if (n == 1) first_done = done;
    }
  }
  buffers_ = freed;

  // Results: what streams out while the engines run, then the last block.
  const auto hand_over = [&](std::int64_t bytes, const auto& issue) {
    const auto parts = message_parts(bytes, blocks);
    std::uint32_t i = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      i = issue(parts[p], p + 1 == parts.size() ? done : first_done);
    }
    return i;
  };
  Dependences stored = done;
  if (store_bytes > 0) {
    stored = {hand_over(store_bytes, [&](std::int64_t bytes, const Dependences& after) {
      return transfer(Opcode::store, name, k.phase, Cause::memory, whole(bytes), after);
    })};
  }
  if (sends) {
    const std::uint16_t transfer_name = program_.intern("stage transfer");
    for (std::size_t p = 0; p < send.size(); ++p) {
      message(Opcode::send, transfer_name, k.phase, Cause::pipeline, channel, to, whole(send[p]),
              p + 1 == send.size() ? done : first_done);
    }
  }
  for (const Access& w : k.writes) ready_[w.tensor] = residency_[w.cls] ? done : stored;
}

void SegmentWriter::all_reduce(const Ring& ring, const std::string& tensor, TensorClass cls,
                               std::int64_t bytes) {
  const std::uint32_t p = ring.parts;
  if (p < 2 || bytes == 0) return;
  const std::uint16_t name = program_.intern(ring.name);
  const std::int64_t first_part = bytes / p;
  Dependences first = gate_, all;
  append_ready(tensor, first);
  if (!residency_[cls]) {
    // The ring streams through the SRAM: its first chunk starts it, the rest follows.
    if (first_part > 0) {
      first = {transfer(Opcode::load, name, ring.phase, ring.cause, whole(first_part), first)};
    }
    all = {transfer(Opcode::load, name, ring.phase, ring.cause, whole(bytes - first_part),
                    first_part > 0 ? Dependences{} : first)};
  }
  const auto chunk = [&](std::int64_t offset) {
    const auto o = static_cast<std::uint32_t>(((offset % p) + p) % p);
    Share s{static_cast<std::uint64_t>(bytes), p, o};
    if (ring.position < 0) return s;
    return whole(static_cast<std::int64_t>(s.bytes(static_cast<std::uint32_t>(ring.position))));
  };
  const auto step = [&](std::int64_t send, std::int64_t recv, const Dependences& after) {
    message(Opcode::send, name, ring.phase, ring.cause, ring.channel, ring.next, chunk(send), after);
    return message(Opcode::recv, name, ring.phase, ring.cause, ring.channel, ring.previous,
                   chunk(recv), {});
  };
  Dependences after = first;
  const std::int64_t last = static_cast<std::int64_t>(p) - 2;
  for (std::int64_t i = 0; i <= last; ++i) {  // reduce-scatter: chunk r-i goes on, r-1-i comes
    if (i == last && i > 0) after.insert(after.end(), all.begin(), all.end());
    after = {step(-i, -1 - i, after)};
  }
  const Dependences reduced = after;
  if (last == 0) after.insert(after.end(), all.begin(), all.end());
  for (std::int64_t i = 0; i <= last; ++i) {  // all-gather: chunk r+1-i goes on, r-i comes
    after = {step(1 - i, -i, after)};
  }
  ready_[tensor] = after;
  if (!residency_[cls]) {
    transfer(Opcode::store, name, ring.phase, ring.cause, whole(bytes - first_part), reduced);
    ready_[tensor] = {
        transfer(Opcode::store, name, ring.phase, ring.cause, whole(first_part), after)};
  }
}

void SegmentWriter::exchange(const std::string& name_text, const std::string& tensor,
                             TensorClass cls, std::int64_t bytes, Channel channel, Peers peer) {
  const std::uint16_t name = program_.intern(name_text);
  const bool resident = residency_[cls];
  Dependences after = gate_;
  append_ready(tensor, after);
  if (!resident) {
    after = {transfer(Opcode::load, name, Phase::gradient_sync, Cause::data, whole(bytes), after)};
  }
  message(Opcode::send, name, Phase::gradient_sync, Cause::pipeline, channel, peer, whole(bytes), after);
  Dependences got = {message(Opcode::recv, name, Phase::gradient_sync, Cause::pipeline, channel, peer,
                             whole(bytes), {})};
  if (!resident) {
    got = {transfer(Opcode::store, name, Phase::gradient_sync, Cause::data, whole(bytes), got)};
  }
  ready_[tensor] = got;
}

std::uint32_t SegmentWriter::finish() {
  program_.segments.push_back(std::move(segment_));
  return static_cast<std::uint32_t>(program_.segments.size() - 1);
}

}  // namespace tilewright
