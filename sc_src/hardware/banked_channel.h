// One DRAM channel with its command scheduler: exact to the command, without events of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include <tilewright/machine/memory_part.h>

namespace tilewright {

/// What a channel is asked for: the bursts [next, end) of its own address space.
struct BankedJob {
  std::int64_t next = 0, end = 0;
  std::uint32_t requester = 0;
  std::uint32_t request = 0;
  bool write = false;
};

/// How far a lone stream gets from the end of one refresh to the end of the next, by the state it
/// starts in. Shared by all channels of a part; filled as streams run.
class StretchMemory {
 public:
  using Key = std::vector<std::int64_t>;
  struct Stretch {
    std::int64_t bursts = 0;  ///< served
    std::int64_t cycles = 0;  ///< from end to end
    Key queue;                ///< what is queued at the end, relative to the next burst
  };
  const Stretch* find(const Key& key) const {
    const auto it = stretches_.find(key);
    return it == stretches_.end() ? nullptr : &it->second;
  }
  void insert(Key key, Stretch stretch) {
    if (stretches_.size() < kMost) stretches_.emplace(std::move(key), std::move(stretch));
  }

 private:
  static constexpr std::size_t kMost = 1u << 15;
  std::map<Key, Stretch> stretches_;
};

/// Copyable state of one channel. Time is in command-clock cycles. A scheduler step issues the
/// command that can go first; of those that can go at the same cycle column commands before
/// others, then the oldest burst's (FR-FCFS). A row is not closed while a queued burst hits it.
class BankedChannel {
 public:
  using Cycle = std::int64_t;
  static constexpr Cycle kIdle = std::numeric_limits<Cycle>::max();

  struct Finished {
    std::uint32_t request;
    Cycle first, last;  ///< begin of its first data, end of its last
  };

  BankedChannel(const MemoryPart& part, StretchMemory* stretches);

  /// A job arrives at `now`; run(now) must have been called.
  void add(Cycle now, const BankedJob& job);
  /// Issues the commands of cycles before `until`, but stops when a job is finished and, with
  /// `most` above zero, after that many steps.
  void run(Cycle until, std::int64_t most = 0);
  /// Cycle up to which the channel has been run: nothing earlier can change.
  Cycle now() const { return now_; }
  bool idle() const { return reads_.empty() && writes_.empty() && flows_.empty(); }

  /// Finished jobs in the order of their end.
  std::vector<Finished>& finished() { return finished_; }
  const std::vector<Finished>& finished() const { return finished_; }
  std::int64_t bursts() const { return bursts_; }
  std::int64_t written() const { return written_; }  ///< of these

  // For RowReplay.
  std::int64_t jobs() const { return jobs_added_; }
  std::size_t banks() const { return banks_.size(); }
  std::int64_t row(std::size_t bank) const { return banks_[bank].row; }  ///< -1: closed
  /// Cycle in which a row was last opened or closed. (A command may be given a cycle before that
  /// of one decided earlier, when reads and writes take turns; it counts from the later one on.)
  Cycle row_changed() const { return row_changed_; }
  Cycle refresh_due() const { return refresh_due_; }
  /// From now on every command is worked out.
  void forget_stretches() {
    stretches_ = nullptr;
    recording_ = stretch_start_ = false;
  }

  std::int64_t steps() const { return steps_; }

 private:
  enum class Command { none, activate, precharge, column };
  struct Bank {
    std::int64_t row = -1;
    std::int64_t reads = 0;         // queued
    std::int64_t hits[2] = {0, 0};  // queued reads and writes of the open row
    Cycle activate = 0, precharge = 0, read = 0, write = 0;
  };
  struct Group {
    Cycle activate = 0, read = 0, write = 0;
  };
  struct Burst {
    std::int64_t index, row, order;
    Cycle ready;
    std::uint32_t job;
    std::uint16_t bank, group, pseudo;
  };
  struct Pseudo {
    Cycle activate = 0, read = 0, write = 0;
    Cycle window[4] = {-1, -1, -1, -1};  // last activates, oldest at window_at
    unsigned window_at = 0;
  };
  struct Job {
    BankedJob job;
    std::int64_t left = 0;
    Cycle first = -1;
  };
  struct Flow {
    std::uint32_t requester;
    bool write;
    std::deque<std::uint32_t> jobs;
    Burst next;  // placed, to be admitted
  };
  /// A field of an address: what is left is divided by `size`, a power of two if shift >= 0.
  struct Field {
    AddressField field;
    std::int64_t size;
    int shift;
  };

  bool held(const Flow& flow) const { return flow.write && held_; }
  void count_turn(bool write);
  void admit(Cycle ready);
  void place(Burst& burst, std::int64_t index) const;
  void open(std::size_t bank, std::int64_t row);
  void close(std::size_t bank);
  std::vector<Burst>& active(Cycle at);
  void column(std::vector<Burst>& queue, std::size_t i, Cycle at);
  void refresh();
  void idle_until(Cycle until);
  bool lone() const;
  bool stretch_key(StretchMemory::Key& key) const;
  bool skip(Cycle until);
  bool wraps(std::int64_t from, std::int64_t to) const;
  void begin_record();
  void end_record();

  const MemoryPart* part_;
  StretchMemory* stretches_;
  std::vector<Field> fields_;  // from the least significant one
  std::vector<Bank> banks_;
  struct Seen {
    std::int64_t scan = 0;
    Cycle ready = 0;
  };
  std::vector<Seen> seen_;  // scratch of run(): by bank, misses and hits
  std::int64_t scan_ = 0;
  std::vector<Group> groups_;
  std::vector<Pseudo> pseudos_;
  Cycle row_bus_ = 0, column_bus_ = 0;  // when they are free
  Cycle refresh_due_;
  Cycle now_ = 0, row_changed_ = 0;
  bool draining_ = false;
  std::size_t high_, low_;
  std::vector<Burst> reads_, writes_;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> free_;
  std::vector<Flow> flows_;  // with bursts to admit, in the order of their turns from turn_ on
  std::size_t turn_ = 0;
  std::int64_t flows_of_[2] = {0, 0};  // of these: of reads, of writes
  // How far writes are ahead of their turns, times the flows of reads; held until they are not.
  std::int64_t ahead_ = 0;
  bool held_ = false;
  std::vector<Finished> finished_;
  std::int64_t order_ = 0, bursts_ = 0, written_ = 0, steps_ = 0, jobs_added_ = 0;
  // A stretch being recorded: since the end of the last refresh nothing but one job was served.
  bool recording_ = false;
  bool stretch_start_ = false;  // nothing has happened since that refresh; record_key_ is valid
  std::int64_t period_ = 0;     // bursts after which the stream is in the same place, 0 if unknown
  std::int64_t below_row_ = 1;  // bursts until the row changes in every bank
  std::int64_t record_next_ = 0;
  StretchMemory::Key record_key_;
  std::int64_t record_bursts_ = 0;
  Cycle record_start_ = 0;
};

}  // namespace tilewright
