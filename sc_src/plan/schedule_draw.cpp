// A schedule as text: orders, and slots over time.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tilewright/plan/schedule.h>

namespace tilewright {
namespace {

/// Stages beyond are left out in the middle.
constexpr std::size_t kDrawnStages = 16;

/// Rows of cells for the stages, shortened to what is readable: the middle of long rows and the
/// middle rows are left out, and never stored.
class Table {
 public:
  Table(const Schedule& s, std::size_t columns, std::size_t width)
      : rows_(s.orders.size()), columns_(columns) {
    const Slot last{s.micro_batches - 1, static_cast<std::uint16_t>(s.chunks - 1)};
    cell_ = to_text(last, s.chunks).size() + 1;
    digits_ = std::to_string(rows_ - 1).size();
    const std::size_t label = std::string("stage ").size() + digits_ + 1;
    const std::size_t fit = std::max<std::size_t>(4, (std::max(width, label) - label) / cell_);
    const bool whole = columns <= fit;
    head_ = whole ? columns : fit / 2;
    tail_ = whole ? columns : columns - (fit - 1 - head_);  // one cell says that some are left out
    cells_.assign(rows_, {});
    for (std::size_t r = 0; r < rows_; ++r) {
      if (shows_row(r)) cells_[r].assign(head_ + columns_ - tail_, ".");
    }
  }

  bool shows_row(std::size_t row) const {
    return rows_ <= kDrawnStages || row < kDrawnStages / 2 || row >= rows_ - kDrawnStages / 2;
  }
  bool shows(std::size_t column) const { return column < head_ || column >= tail_; }
  void set(std::size_t row, std::size_t column, std::string text) {
    cells_[row][column < head_ ? column : column - tail_ + head_] = std::move(text);
  }

  std::string text() const {
    std::string result;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (!shows_row(r)) {
        if (shows_row(r - 1)) result += "  ...\n";
        continue;
      }
      std::string line = fmt::format("stage {:>{}} ", r, digits_);
      for (std::size_t c = 0; c < cells_[r].size(); ++c) {
        if (c == head_) line += fmt::format(" {:<{}}", "...", cell_ - 1);
        line += fmt::format(" {:<{}}", cells_[r][c], cell_ - 1);
      }
      result += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return result;
  }

 private:
  std::size_t rows_, columns_;
  std::size_t cell_ = 0, digits_ = 0;
  std::size_t head_ = 0, tail_ = 0;  ///< columns [head, tail) are left out
  std::vector<std::vector<std::string>> cells_;
};

}  // namespace

std::string draw_orders(const Schedule& s, std::size_t width) {
  std::size_t longest = 0;
  for (const StageOrder& order : s.orders) longest = std::max(longest, order.size());
  Table table(s, longest, width);
  for (std::size_t i = 0; i < s.orders.size(); ++i) {
    if (!table.shows_row(i)) continue;
    for (std::size_t k = 0; k < s.orders[i].size(); ++k) {
      if (table.shows(k)) table.set(i, k, to_text(s.orders[i][k], s.chunks));
    }
  }
  return table.text();
}

std::string draw_timeline(const Schedule& s, std::size_t width) {
  const auto times = time_schedule(s, unit_durations(s));
  double length = 0;
  for (const auto& stage : times) length = std::max(length, stage.back().end);
  Table table(s, static_cast<std::size_t>(std::lround(length)), width);
  for (std::size_t i = 0; i < s.orders.size(); ++i) {
    if (!table.shows_row(i)) continue;
    for (std::size_t k = 0; k < s.orders[i].size(); ++k) {
      const auto from = static_cast<std::size_t>(std::lround(times[i][k].start));
      const auto to = static_cast<std::size_t>(std::lround(times[i][k].end));
      for (std::size_t t = from; t < to; ++t) {
        if (table.shows(t)) table.set(i, t, to_text(s.orders[i][k], s.chunks));
      }
    }
  }
  return table.text();
}

}  // namespace tilewright
