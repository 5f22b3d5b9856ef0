#include <algorithm>

#include <fmt/format.h>

#include <tilewright/base/error.h>

#include "collective_builder.h"

namespace tilewright {

const char* to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::ring_step:
      return "ring";
    case CollectiveKind::halo:
      return "halo";
    case CollectiveKind::halo_sum:
      return "halo_sum";
  }
  return "unknown";
}

const char* to_string(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::ring:
      return "ring";
    case CollectiveAlgorithm::two_rings:
      return "two-rings";
    case CollectiveAlgorithm::row_column:
      return "row-column";
    case CollectiveAlgorithm::tree:
      return "tree";
    case CollectiveAlgorithm::halving_doubling:
      return "halving-doubling";
    case CollectiveAlgorithm::direct:
      return "direct";
    case CollectiveAlgorithm::random:
      return "random";
  }
  return "unknown";
}

std::string runs_not(CollectiveKind kind, CollectiveAlgorithm algorithm) {
  using K = CollectiveKind;
  using A = CollectiveAlgorithm;
  std::vector<K> kinds{K::all_reduce, K::reduce_scatter, K::all_gather, K::all_to_all,
                       K::broadcast};
  switch (algorithm) {
    case A::ring:
      if (kind == K::ring_step || kind == K::halo || kind == K::halo_sum) return "";
      kinds = {K::all_reduce, K::reduce_scatter, K::all_gather, K::broadcast};
      break;
    case A::row_column:
      kinds = {K::all_reduce, K::reduce_scatter, K::all_gather, K::all_to_all};
      break;
    case A::tree:
      kinds = {K::all_reduce, K::broadcast};
      break;
    case A::two_rings:
    case A::halving_doubling:
      kinds = {K::all_reduce, K::reduce_scatter, K::all_gather};
      break;
    case A::direct:
      break;
    case A::random:
      kinds = {K::all_to_all};
      break;
  }
  if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return "";
  std::string names;
  for (const K k : kinds) names += (names.empty() ? "" : ", ") + std::string(to_string(k));
  return fmt::format("{} cannot run {}; it runs: {}", to_string(algorithm), to_string(kind), names);
}

std::string why_not(CollectiveKind kind, CollectiveAlgorithm algorithm,
                    const CollectiveGroup& group) {
  const int p = group.size();
  if (algorithm == CollectiveAlgorithm::row_column && group.columns == 0) {
    return fmt::format(
        "row-column needs groups that are grids of equally many rows and columns; "
        "the {} ranks of a group are not",
        p);
  }
  if (algorithm == CollectiveAlgorithm::halving_doubling && (p & (p - 1)) != 0) {
    return fmt::format(
        "halving-doubling needs a number of ranks that is a power of two; a group "
        "has {}",
        p);
  }
  return runs_not(kind, algorithm);
}

CollectiveSchedule make_schedule(CollectiveKind kind, CollectiveAlgorithm algorithm,
                                 const CollectiveGroup& group, std::int64_t bytes) {
  const std::string reason = why_not(kind, algorithm, group);
  if (!reason.empty()) throw InternalError(reason);
  if (group.size() < 2 || bytes < 1) return {};
  switch (algorithm) {
    case CollectiveAlgorithm::ring:
    case CollectiveAlgorithm::two_rings:
      return ring_schedule(kind, group, bytes, algorithm == CollectiveAlgorithm::two_rings);
    case CollectiveAlgorithm::row_column:
      return row_column_schedule(kind, group, bytes);
    case CollectiveAlgorithm::tree:
      return tree_schedule(kind, group, bytes);
    case CollectiveAlgorithm::halving_doubling:
      return halving_doubling_schedule(kind, group, bytes);
    case CollectiveAlgorithm::direct:
    case CollectiveAlgorithm::random:
      return direct_schedule(kind, group, bytes, algorithm == CollectiveAlgorithm::random);
  }
  throw InternalError("unknown collective algorithm");
}

void CollectiveChoices::set(const std::string& axis, CollectiveKind kind, CollectiveChoice choice) {
  choices_[{axis, kind}] = std::move(choice);
}

CollectiveChoice CollectiveChoices::of(const std::string& axis, CollectiveKind kind) const {
  for (const std::string& name : {axis, std::string()}) {
    const auto it = choices_.find({name, kind});
    if (it != choices_.end()) return it->second;
  }
  return {usual(kind), ""};
}

CollectiveAlgorithm CollectiveChoices::usual(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_to_all:
      return CollectiveAlgorithm::direct;
    case CollectiveKind::broadcast:
      return CollectiveAlgorithm::tree;
    default:
      return CollectiveAlgorithm::ring;
  }
}

}  // namespace tilewright
