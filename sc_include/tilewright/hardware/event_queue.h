// The one source of timed activity in the model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <vector>

#include <systemc>

#include <tilewright/base/error.h>
#include <tilewright/base/quantity.h>
#include <tilewright/hardware/radix_queue.h>

namespace tilewright {

constexpr Picoseconds kNever = std::numeric_limits<Picoseconds>::max();
/// Simulated time ends here, 53 days from the start.
constexpr Picoseconds kEndOfTime = Picoseconds{1} << 62;

/// What an event is. At equal times lower classes go first, which is part of the model: traffic
/// that passes a router claims its links before whatever the tile there injects at the same
/// instant.
enum class EventClass : std::uint8_t {
  arrival,          ///< head of a packet at a router on its way
  write_arrival,    ///< head of written data at a controller's site
  delivery,         ///< tail of a packet at its destination tile
  memory_done,      ///< the last part of a load or store is acknowledged to its tile
  compute,          ///< a matrix or vector engine has finished
  memory_request,   ///< a read request reaches a controller's port
  memory_response,  ///< a controller's response that was annotated with a delay
  agent,            ///< internal event of a module attached by attach_agent()
};
constexpr std::size_t kEventClasses = 8;

/// One event: what distinguishes those of equal time, in the order they are handled.
struct Event {
  std::uint64_t key;  // class:3 | tile:24 | port:3 | slot:34

  static constexpr unsigned kPortShift = 34, kTileShift = 37, kClassShift = 61;
  EventClass type() const { return static_cast<EventClass>(key >> kClassShift); }
  std::uint32_t tile() const {
    return static_cast<std::uint32_t>(key >> kTileShift) & ((1u << 24) - 1);
  }
  unsigned port() const { return static_cast<unsigned>(key >> kPortShift) & 7u; }
  std::uint64_t slot() const { return key & ((std::uint64_t{1} << kPortShift) - 1); }
};

/// Takes the events of one class.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  /// `count` events of one time, class and tile, in key order.
  virtual void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
                      std::size_t count) = 0;
};

/// Holds every pending event of the model in one RadixQueue and advances the kernel in step with
/// it: one SC_METHOD is woken once per distinct time and handles all events of that time, so
/// sc_time_stamp() is right in every handler. Its wake-up is the model's only timed notification.
///
/// With `run_ahead` it goes on to later times by itself while the kernel has nothing else pending
/// before them, which saves a kernel cycle per time. Nobody but the model's own handlers, which
/// take the time from now(), may then look at the time; processes of the model are notified through
/// trigger(), run at the right kernel time, and the kernel ends at the time of the last event.
///
/// The order at equal time is that of the key (class, tile, port, slot), never that of insertion.
/// An exception thrown by a handler is kept, the simulation pauses, and rethrow() throws it again.
class EventQueue : public sc_core::sc_module {
 public:
  explicit EventQueue(const sc_core::sc_module_name& name, bool run_ahead = false);

  /// `handler` takes the events of `type`; one per class.
  void attach(EventClass type, EventHandler& handler);
  /// Events of EventClass::agent with slot `id` go to `handler`.
  void attach_agent(std::uint32_t id, EventHandler& handler);

  /// The current time, also outside the queue's own process.
  Picoseconds now() const { return draining_ ? now_ : sc_core::sc_time_stamp().value(); }

  /// Schedules an event; `time` must not lie in the past. Callable from any process.
  void push(Picoseconds time, EventClass type, std::uint32_t tile, unsigned port,
            std::uint64_t slot) {
    const std::uint64_t key = (static_cast<std::uint64_t>(type) << Event::kClassShift) |
                              (static_cast<std::uint64_t>(tile) << Event::kTileShift) |
                              (static_cast<std::uint64_t>(port) << Event::kPortShift) | slot;
    // A time beyond the end may have wrapped round already and lie in the past.
    if (time > kEndOfTime) past(time);
    if (draining_) {
      if (time < now_) past(time);
      queue_.push({key, time});
    } else {
      push_from_outside({key, time});
    }
  }

  /// Notifies a process of the model at the current time, in a later delta cycle.
  void trigger(sc_core::sc_event& event);

  /// Whether kernel time may lag behind now().
  bool runs_ahead() const { return run_ahead_; }
  /// Events handled so far.
  std::uint64_t events() const { return events_; }

  /// Stops the model: keeps the exception, handles no more events, pauses the simulation. For
  /// processes of the model, whose exceptions must not pass through the kernel.
  void fail(std::exception_ptr error);
  bool failed() const { return error_ != nullptr; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void drain();
  void drain_now();
  bool kernel_is_due(Picoseconds before) const;
  void push_from_outside(const RadixQueue::Entry& e);
  [[noreturn]] void past(Picoseconds time) const;

  RadixQueue queue_;
  bool run_ahead_;
  Picoseconds now_ = 0, kernel_now_ = 0;
  bool draining_ = false;
  Picoseconds wake_time_ = kNever;
  std::uint64_t events_ = 0;
  std::array<EventHandler*, kEventClasses> handlers_{};
  std::vector<EventHandler*> agents_;
  std::vector<Event> group_;
  sc_core::sc_event wake_;
  std::exception_ptr error_;
};

}  // namespace tilewright
