// Memory that messages take from their arrival to their use (docs/lowering.md, section 3).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <tilewright/plan/collective.h>
#include <tilewright/plan/schedule.h>

namespace tilewright {

/// Bytes of messages that wait at a stage for slots which have not started; element k of each:
/// while k slots have started.
struct WaitingMessages {
  /// The most that the schedule allows, whatever time slots and transfers take: sends never block,
  /// so the stages around run as far ahead as dependences let them.
  std::vector<std::int64_t> all;
  /// Of these, what a stage receives ahead: the next one of each chunk and direction.
  std::vector<std::int64_t> next;
};
/// `bytes`: of the message that a slot of the stage takes in from another stage. O(slots of the
/// stages around it); of interleaved chunks, where everybody is around, of all stages.
WaitingMessages waiting_messages(const Schedule& schedule, int stage,
                                 const std::function<std::int64_t(const Slot&)>& bytes);

/// Bytes of the messages of a collective that a member holds to add them to what it has, when it
/// holds most: from when a message can be sent, with all members in step, until it is added. What
/// takes the place of something needs no room of its own.
std::int64_t summand_bytes(const CollectiveSchedule& schedule);

}  // namespace tilewright
