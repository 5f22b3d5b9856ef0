#include <string>

#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/process.h>

namespace tilewright {

EventQueue::EventQueue(const sc_core::sc_module_name& name, bool run_ahead)
    : sc_core::sc_module(name), run_ahead_(run_ahead), wake_("wake") {
  TILEWRIGHT_HAS_PROCESS(EventQueue);
  SC_METHOD(drain);
  sensitive << wake_;
  dont_initialize();
}

void EventQueue::attach(EventClass type, EventHandler& handler) {
  EventHandler*& entry = handlers_[static_cast<std::size_t>(type)];
  if (entry != nullptr) throw InternalError("two handlers for one event class");
  entry = &handler;
}

void EventQueue::attach_agent(std::uint32_t id, EventHandler& handler) {
  if (id >= agents_.size()) agents_.resize(id + 1, nullptr);
  if (agents_[id] != nullptr) throw InternalError("two agents with one number");
  agents_[id] = &handler;
}

void EventQueue::past(Picoseconds time) const {
  if (time > kEndOfTime) {
    throw InputError(
        "simulated time passes 2^62 ps (53 days), where it ends: the machine's rates are "
        "too low for the work, or a size is too large");
  }
  throw InternalError("an event was scheduled before the current time, " + std::to_string(now_) +
                      " ps");
}

void EventQueue::push_from_outside(const RadixQueue::Entry& e) {
  const Picoseconds now = sc_core::sc_time_stamp().value();
  if (e.time < now) {
    now_ = now;
    past(e.time);
  }
  queue_.push(e);
  if (e.time < wake_time_) {
    wake_time_ = e.time;
    wake_.notify(sc_core::sc_time::from_value(e.time - now));
  }
}

void EventQueue::fail(std::exception_ptr error) {
  if (!error_) error_ = std::move(error);
  sc_core::sc_pause();
}

void EventQueue::drain() {
  if (error_) return;
  now_ = kernel_now_ = sc_core::sc_time_stamp().value();
  draining_ = true;
  const RadixQueue::Entry* next = nullptr;
  try {
    for (;;) {
      drain_now();
      next = queue_.front();
      if (!run_ahead_ || next == nullptr || kernel_is_due(next->time)) break;
      now_ = next->time;
    }
  } catch (...) {
    draining_ = false;
    fail(std::current_exception());
    return;
  }
  draining_ = false;
  wake_time_ = kNever;
  // After the last event the kernel still has to reach its time.
  if (next != nullptr || now_ > kernel_now_) {
    wake_time_ = next != nullptr ? next->time : now_;
    wake_.notify(sc_core::sc_time::from_value(wake_time_ - kernel_now_));
  }
}

/// True when the kernel has something to do at or before a later time.
bool EventQueue::kernel_is_due(Picoseconds before) const {
  if (sc_core::sc_pending_activity_at_current_time()) return true;
  return sc_core::sc_pending_activity_at_future_time() &&
         sc_core::sc_time_to_pending_activity().value() <= before - kernel_now_;
}

void EventQueue::trigger(sc_core::sc_event& event) {
  if (draining_ && now_ > kernel_now_) {
    event.notify(sc_core::sc_time::from_value(now_ - kernel_now_));
  } else {
    event.notify(sc_core::SC_ZERO_TIME);
  }
}

void EventQueue::drain_now() {
  const RadixQueue::Entry* next = queue_.front();
  while (next != nullptr && next->time == now_) {
    const Event first{next->key};
    queue_.drop();
    ++events_;
    const std::uint64_t same = first.key >> Event::kTileShift;
    const Event* events = &first;
    std::size_t count = 1;
    next = queue_.front();
    if (next != nullptr && next->time == now_ && next->key >> Event::kTileShift == same) {
      group_.assign(1, first);
      do {
        group_.push_back({next->key});
        queue_.drop();
        next = queue_.front();
      } while (next != nullptr && next->time == now_ && next->key >> Event::kTileShift == same);
      count = group_.size();
      events_ += count - 1;
      events = group_.data();
    }
    if (first.type() == EventClass::agent) {
      for (std::size_t i = 0; i < count; ++i) {
        agents_[events[i].slot()]->handle(now_, EventClass::agent, first.tile(), events + i, 1);
      }
    } else {
      handlers_[static_cast<std::size_t>(first.type())]->handle(now_, first.type(), first.tile(),
                                                                events, count);
    }
    next = queue_.front();
  }
}

}  // namespace tilewright
