// Along the lines of a grid: first its rows, then its columns, or the other way round.
//
// A member at the corner of a mesh has one link in a row and one in a column. Of two parts of the
// data one goes through the rows while the other goes through the columns, so that both links are
// busy all the time, and a reduce-scatter or an all-gather takes (p-1)/p · n/(2β). A line is a ring
// folded onto itself: out over every other member, back over those between, which uses each link
// once each way.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "collective_builder.h"

namespace tilewright {
namespace {

/// The lines of a grid in one dimension: its rows, or its columns.
class Lines {
 public:
  Lines(const CollectiveGroup& group, bool rows)
      : length_(rows ? group.columns : group.rows),
        count_(rows ? group.rows : group.columns),
        seconds_(rows ? group.row_seconds : group.column_seconds),
        name_(rows ? "row" : "column"),
        members_(group.grid.size()),
        line_(group.grid.size()),
        place_(group.grid.size()) {
    for (int line = 0; line < count_; ++line) {
      for (int place = 0; place < length_; ++place) {
        const int m = rows ? group.member(place, line) : group.member(line, place);
        members_[static_cast<std::size_t>(line * length_ + place)] = m;
        line_[static_cast<std::size_t>(m)] = line;
        place_[static_cast<std::size_t>(m)] = place;
      }
    }
    for (int i = 0; i < length_; i += group.mesh ? 2 : 1) order_.push_back(i);
    for (int i = length_ - 1; i > 0 && group.mesh; --i) {
      if (i % 2 != 0) order_.push_back(i);
    }
  }
  int length() const { return length_; }
  int count() const { return count_; }
  double seconds() const { return seconds_; }
  const char* name() const { return name_; }
  int members() const { return length_ * count_; }
  int member(int line, int place) const {
    return members_[static_cast<std::size_t>(line * length_ + place)];
  }
  int line(int member) const { return line_[static_cast<std::size_t>(member)]; }
  int place(int member) const { return place_[static_cast<std::size_t>(member)]; }
  /// The members of a line as its ring visits them.
  std::vector<int> ring(int line) const {
    std::vector<int> result;
    for (const int place : order_) result.push_back(member(line, place));
    return result;
  }
  /// The place that comes `steps` after a member's in its ring.
  int further(int member, int steps) const {
    const auto at = std::find(order_.begin(), order_.end(), place(member)) - order_.begin();
    return order_[static_cast<std::size_t>((static_cast<int>(at) + steps) % length_)];
  }

 private:
  int length_, count_;
  double seconds_;
  const char* name_;
  std::vector<int> members_, line_, place_, order_;
};

/// The way of one part of the data.
struct Part {
  int first_block = 0;     ///< of its blocks
  std::int64_t bytes = 0;  ///< of a block
  std::string suffix;      ///< of its tables
  /// Dimensions in the order of gathering and exchanging; sums go the other way round.
  std::array<std::shared_ptr<const Lines>, 2> dimensions;
};

/// What part of the data goes through the rows first.
double rows_first(const CollectiveGroup& g) {
  // Gathering takes, per unit of x that goes through the rows first, w-1 steps of it in a row and
  // then h-1 steps of w blocks in a column. Neither a dimension nor a part may take longer than it
  // must.
  constexpr int kSteps = 32;
  const double row = (g.columns - 1) * g.row_seconds, column = (g.rows - 1) * g.column_seconds;
  double best = 0.5, least = -1;
  for (int i = 0; i <= kSteps; ++i) {
    // From the middle outwards: 1/2, then 1/32 more, 1/32 less, ...
    const double x = 0.5 + (i % 2 == 0 ? -1 : 1) * static_cast<double>((i + 1) / 2) / kSteps;
    const double early_row = x * row, late_column = x * g.columns * column;
    const double early_column = (1 - x) * column, late_row = (1 - x) * g.rows * row;
    const double time = std::max({early_row + late_row, early_column + late_column,
                                  early_row + late_column, early_column + late_row});
    if (least >= 0 && time >= least * (1 - 1e-9)) continue;
    least = time;
    best = x;
  }
  return best;
}

/// One or two parts, each of so many blocks.
std::vector<Part> parts_of(CollectiveKind kind, const CollectiveGroup& group, std::int64_t bytes) {
  const auto rows = std::make_shared<const Lines>(group, true);
  const auto columns = std::make_shared<const Lines>(group, false);
  const std::int64_t block = ceil_div(bytes, group.size());
  const bool line = group.columns == 1 || group.rows == 1;
  const double share = line ? 1 : kind == CollectiveKind::all_to_all ? 0.5 : rows_first(group);
  const auto first = static_cast<std::int64_t>(share * static_cast<double>(block) + 0.5);
  const int blocks = group.size() * (kind == CollectiveKind::all_to_all ? group.size() : 1);
  std::vector<Part> parts;
  if (first > 0) parts.push_back({0, first, " a", {rows, columns}});
  if (first < block) {
    parts.push_back({parts.empty() ? 0 : blocks, block - first, " b", {columns, rows}});
  }
  return parts;
}

/// A ring in every line of a dimension, in one part of the data. Blocks are a member's own, or with
/// `wide` those of all members at its place, in this line and the others.
struct LineRings {
  const Part& part;
  std::shared_ptr<const Lines> lines;
  std::uint32_t table = 0;

  void append_to(Strand& strand, bool wide, bool reduces, double earliest = 0) const {
    const int n = lines->length();
    for (int i = 0; i + 1 < n; ++i) {
      const int rotation = ((reduces ? -1 : 0) - i + n) % n;
      CollectiveStep step;
      step.table = table;
      step.bytes = part.bytes * (wide ? lines->count() : 1);
      step.adds = reduces;
      step.blocks = [lines = lines, rotation, wide, first = part.first_block](int member) {
        const int place = lines->further(member, rotation);
        std::vector<int> blocks;
        for (int line = 0; line < lines->count(); ++line) {
          if (wide || line == lines->line(member)) {
            blocks.push_back(first + lines->member(line, place));
          }
        }
        return blocks;
      };
      append(strand, std::move(step), lines->seconds(), earliest);
    }
  }
};

std::vector<Strand> ring_strands(CollectiveKind kind, const std::vector<Part>& parts,
                                 ScheduleBuilder& builder) {
  std::vector<std::array<LineRings, 2>> rings;  // by part and dimension
  for (const Part& part : parts) {
    const auto along = [&](std::size_t d) {
      const Lines& lines = *part.dimensions[d];
      std::vector<std::vector<int>> orders;
      for (int line = 0; line < lines.count(); ++line) orders.push_back(lines.ring(line));
      return LineRings{part, part.dimensions[d],
                       builder.table(lines.name() + part.suffix, next_of(lines.members(), orders))};
    };
    rings.push_back({along(0), along(1)});
  }
  std::vector<Strand> strands(parts.size());
  double narrow = 0;  // until all parts have gathered along their first dimension
  for (std::size_t s = 0; s < parts.size(); ++s) {
    if (kind != CollectiveKind::all_gather) {
      rings[s][1].append_to(strands[s], true, true);
      rings[s][0].append_to(strands[s], false, true);
    }
    if (kind != CollectiveKind::reduce_scatter) rings[s][0].append_to(strands[s], false, false);
    if (!strands[s].empty()) narrow = std::max(narrow, strands[s].back().end);
  }
  if (kind == CollectiveKind::reduce_scatter) return strands;
  // The large messages of one part would hold up the small ones of the other in the same lines.
  for (std::size_t s = 0; s < parts.size(); ++s) {
    rings[s][1].append_to(strands[s], true, false, narrow);
  }
  return strands;
}

/// All messages between the members of each line at once: what all members at the receiver's place
/// are to have. Then, when all have come, along the other dimension: what the receiver is to have
/// from all members of the line that the first exchange went along.
void exchange(const std::vector<Part>& parts, ScheduleBuilder& builder) {
  std::uint32_t after = kNoOp;
  for (std::size_t d = 0; d < 2; ++d) {
    struct Message {
      double when;  ///< of all messages of the part's line, by distance
      const Part* part;
      int distance;
    };
    std::vector<Message> messages;
    for (const Part& part : parts) {
      const int n = part.dimensions[d]->length();
      for (int i = 1; i < n; ++i) messages.push_back({i / static_cast<double>(n), &part, i});
    }
    std::stable_sort(messages.begin(), messages.end(),
                     [](const Message& a, const Message& b) { return a.when < b.when; });
    std::uint32_t last = after;
    for (const auto& [when, part, i] : messages) {
      const std::shared_ptr<const Lines>& lines = part->dimensions[d];
      const int p = lines->members();
      const auto receiver_of = [lines, distance = i](int member) {
        return lines->member(lines->line(member),
                             (lines->place(member) + distance) % lines->length());
      };
      std::vector<int> to(static_cast<std::size_t>(p));
      for (int m = 0; m < p; ++m) to[static_cast<std::size_t>(m)] = receiver_of(m);
      const std::uint32_t table =
          builder.table(fmt::format("{} +{}{}", lines->name(), i, part->suffix), std::move(to));
      const std::int64_t bytes = part->bytes * lines->count();
      builder.send(
          table, bytes, after, [lines, receiver_of, d, p, first = part->first_block](int member) {
            const int receiver = receiver_of(member);
            std::vector<int> blocks;
            for (int line = 0; line < lines->count(); ++line) {
              blocks.push_back(first +
                               (d == 0 ? member * p + lines->member(line, lines->place(receiver))
                                       : lines->member(line, lines->place(member)) * p + receiver));
            }
            return blocks;
          });
      last = builder.receive(table, bytes, false);
    }
    after = last;
  }
}

}  // namespace

CollectiveSchedule row_column_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                       std::int64_t bytes) {
  ScheduleBuilder builder;
  const bool exchanges = kind == CollectiveKind::all_to_all;
  const std::vector<Part> parts = parts_of(kind, group, bytes);
  if (exchanges) {
    exchange(parts, builder);
  } else {
    builder.merge(ring_strands(kind, parts, builder));
  }
  const int blocks = group.size() * (exchanges ? group.size() : 1);
  builder.blocks(blocks, parts.front().bytes, parts.size() > 1 ? blocks : 0, parts.back().bytes);
  return std::move(builder.schedule);
}

}  // namespace tilewright
