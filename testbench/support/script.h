// Hand-written machines and programs for the hardware tests, and runs in processes of their own.
#pragma once

#include <functional>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <tilewright/base/error.h>
#include <tilewright/cosim/checked_sockets.h>
#include <tilewright/hardware/platform.h>

namespace tilewright::test {

// Round numbers: links move 1 byte per ps with 2 ns per hop (die links a quarter of that with 10
// ns), engines do 1 FLOP and 1 element per ps, the DRAM moves 1 byte per 2 ps after 100 ns.
inline MachineConfig mesh(int width, int height) {
  MachineConfig m;
  m.name = "test";
  m.tiles_x = width;
  m.tiles_y = height;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(1 << 20);
  m.noc.link = {Bandwidth(1e12), Seconds(2e-9)};
  m.noc.die_link = {Bandwidth(0.25e12), Seconds(10e-9)};
  m.dram.bandwidth = Bandwidth(0.5e12);
  m.dram.capacity = Bytes(1e9);
  m.dram.latency = Seconds(100e-9);
  return m;
}

/// Builds one segment: each call adds an instruction and returns its index.
class Code {
 public:
  explicit Code(Segment& segment) : segment_(segment) {}

  using After = std::vector<std::uint32_t>;
  std::uint32_t add(Instruction i, const After& after = {}) {
    for (std::size_t k = 0; k < after.size(); ++k) i.after[k] = after[k];
    segment_.code.push_back(i);
    return static_cast<std::uint32_t>(segment_.code.size() - 1);
  }
  std::uint32_t send(std::uint16_t channel, std::uint32_t peers, Share share,
                     const After& after = {}, Cause cause = Cause::tensor) {
    return message(Opcode::send, Engine::net_send, channel, peers, share, cause, after);
  }
  std::uint32_t recv(std::uint16_t channel, std::uint32_t peers, Share share,
                     const After& after = {}, Cause cause = Cause::tensor) {
    return message(Opcode::recv, Engine::net_recv, channel, peers, share, cause, after);
  }
  std::uint32_t compute(Engine engine, std::uint32_t shape, std::uint32_t amount = 1,
                        const After& after = {}, Phase phase = Phase::forward) {
    Instruction i;
    i.op = Opcode::compute;
    i.engine = engine;
    i.phase = phase;
    i.operand = shape;
    i.amount = amount;
    return add(i, after);
  }
  std::uint32_t load(std::uint64_t bytes, const After& after = {}) {
    return memory(Opcode::load, Engine::dma_in, bytes, Space::dram, after);
  }
  std::uint32_t store(std::uint64_t bytes, const After& after = {}) {
    return memory(Opcode::store, Engine::dma_out, bytes, Space::dram, after);
  }
  std::uint32_t memory(Opcode op, Engine engine, std::uint64_t bytes, Space space,
                       const After& after = {}) {
    Instruction i;
    i.op = op;
    i.engine = engine;
    i.space = space;
    i.share.total = bytes;
    return add(i, after);
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(segment_.code.size()); }
  Instruction& operator[](std::uint32_t index) { return segment_.code[index]; }

 private:
  std::uint32_t message(Opcode op, Engine engine, std::uint16_t channel, std::uint32_t peers,
                        Share share, Cause cause, const After& after) {
    Instruction i;
    i.op = op;
    i.engine = engine;
    i.cause = cause;
    i.channel = channel;
    i.operand = peers;
    i.share = share;
    return add(i, after);
  }
  Segment& segment_;
};

/// A program written by hand. It is not sealed, since the tests also need wrong ones; streams()
/// does the part of sealing that the hardware needs.
class Script {
 public:
  Program program;

  std::uint16_t channel(const std::string& name) {
    program.channels.push_back(name);
    return static_cast<std::uint16_t>(program.channels.size() - 1);
  }
  /// A segment number; the code is written through `write`.
  std::uint32_t segment(const std::string& name, const std::function<void(Code&)>& write) {
    program.segments.emplace_back();
    program.segments.back().name = name;
    Code code(program.segments.back());
    write(code);
    return static_cast<std::uint32_t>(program.segments.size() - 1);
  }
  /// A group that runs `segment` `calls` times.
  TileGroup& group(const std::string& name, std::vector<TileId> tiles, std::uint32_t segment,
                   std::size_t calls = 1) {
    TileGroup g;
    g.name = name;
    g.stage = static_cast<std::uint32_t>(program.groups.size());
    g.tiles = std::move(tiles);
    g.calls.assign(calls, Call{segment, 0, 0});
    program.groups.push_back(std::move(g));
    return program.groups.back();
  }
  std::uint32_t matrix_shape(double flop, double sram_bytes = 0, std::uint32_t denominator = 1) {
    ComputeShape s;
    s.engine = Engine::matrix;
    s.format = name("fp16");
    s.flop = flop;
    s.sram_bytes = sram_bytes;
    s.denominator = denominator;
    return shape(s);
  }
  std::uint32_t vector_shape(double elements, const std::string& format = "fp16") {
    ComputeShape s;
    s.engine = Engine::vector;
    s.format = name(format);
    s.elements = elements;
    return shape(s);
  }
  std::uint16_t name(const std::string& text) {
    for (std::size_t i = 0; i < program.names.size(); ++i) {
      if (program.names[i] == text) return static_cast<std::uint16_t>(i);
    }
    program.names.push_back(text);
    return static_cast<std::uint16_t>(program.names.size() - 1);
  }
  void streams() {
    for (Segment& s : program.segments) {
      for (auto& stream : s.streams) stream.clear();
      for (std::uint32_t i = 0; i < s.code.size(); ++i) {
        s.streams[static_cast<std::size_t>(s.code[i].engine)].push_back(i);
      }
    }
  }
  /// Elaborates and runs; the platform is left to live until the process ends.
  const RunStatistics& run(const MachineConfig& machine, bool reverse = false,
                           Fidelity fidelity = Fidelity::message) {
    streams();
    PlatformOptions options;
    options.fidelity = fidelity;
    options.reverse_construction = reverse;
    options.bind_memory = checked_sockets();
    auto* platform = new Platform("machine", machine, program, options);
    platform->run();
    return platform->statistics();
  }

 private:
  std::uint32_t shape(const ComputeShape& s) {
    program.shapes.push_back(s);
    return static_cast<std::uint32_t>(program.shapes.size() - 1);
  }
};

/// Two groups of one tile: `from` sends `bytes`, `to` receives `expected`.
inline Script one_message(TileId from, TileId to, std::uint64_t bytes, std::uint64_t expected,
                          Cause cause = Cause::tensor) {
  Script s;
  const std::uint16_t channel = s.channel("wire");
  const auto sender = s.segment("sender", [&](Code& c) { c.send(channel, 0, {bytes}, {}, cause); });
  const auto receiver =
      s.segment("receiver", [&](Code& c) { c.recv(channel, 0, {expected}, {}, cause); });
  s.group("A", {from}, sender).peers = {{to}};
  s.group("B", {to}, receiver).peers = {{from}};
  return s;
}

/// The segment of a ring all-reduce of `bytes` over p ranks; peer table 0 is the next rank, 1 the
/// previous one. With two ranks both are the same tile.
inline void ring_all_reduce(Code& c, std::uint16_t channel, std::uint32_t p, std::uint64_t bytes,
                            Cause cause = Cause::tensor) {
  std::uint32_t last = kNone;
  for (std::uint32_t step = 0; step < 2 * (p - 1); ++step) {
    const std::uint32_t out = (2 * p - step) % p, in = (2 * p - step - 1) % p;
    c.send(channel, 0, {bytes, p, out}, last == kNone ? Code::After{} : Code::After{last}, cause);
    last = c.recv(channel, 1, {bytes, p, in}, {}, cause);
  }
}
/// Peer tables for it.
inline std::vector<std::vector<TileId>> ring_peers(const std::vector<TileId>& tiles) {
  const std::size_t p = tiles.size();
  std::vector<std::vector<TileId>> peers(2);
  for (std::size_t r = 0; r < p; ++r) {
    peers[0].push_back(tiles[(r + 1) % p]);
    peers[1].push_back(tiles[(r + p - 1) % p]);
  }
  return peers;
}

inline Picoseconds state(const RunStatistics& s, TileId t, TileState state) {
  return s.tiles[t].time[static_cast<std::size_t>(state)];
}

/// Everything a run produced, for comparison.
inline std::string fingerprint(const RunStatistics& s) {
  std::ostringstream out;
  out << s.end << ' ' << s.events << ' ' << s.message_hops << ' ' << s.messages << '\n';
  for (const TileStatistics& t : s.tiles) {
    for (const Picoseconds time : t.time) out << time << ' ';
    for (const Picoseconds time : t.active) out << time << ' ';
    out << t.matrix_busy << ' ' << t.vector_busy << ' ' << t.first_start << ' ' << t.finish << ' '
        << t.flop << ' ' << t.sram_peak << ' ' << t.dram_peak << ' ' << t.bytes_sent << ' '
        << t.bytes_received << '\n';
  }
  for (const LinkStatistics& l : s.links) {
    out << index(l.from) << '>' << index(l.to) << ' ' << l.bytes << ' ' << l.messages << ' '
        << l.busy << '\n';
  }
  for (const DramStatistics& d : s.dram) {
    out << d.bytes_read << ' ' << d.bytes_written << ' ' << d.busy << ' ' << d.allocated_peak
        << '\n';
  }
  return out.str();
}

/// The text `work` returns, run in a child process: the SystemC kernel cannot start twice.
inline std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return "pipe failed";
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = work();
    } catch (const std::exception& e) {
      text = std::string("exception: ") + e.what();
    }
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = write(ends[1], text.data() + done, text.size() - done);
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

}  // namespace tilewright::test
