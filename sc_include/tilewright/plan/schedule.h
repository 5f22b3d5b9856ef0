// Pipeline schedules: the order in which each stage runs its slots.
//
// The layers are cut into virtual stages, `chunks` of them to each stage. A slot is one pass of one
// micro-batch through one chunk. A schedule is data: it can be generated, read from a file,
// written, timed and drawn.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tilewright/base/config.h>

namespace tilewright {

enum class SlotPhase : std::uint8_t {
  forward,
  backward,  ///< input and weight gradients; in a schedule that splits them input gradients alone
  weight,    ///< weight gradients, in a schedule that splits the backward pass
};
constexpr int kSlotPhases = 3;

/// One unit of work of a stage.
struct Slot {
  std::uint32_t micro_batch = 0;
  std::uint16_t chunk = 0;
  SlotPhase phase = SlotPhase::forward;
};

/// What one stage runs, in order.
using StageOrder = std::vector<Slot>;

/// Which virtual stages a stage holds.
enum class ChunkLayout : std::uint8_t {
  interleaved,  ///< chunk c of stage s is virtual stage c·p + s: round after round
  vee,  ///< chunk 0 of stage s is virtual stage s, chunk 1 is 2p − 1 − s: down and back up
};

struct Schedule {
  std::string name;                ///< of one that was read from a file
  std::vector<StageOrder> orders;  ///< by stage
  std::uint32_t micro_batches = 0;
  int chunks = 1;
  ChunkLayout layout = ChunkLayout::interleaved;
  bool backward = true;         ///< training; false: forward slots alone
  bool split_backward = false;  ///< weight gradients have slots of their own

  int stages() const { return static_cast<int>(orders.size()); }
  int virtual_stages() const { return stages() * chunks; }
  int virtual_stage(int stage, int chunk) const;
  int stage_of(int virtual_stage) const;
  int chunk_of(int virtual_stage) const;
  /// The slot that lets go of what the forward slot keeps.
  SlotPhase last_phase() const { return split_backward ? SlotPhase::weight : SlotPhase::backward; }
};

enum class ScheduleKind : std::uint8_t {
  gpipe,        ///< all forward slots, then all backward slots (arXiv 1811.06965)
  one_f_one_b,  ///< PipeDream-flush
  interleaved,  ///< 1F1B over several chunks per stage (arXiv 2104.04473)
  zb_h1,        ///< zero bubble within 1F1B's memory (arXiv 2401.10241)
  zb_h2,        ///< zero bubble with about twice 1F1B's memory (arXiv 2401.10241)
  zb_v,         ///< zero bubble over two chunks in a V within 1F1B's memory (arXiv 2405.15362)
  file,         ///< the user's own
};
/// As plan files name it: "1f1b", "zb-h1".
const char* to_string(ScheduleKind kind);

/// The generated schedules. p stages, m micro-batches; bubbles are of equal stages with
/// T_F = T_B = T_W, where a backward slot that is not split takes T_B + T_W.
///
/// - gpipe: holds m micro-batches.
/// - one_f_one_b: stage i holds at most min(m, p − i). Bubble of both (p − 1)/m.
/// - interleaved, v = `chunks`: Megatron's order, with micro-batches passed on in groups of p.
/// Where
///   p does not divide m the groups are as even as possible, none smaller than p. Bubble
///   (p − 1)/(v·m) for m ≥ p; the first stage holds at most v·p + p − 1 chunks when p divides m.
/// - zb_h1: a stage holds at most p micro-batches until their weight slots. Bubble (p − 1)/(3m) for
///   m ≥ p, and (2p − 1 − m)/(3m) below.
/// - zb_h2: at most 2p − 1. Bubble max(0, 2p − 1 − m)/(3m): the first stage has no more than m
///   forwards to run before its first gradient can be back.
/// - zb_v (two chunks, whose slots take half as long): at most p micro-batches in both chunks
///   together. Bubble, in slots of a chunk, max(0, 2p − 1 − m) + max(0, 2p − 3m): the same, and for
///   very few micro-batches the way of a single one through all 4p slots.
///
/// The bubble of a schedule with split backward is the longest (end − start) over the stages, less
/// the work of one: optimiser steps need not wait for each other (arXiv 2401.10241 §4). Linear in
/// the slots. `chunks` is of `interleaved`. Throws InternalError for arguments that make no
/// schedule.
Schedule make_schedule(ScheduleKind kind, int stages, std::uint32_t micro_batches, int chunks = 1);

/// Inference: forward slots alone, in the order in which `interleaved` runs them.
Schedule make_streaming(int stages, std::uint32_t micro_batches, int chunks = 1);

/// The largest number of (micro-batch, chunk) pairs that a stage holds: those whose forward slot
/// has run and whose last_phase() slot has not. With split backward the backward slot already lets
/// go of what no weight gradient needs; memory is therefore planned in bytes (stage_plan.h).
int peak_in_flight(const Schedule& schedule, int stage);

/// When a slot runs.
struct SlotTime {
  double start = 0, end = 0;
};
using SlotDuration = std::function<double(int stage, const Slot& slot)>;

/// The times of all slots, stage by stage in their order, when every slot starts as soon as its
/// stage is free and the slots it needs have ended, and transfers are free. Linear in the slots.
/// Throws InputError when the orders deadlock (names the slots that wait).
std::vector<std::vector<SlotTime>> time_schedule(const Schedule& schedule,
                                                 const SlotDuration& duration);

/// The end of the last slot: the pipeline bound of a report.
double schedule_length(const Schedule& schedule, const SlotDuration& duration);

/// One unit of time for a slot, two for a backward slot that is not split.
SlotDuration unit_durations(const Schedule& schedule);

/// "F0", "B12.1" (micro-batch 12, chunk 1): the chunk is left out where there is one only.
std::string to_text(const Slot& slot, int chunks);

/// Messages between two virtual stages arrive in the order in which they are sent. Where a schedule
/// takes micro-batches in another order than it makes them, messages need channels of their own:
/// the number of the channel for each micro-batch, in which both orders agree. All 0 in a generated
/// schedule. `phase`: forward slots of `virtual_stage` − 1 send to `virtual_stage`, backward slots
/// of `virtual_stage` + 1 do.
std::vector<std::uint16_t> message_lanes(const Schedule& schedule, int virtual_stage,
                                         SlotPhase phase);

/// Reads a user's own schedule (docs/plan.md) for so many stages and micro-batches. Throws
/// InputError naming file and line: a slot that does not exist, is listed twice or is missing, or
/// orders that deadlock.
Schedule read_schedule(const Document& document, int stages, std::uint32_t micro_batches,
                       bool training);
/// The schedule in the form that read_schedule() takes. The name must be a plain YAML word.
std::string schedule_text(const Schedule& schedule, const std::string& name);

/// The orders as text, one line per stage: "stage 0  F0 F1 B0 F2 ...". Long ones are shortened in
/// the middle to about `width` columns, many stages to the first and last.
std::string draw_orders(const Schedule& schedule, std::size_t width = 120);
/// The same over time in unit_durations(): one cell per unit, "." where the stage is idle.
std::string draw_timeline(const Schedule& schedule, std::size_t width = 120);

}  // namespace tilewright
