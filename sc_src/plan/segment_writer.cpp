#include "segment_writer.h"

#include <algorithm>
#include <array>

#include <tilewright/base/error.h>

namespace tilewright {
namespace {

Engine engine_of(Opcode op) {
  switch (op) {
    case Opcode::load:
    case Opcode::allocate:
      return Engine::dma_in;
    case Opcode::store:
    case Opcode::release:
      return Engine::dma_out;
    case Opcode::send:
      return Engine::net_send;
    case Opcode::recv:
      return Engine::net_recv;
    case Opcode::compute:
      return Engine::matrix;
  }
  return Engine::matrix;
}

/// What completes in order: each engine, and apart from it its traffic with the host memory and
/// its shared loads.
constexpr int kOrders = kEngines + 3;
std::size_t order_of(const Instruction& i) {
  if (i.shared) return kEngines + 2;
  const bool host = i.space == Space::host && (i.op == Opcode::load || i.op == Opcode::store);
  if (!host) return static_cast<std::size_t>(i.engine);
  return static_cast<std::size_t>(kEngines + (i.op == Opcode::load ? 0 : 1));
}

Share whole(std::int64_t bytes) { return {static_cast<std::uint64_t>(bytes), 1, 0}; }

// Amounts are 32-bit: a finer cut than this changes no time by a picosecond that matters.
constexpr std::int64_t kMostPieces = 1 << 20;
// Up to here the last block's store is a store of its own.
constexpr std::int64_t kFewBlocks = 15;
// Blocks at least in which a pointwise part follows its matrix part.
constexpr std::int64_t kFollowBlocks = 16;
// Beyond, waiting for the first block and computing the last one behind its load are left out: less
// than 0.4 % of the load and of the computation.
constexpr std::int64_t kManyBlocks = 256;
// Copies between memories pass through the SRAM in blocks of this size.
constexpr std::int64_t kCopyBlock = 128 << 10;

void through_sram(ComputeShape& shape, const KernelCost& cost) {
  shape.sram_bytes = static_cast<double>(cost.sram.total());
  shape.sram_written = static_cast<double>(cost.sram.written);
  shape.dma_in = static_cast<double>(cost.beside.written);
  shape.dma_out = static_cast<double>(cost.beside.read);
}

}  // namespace

SegmentWriter::SegmentWriter(Program& program, std::string name, const Residency& residency,
                             DType precision, const std::vector<GroupAxis>& axes, PeerTables& peers)
    : program_(program), residency_(residency), precision_(precision), axes_(axes), peers_(peers) {
  segment_.name = std::move(name);
}

std::uint32_t SegmentWriter::add(Instruction i, const Waits& after) {
  // The latest per engine and memory implies the earlier ones (of one load, the whole implies the
  // head).
  std::array<std::int64_t, kOrders> latest;
  latest.fill(-1);
  std::array<bool, kOrders> head{};
  for (const std::uint32_t d : after) {
    const std::uint32_t index = d & ~kHead;
    const std::size_t engine = order_of(segment_.code[index]);
    const auto i64 = static_cast<std::int64_t>(index);
    if (i64 < latest[engine]) continue;
    head[engine] = (i64 > latest[engine] || head[engine]) && (d & kHead) != 0;
    latest[engine] = i64;
  }
  // In-order engines make a dependence on the instruction's own stream redundant.
  const bool completes_in_order =
      i.engine == Engine::matrix || i.engine == Engine::vector || i.engine == Engine::net_recv;
  std::int64_t& own = latest[static_cast<std::size_t>(i.engine)];
  if (completes_in_order && own >= 0 &&
      segment_.code[static_cast<std::size_t>(own)].until == kNone) {
    own = -1;
  }
  Waits waits;
  for (std::size_t e = 0; e < latest.size(); ++e) {
    if (latest[e] < 0) continue;
    waits.push_back(static_cast<std::uint32_t>(latest[e]) | (head[e] ? kHead : 0));
  }
  if (waits.size() > i.after.size()) {
    // More than an instruction can name: giving back nothing stands for the first few.
    Instruction collected;
    collected.op = Opcode::release;
    collected.engine = Engine::dma_out;
    collected.name = i.name;
    collected.phase = i.phase;
    collected.share = whole(0);
    std::copy_n(waits.begin(), collected.after.size(), collected.after.begin());
    segment_.code.push_back(collected);
    waits.erase(waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(collected.after.size()));
    waits.push_back(static_cast<std::uint32_t>(segment_.code.size() - 1));
  }
  std::copy(waits.begin(), waits.end(), i.after.begin());
  segment_.code.push_back(i);
  return static_cast<std::uint32_t>(segment_.code.size() - 1);
}

std::uint32_t SegmentWriter::transfer(Opcode op, std::uint16_t name, Phase phase, Space space,
                                      Share share, const Waits& after) {
  Instruction i;
  i.op = op;
  i.engine = engine_of(op);
  i.name = name;
  i.phase = phase;
  i.space = space;
  i.cause = space == Space::host ? Cause::offload : Cause::memory;
  i.share = share;
  if ((op == Opcode::load || after.empty()) && !started_) {
    i.after_previous = true;
    started_ = true;
  }
  return add(i, after);
}

std::uint32_t SegmentWriter::shared_load(std::uint16_t name, Phase phase, std::int64_t bytes,
                                         const Waits& after) {
  const std::uint32_t l = transfer(Opcode::load, name, phase, Space::dram, whole(bytes), after);
  segment_.code[l].shared = true;
  segment_.code[l].operand = peers_.sharers();
  return l;
}

std::uint32_t SegmentWriter::message(Opcode op, std::uint16_t name, Phase phase, Cause cause,
                                     std::uint16_t channel, std::uint32_t peer, Share share,
                                     const Waits& after) {
  Instruction i;
  i.op = op;
  i.engine = engine_of(op);
  i.name = name;
  i.phase = phase;
  i.cause = cause;
  i.channel = channel;
  i.operand = peer;
  i.share = share;
  // What nothing here makes comes from an earlier call.
  i.after_previous = op == Opcode::send && after.empty();
  return add(i, after);
}

std::uint32_t SegmentWriter::stage_message(Opcode op, Phase phase, Channel channel, Peers peer,
                                           std::int64_t bytes, const Waits& after) {
  Share share = whole(bytes);
  if (scattered_) {
    share = Share(static_cast<std::uint64_t>(bytes),
                  static_cast<std::uint32_t>(axes_[*scattered_].degree), 0,
                  static_cast<std::uint32_t>(axes_[*scattered_].stride));
  }
  return message(op, program_.intern("stage transfer"), phase, Cause::pipeline,
                 static_cast<std::uint16_t>(channel), static_cast<std::uint32_t>(peer), share,
                 after);
}

std::uint32_t SegmentWriter::compute(std::uint16_t name, Phase phase, std::uint32_t shape,
                                     Engine engine, std::uint32_t begin, std::uint32_t amount,
                                     const Waits& after) {
  Instruction i;
  i.op = Opcode::compute;
  i.engine = engine;
  i.name = name;
  i.phase = phase;
  i.operand = shape;
  i.begin = begin;
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

void SegmentWriter::release(Space space, std::int64_t bytes, const Waits& after) {
  if (bytes == 0) return;
  Instruction i;
  i.op = Opcode::release;
  i.engine = Engine::dma_out;
  i.name = program_.intern("memory");
  i.space = space;
  i.share = whole(bytes);
  // The last instruction of every engine that holds data.
  Waits last = after;
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

SegmentWriter::Waits SegmentWriter::copy(const std::string& name_text, Phase phase, Space from,
                                         Space to, std::int64_t bytes) {
  const std::uint16_t name = program_.intern(name_text);
  Waits first = gate_;
  std::uint32_t loaded = kNone;
  if (from != Space::sram) {
    loaded = transfer(Opcode::load, name, phase, from, whole(bytes), gate_);
    const bool cut = bytes > kCopyBlock;
    if (cut) segment_.code[loaded].head = kCopyBlock;
    first = {cut ? loaded | kHead : loaded};
  }
  if (to == Space::sram) return {loaded};
  const std::uint32_t stored = transfer(Opcode::store, name, phase, to, whole(bytes), first);
  segment_.code[stored].until = loaded;
  return {stored};
}

void SegmentWriter::append_ready(const std::string& tensor, Waits& to) const {
  const auto it = ready_.find(tensor);
  if (it != ready_.end()) to.insert(to.end(), it->second.begin(), it->second.end());
}

void SegmentWriter::receive(const std::string& tensor, TensorClass cls, bool common,
                            const std::vector<std::int64_t>& parts, Phase phase, Channel channel,
                            Peers from) {
  const std::uint16_t name = program_.intern("stage transfer");
  const std::int64_t ways = scattered_ ? axes_[*scattered_].degree : 1;
  Waits ready;
  std::int64_t all = 0, own = 0;
  for (const std::int64_t part : parts) {
    const std::uint32_t r = stage_message(Opcode::recv, phase, channel, from, part, {});
    ready = {r};
    const std::int64_t received = (part + ways - 1) / ways;
    if (!residency_[cls]) {
      // All have received the same, unless each has a part that is gathered next.
      const Access arrives{tensor, cls, received, common && !scattered_};
      ready = {transfer(Opcode::store, name, phase, residency_.space(cls),
                        whole(residency_.kept(arrives)), {r})};
    }
    all += part;
    own += received;
  }
  ready_[tensor] = ready;
  if (!scattered_) return;
  CollectiveRun run;
  run.name = "stage transfer.all_gather";
  run.phase = phase;
  run.cause = axes_[*scattered_].cause;
  collective(run, {CollectiveKind::all_gather, AxisSet{1} << *scattered_, all}, {tensor, cls, own},
             {tensor, cls, all, common});
}

void SegmentWriter::gate(const std::string& tensor) { append_ready(tensor, gate_); }

void SegmentWriter::join(const std::string& name, const std::vector<std::string>& tensors) {
  Waits all;
  for (const std::string& t : tensors) append_ready(t, all);
  ready_[name] = all;
}

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
    through_sram(s, cost);
  } else {
    s.elements = kernel.vector_elements;
    // A fused vector part works on blocks that the matrix part's stream already accounts for.
    if (!kernel.matrix) through_sram(s, cost);
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
    if (sends && w.tensor == sent && !residency_[w.cls]) store_bytes -= residency_.kept(w);
  }
  const bool hands_over = store_bytes > 0 || cost.host_store > 0 || sends;
  // Results in the place of their sums leave when the engines are done, and take what they are
  // added to on the way. (Block by block in truth, with the engines waiting each time.)
  const bool in_place = cost.blocking && cost.blocking->in_place;
  const std::int64_t added = in_place ? cost.blocking->c_read : 0;
  const bool loads = cost.load > added || cost.host_load > 0;
  const bool streams = loads || hands_over;
  // A pointwise part follows its matrix part block by block even when nothing leaves the SRAM.
  const bool follows = k.matrix && k.vector_elements > 0;
  const std::int64_t blocks =
      streams || follows
          ? std::min(std::max(cost.pipelining.steps, follows ? kFollowBlocks : 1), kMostPieces)
          : 1;
  const auto n = static_cast<std::uint32_t>(blocks);
  const bool overlapped = cost.pipelining.overlapped;

  // Loads: the fill, then the rest behind it.
  Waits from_memory = gate_, from_sram = gate_;
  const auto needs = [&](const Access& a) {
    if (!a.tensor.empty()) append_ready(a.tensor, residency_[a.cls] ? from_sram : from_memory);
  };
  needs(k.a);
  needs(k.b);
  for (const Access& r : k.reads) needs(r);
  Waits first_data = from_sram, all_data = from_sram;
  std::uint32_t streamed_load = kNone;  // of very many blocks: the engines end with it
  const bool one_load =
      cost.host_load == 0 && (cost.shared_load == 0 || cost.shared_load == cost.load - added);
  const auto load = [&](Space space, bool shared, std::int64_t bytes, std::int64_t fill) {
    if (bytes == 0) return;
    const std::uint32_t l =
        shared ? shared_load(name, k.phase, bytes, from_memory)
               : transfer(Opcode::load, name, k.phase, space, whole(bytes), from_memory);
    const std::int64_t head = std::clamp<std::int64_t>(fill, 1, bytes);
    if (!overlapped) {
      first_data.push_back(l);
    } else if (n > kManyBlocks && one_load) {
      streamed_load = l;
      // The engines start with the load: what orders the load orders them.
      first_data.insert(first_data.end(), from_memory.begin(), from_memory.end());
      started_ = !segment_.code[l].after_previous;
    } else if (n > 1 && head < bytes) {
      segment_.code[l].head = static_cast<std::uint64_t>(head);
      first_data.push_back(l | kHead);
    } else {
      first_data.push_back(l);
    }
    all_data.push_back(l);
  };
  if (loads) {
    from_memory.insert(from_memory.end(), buffers_.begin(), buffers_.end());
    const std::int64_t all = cost.load - added, own = all - cost.shared_load;
    const std::int64_t fill = cost.pipelining.fill;
    const auto own_fill =
        own == all ? fill
                   : static_cast<std::int64_t>(static_cast<double>(fill) *
                                               static_cast<double>(own) / static_cast<double>(all));
    load(Space::dram, false, own, own_fill);
    load(Space::dram, true, cost.shared_load, fill - own_fill);
    load(Space::host, false, cost.host_load, cost.host_load / blocks);
  } else {
    // Tensors in memory that this kernel accounts no bytes for still order it.
    first_data.insert(first_data.end(), from_memory.begin(), from_memory.end());
    all_data = first_data;
  }

  // Engines: all blocks but the last once the first is there, the last once everything is.
  const Engine main = k.matrix ? Engine::matrix : Engine::vector;
  const bool has_main = k.matrix || k.vector_elements > 0;
  // What streams out starts with the first block; of very many blocks that is at once.
  Waits streaming = first_data, done = all_data, freed;
  if (has_main) {
    const std::uint32_t main_shape = shape(k, cost, main, n);
    std::uint32_t last = 0;
    if (n == 1) {
      last = compute(name, k.phase, main_shape, main, 0, 1, all_data);
      freed = {last};
    } else if (streamed_load != kNone) {
      last = compute(name, k.phase, main_shape, main, 0, n, first_data);
      segment_.code[last].until = streamed_load;
      freed = {last};
    } else {
      const std::uint32_t begin = n > 2 && n <= kFewBlocks && hands_over ? 1 : 0;
      if (begin > 0) streaming = {compute(name, k.phase, main_shape, main, 0, 1, first_data)};
      freed = {compute(name, k.phase, main_shape, main, begin, n - 1 - begin, first_data)};
      last = compute(name, k.phase, main_shape, main, n - 1, 1, all_data);
    }
    done = {last};
    if (k.matrix && k.vector_elements > 0) {
      // The pointwise part follows block by block: its first blocks go while the matrix engine
      // works.
      const std::uint32_t epilogue = shape(k, cost, Engine::vector, n);
      if (n > 1) compute(name, k.phase, epilogue, Engine::vector, 0, n - 1, first_data);
      done = {compute(name, k.phase, epilogue, Engine::vector, n - 1, 1, {last})};
    }
  }
  buffers_ = overlapped ? freed : done;
  if (!overlapped) streaming = done;

  Waits in_dram = done, in_host = done;
  if (in_place && store_bytes > 0) {
    in_dram = replace(name, k.phase, added, store_bytes, done);
    buffers_ = in_dram;
  } else if (store_bytes > 0) {
    in_dram = {stream_out(name, k.phase, Space::dram, store_bytes, n, streaming, done)};
  }
  if (cost.host_store > 0) {
    in_host = {store_parts(name, k.phase, Space::host, cost.host_store, n, streaming, done)};
  }
  if (sends) {
    for (std::size_t p = 0; p < send.size(); ++p) {
      stage_message(Opcode::send, k.phase, channel, to, send[p],
                    p + 1 == send.size() ? done : streaming);
    }
  }
  for (const Access& w : k.writes) {
    const Space space = residency_.space(w.cls);
    ready_[w.tensor] = space == Space::sram ? done : space == Space::dram ? in_dram : in_host;
  }
}

SegmentWriter::Waits SegmentWriter::replace(std::uint16_t name, Phase phase, std::int64_t before,
                                            std::int64_t bytes, const Waits& after) {
  std::uint32_t loaded = kNone;
  Waits first = after;
  if (before > 0) {
    loaded = transfer(Opcode::load, name, phase, Space::dram, whole(before), after);
    const bool cut = before > kSlice;
    if (cut) segment_.code[loaded].head = kSlice;
    first = {cut ? loaded | kHead : loaded};
  }
  const std::uint32_t stored =
      transfer(Opcode::store, name, phase, Space::dram, whole(bytes), first);
  segment_.code[stored].until = loaded;
  return {stored};
}

std::uint32_t SegmentWriter::store_parts(std::uint16_t name, Phase phase, Space space,
                                         std::int64_t bytes, std::int64_t blocks,
                                         const Waits& first, const Waits& last) {
  const auto parts = message_parts(bytes, blocks);
  std::uint32_t i = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    i = transfer(Opcode::store, name, phase, space, whole(parts[p]),
                 p + 1 == parts.size() ? last : first);
  }
  return i;
}

std::uint32_t SegmentWriter::stream_out(std::uint16_t name, Phase phase, Space space,
                                        std::int64_t bytes, std::int64_t blocks, const Waits& first,
                                        const Waits& last) {
  // With few blocks the last one's store is worth seeing: it starts when the block is done. With
  // many it vanishes beside the rest, and one store that ends no earlier than the engines does.
  if (blocks <= kFewBlocks) return store_parts(name, phase, space, bytes, blocks, first, last);
  const std::uint32_t i = transfer(Opcode::store, name, phase, space, whole(bytes), first);
  segment_.code[i].until = last.back();
  return i;
}

void SegmentWriter::collective(const CollectiveRun& run, const Collective& what, const Access& from,
                               const Access& to) {
  int ranks = 1;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if ((what.axes >> a & 1u) != 0) ranks *= axes_[a].degree;
  }
  if (ranks < 2 || what.bytes == 0) return;
  // Messages stream through the SRAM: the first part of a tensor in DRAM starts them, and the last
  // step of reduction (or the first of forwarding) waits for the rest.
  Waits first = gate_, all;
  append_ready(from.tensor, first);
  const std::uint16_t name = program_.intern(run.name);
  if (!residency_[from.cls]) {
    const std::uint32_t l = residency_.shares(from)
                                ? shared_load(name, run.phase, from.bytes, first)
                                : transfer(Opcode::load, name, run.phase,
                                           residency_.space(from.cls), whole(from.bytes), first);
    const std::int64_t chunk = what.bytes / ranks;
    const bool cut = chunk > 0 && chunk < from.bytes;
    if (cut) segment_.code[l].head = static_cast<std::uint64_t>(chunk);
    first = {cut ? l | kHead : l};
    all = {l};
  }
  const bool halo = what.kind == CollectiveKind::halo,
             halo_sum = what.kind == CollectiveKind::halo_sum;
  auto [streaming, done] =
      halo || halo_sum ? neighbours(run, what, first, all) : exchange(run, what, first, all);
  const bool one_step = what.kind == CollectiveKind::ring_step || halo_sum;
  if (one_step && what.accumulate) append_ready(to.tensor, done);
  ready_[to.tensor] = done;
  if (!residency_[to.cls] && to.bytes > 0) {
    if (what.accumulate) {
      done.push_back(transfer(Opcode::load, name, run.phase, residency_.space(to.cls),
                              whole(to.bytes), streaming));
    }
    ready_[to.tensor] = {stream_out(name, run.phase, residency_.space(to.cls), residency_.kept(to),
                                    one_step ? 1 : ranks, streaming, done)};
  }
}

std::pair<SegmentWriter::Waits, SegmentWriter::Waits> SegmentWriter::exchange(
    const CollectiveRun& run, const Collective& what, const Waits& first, const Waits& all) {
  std::int64_t bytes = what.bytes;
  std::uint32_t ranks = 1, stride = 0;
  for (std::size_t a = axes_.size(); a-- > 0;) {
    if ((what.axes >> a & 1u) == 0) continue;
    ranks *= static_cast<std::uint32_t>(axes_[a].degree);
    stride = static_cast<std::uint32_t>(axes_[a].stride);
  }
  // Of a tensor that all ranks hold together each one exchanges its part.
  if (what.kind == CollectiveKind::all_to_all) bytes = (bytes + ranks - 1) / ranks;
  const PeerTables::Run plan = peers_.run(what.kind, what.axes, bytes, run.background);
  const std::vector<CollectiveOp>& ops = plan.schedule.ops;
  const std::uint32_t last_sum = plan.schedule.last_sum;
  // Sums may begin when the first part is there; by its last message of sums a table has seen all.
  std::vector<std::uint32_t> last_of_table(plan.schedule.tables.size(), kNoOp);
  for (std::uint32_t i = 0; last_sum != kNoOp && i < last_sum; ++i) {
    if (ops[i].send) last_of_table[ops[i].table] = i;
  }
  const auto with_all = [&](Waits waits) {
    waits.insert(waits.end(), all.begin(), all.end());
    return waits;
  };
  const Waits whole_input = with_all(first);
  const std::uint16_t name = program_.intern(run.name);
  const std::uint32_t come = static_cast<std::uint32_t>(what.step) % ranks;
  std::vector<std::uint32_t> written(ops.size());
  bool has_all = last_sum == kNoOp;
  Waits streaming = whole_input, done = whole_input;
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    const CollectiveOp& op = ops[i];
    const PeerTables::Run::Way& way = plan.ways[op.table];
    const Share share = op.rotation ? Share(static_cast<std::uint64_t>(what.bytes), ranks,
                                            (*op.rotation + ranks - come) % ranks, stride)
                                    : whole(op.bytes);
    if (!op.send) {
      written[i] =
          message(Opcode::recv, name, run.phase, run.cause, way.channel, way.from, share, {});
      done = {written[i]};
      if (i == last_sum) {
        streaming = done;
        if (!has_all) done = with_all(done);
      }
      continue;
    }
    Waits waits = last_sum == kNoOp ? whole_input : first;
    if (op.after != kNoOp) {
      waits = {written[op.after]};
      if (i == last_of_table[op.table] || (!has_all && i > last_sum)) {
        waits = with_all(waits);
        has_all = true;
      }
    }
    written[i] =
        message(Opcode::send, name, run.phase, run.cause, way.channel, way.to, share, waits);
  }
  if (what.kind == CollectiveKind::ring_step) streaming = done;
  return {streaming, done};
}

std::pair<SegmentWriter::Waits, SegmentWriter::Waits> SegmentWriter::neighbours(
    const CollectiveRun& run, const Collective& what, const Waits& first, const Waits& all) {
  std::int64_t ranks = 1;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if ((what.axes >> a & 1u) != 0) ranks *= axes_[a].degree;
  }
  const std::int64_t own = (what.bytes + ranks - 1) / ranks;
  const bool back = what.kind == CollectiveKind::halo_sum;
  // Whole parts of the nearest ranks, and an end of the farthest one's: from that summands start.
  std::vector<std::int64_t> parts(static_cast<std::size_t>(what.halo / own), own);
  if (what.halo % own > 0) parts.push_back(what.halo % own);
  if (back) std::reverse(parts.begin(), parts.end());
  const PeerTables::Run plan = peers_.run(what.kind, what.axes, what.bytes, run.background);
  const PeerTables::Run::Way& way = plan.ways.front();
  const std::uint16_t name = program_.intern(run.name);
  Waits whole_input = first;
  whole_input.insert(whole_input.end(), all.begin(), all.end());
  Waits done = whole_input;
  for (const std::int64_t part : parts) {
    message(Opcode::send, name, run.phase, run.cause, way.channel, way.to, whole(part), done);
    done = {
        message(Opcode::recv, name, run.phase, run.cause, way.channel, way.from, whole(part), {})};
  }
  return {back ? done : whole_input, done};
}

void SegmentWriter::send(const std::string& tensor, const std::vector<std::int64_t>& parts,
                         Phase phase, Channel channel, Peers to) {
  Waits after = gate_;
  append_ready(tensor, after);
  for (const std::int64_t part : parts) {
    stage_message(Opcode::send, phase, channel, to, part, after);
  }
}

void SegmentWriter::exchange(const std::string& name_text, const std::string& tensor,
                             TensorClass cls, std::int64_t bytes, Channel channel, Peers peer) {
  const std::uint16_t name = program_.intern(name_text);
  const bool resident = residency_[cls];
  Waits after = gate_;
  append_ready(tensor, after);
  if (!resident) {
    after = {transfer(Opcode::load, name, Phase::gradient_sync, Space::dram, whole(bytes), after)};
  }
  const auto c = static_cast<std::uint16_t>(channel);
  const auto p = static_cast<std::uint32_t>(peer);
  message(Opcode::send, name, Phase::gradient_sync, Cause::pipeline, c, p, whole(bytes), after);
  Waits got = {
      message(Opcode::recv, name, Phase::gradient_sync, Cause::pipeline, c, p, whole(bytes), {})};
  if (!resident) {
    got = {transfer(Opcode::store, name, Phase::gradient_sync, Space::dram, whole(bytes), got)};
  }
  ready_[tensor] = got;
}

std::uint32_t SegmentWriter::finish() {
  program_.segments.push_back(std::move(segment_));
  return static_cast<std::uint32_t>(program_.segments.size() - 1);
}

}  // namespace tilewright
