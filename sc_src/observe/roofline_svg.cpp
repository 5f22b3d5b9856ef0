// The roofline as a drawing.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/observe/roofline.h>

#include "svg.h"

namespace tilewright {
namespace {

constexpr double kWidth = 1000, kHeight = 660;
constexpr double kLeft = 84, kRight = 784, kTop = 70, kBottom = 590;  // of the plot
constexpr double kLetter = 7;                                         // width of one, at most
constexpr double kSmallest = 3, kLargest = 17;                        // radius of an operator
const std::string kInk = "#24292f", kFaint = "#6e7781", kGrid = "#e7eaee";

struct PhaseColour {
  const char* phase;
  const char* colour;
};
constexpr std::array<PhaseColour, 4> kPhases{{{"forward", "#2f6fb3"},
                                              {"recompute", "#e0952f"},
                                              {"backward", "#b8403f"},
                                              {"optimizer", "#4a9463"}}};

std::string colour(const std::string& phase) {
  for (const PhaseColour& p : kPhases) {
    if (phase == p.phase) return p.colour;
  }
  return kFaint;
}

/// "16 T" of 1.6e13: up to three digits and a prefix.
std::string engineering(double v) {
  static constexpr std::array<std::pair<double, const char*>, 6> kPrefixes{
      {{1e18, " E"}, {1e15, " P"}, {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const auto& [scale, prefix] : kPrefixes) {
    if (v >= scale) return fmt::format("{:.3g}{}", v / scale, prefix);
  }
  return fmt::format("{:.3g} ", v);
}

/// A logarithmic axis between two values and their places.
class Axis {
 public:
  Axis(double least, double most, double from, double to)
      : least_(std::log10(least)), most_(std::log10(most)), from_(from), to_(to) {}
  double at(double value) const {
    return from_ + (std::log10(value) - least_) / (most_ - least_) * (to_ - from_);
  }
  double least() const { return std::pow(10, least_); }
  double most() const { return std::pow(10, most_); }
  int first_decade() const { return static_cast<int>(std::ceil(least_)); }
  int last_decade() const { return static_cast<int>(std::floor(most_)); }

 private:
  double least_, most_, from_, to_;
};

struct Box {
  double x0, y0, x1, y1;
  bool meets(const Box& o) const { return x0 < o.x1 && o.x0 < x1 && y0 < o.y1 && o.y0 < y1; }
};

class Drawing {
 public:
  explicit Drawing(const Roofline& roofline)
      : r_(roofline), svg_(kWidth, kHeight), x_(x_axis()), y_(y_axis()) {
    for (const RooflineOperator& o : r_.operators) all_busy_ += o.busy();
  }

  std::string draw() {
    frame();
    roofs();
    // Large ones first, so that none is hidden.
    std::vector<const RooflineOperator*> order;
    for (const RooflineOperator& o : r_.operators) {
      if (o.rate() > 0) order.push_back(&o);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](auto* a, auto* b) { return a->busy() > b->busy(); });
    for (const RooflineOperator* o : order) sram_mark(*o);
    for (const RooflineOperator* o : order) dram_mark(*o);
    for (const RooflineOperator* o : order) {
      const double x = place(o->dram_intensity()), y = y_.at(o->rate()), r = radius(*o);
      taken_.push_back({x - r, y - r, x + r, y + r});
      const double sram_x = place(o->sram_intensity());
      taken_.push_back({sram_x - 4, y - 4, sram_x + 4, y + 4});
    }
    for (const RooflineOperator* o : order) label(*o);
    legend();
    return svg_.str();
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// Where the roof of a bandwidth meets the matrix engine's.
  double ridge(double bandwidth) const { return r_.matrix_peak / bandwidth; }

  Axis x_axis() const {
    double least = kInfinity, most = 0;
    const auto include = [&](double intensity) {
      if (!(intensity > 0) || intensity == kInfinity) return;
      least = std::min(least, intensity);
      most = std::max(most, intensity);
    };
    for (const RooflineOperator& o : r_.operators) {
      include(o.dram_intensity());
      include(o.sram_intensity());
    }
    include(ridge(r_.dram_bandwidth));
    include(ridge(r_.sram_bandwidth));
    if (most == 0) least = most = 1;
    return {least / 2.5, most * 4, kLeft, kRight};
  }

  Axis y_axis() const {
    double least = r_.matrix_peak;
    if (r_.vector_peak > 0) least = std::min(least, r_.vector_peak);
    for (const RooflineOperator& o : r_.operators) {
      if (o.rate() > 0) least = std::min(least, o.rate());
    }
    return {least / 3, std::max(r_.matrix_peak, r_.vector_peak) * 4, kBottom, kTop};
  }

  Svg::TextStyle style(double size, const std::string& fill = kInk,
                       const std::string& anchor = "start") const {
    Svg::TextStyle s;
    s.size = size;
    s.fill = fill;
    s.anchor = anchor;
    return s;
  }

  void frame() {
    Svg::TextStyle heading = style(16);
    heading.bold = true;
    svg_.text(kLeft, 30, r_.title, heading);
    svg_.text(kLeft, 50, "Operators of a job against the roofs of one tile", style(12, kFaint));
    for (int d = x_.first_decade(); d <= x_.last_decade(); ++d) {
      const double value = std::pow(10, d), x = x_.at(value);
      svg_.line(x, kTop, x, kBottom, {kGrid, 1, ""});
      svg_.text(x, kBottom + 18, value >= 1 ? engineering(value) : fmt::format("{:g}", value),
                style(11, kFaint, "middle"));
    }
    for (int d = y_.first_decade(); d <= y_.last_decade(); ++d) {
      const double value = std::pow(10, d), y = y_.at(value);
      svg_.line(kLeft, y, kRight, y, {kGrid, 1, ""});
      svg_.text(kLeft - 8, y + 4, engineering(value), style(11, kFaint, "end"));
    }
    svg_.line(kLeft, kBottom, kRight, kBottom, {kFaint, 1, ""});
    svg_.line(kLeft, kTop, kLeft, kBottom, {kFaint, 1, ""});
    svg_.text((kLeft + kRight) / 2, kBottom + 44, "operations per byte moved",
              style(13, kInk, "middle"));
    Svg::TextStyle upright = style(13, kInk, "middle");
    upright.turn = -90;
    svg_.text(24, (kTop + kBottom) / 2, "operations per second of a tile", upright);
  }

  /// The diagonal of a bandwidth from the edge of the plot up to the peak.
  void slope(const char* name, double bandwidth, const std::string& stroke) {
    if (bandwidth == kInfinity || !(bandwidth > 0)) return;
    const double from = std::max(x_.least(), y_.least() / bandwidth);
    const double to = ridge(bandwidth);
    svg_.line(x_.at(from), y_.at(from * bandwidth), x_.at(to), y_.at(r_.matrix_peak),
              {stroke, 2, ""});
    Svg::TextStyle along = style(12, stroke, "start");
    along.halo = true;
    along.turn =
        std::atan2(y_.at(to * bandwidth) - y_.at(from * bandwidth), x_.at(to) - x_.at(from)) * 180 /
        std::acos(-1);
    // A little above the line, near its lower end.
    const double turn = along.turn * std::acos(-1) / 180;
    const double x = x_.at(from) + 14 * std::cos(turn) + 7 * std::sin(turn);
    const double y = y_.at(from * bandwidth) + 14 * std::sin(turn) - 7 * std::cos(turn);
    const std::string text = fmt::format("{} {}B/s", name, engineering(bandwidth));
    svg_.text(x, y, text, along);
    // No name across the line, and above its own.
    const double length =
        std::hypot(x_.at(to) - x_.at(from), y_.at(r_.matrix_peak) - y_.at(from * bandwidth));
    for (double done = 0; done < length; done += 4) {
      const double at_x = x_.at(from) + done * std::cos(turn);
      const double at_y = y_.at(from * bandwidth) + done * std::sin(turn);
      const double above = done < 14 + kLetter * static_cast<double>(text.size()) ? 20 : 2;
      taken_.push_back({at_x - 2, at_y - above, at_x + 2, at_y + 2});
    }
  }

  /// A peak from intensity `from` on, its name above the line where that begins or ends.
  void peak(const std::string& text, double value, double from, const std::string& dash,
            bool name_ends) {
    if (!(value > 0) || value == kInfinity) return;
    const double x = x_.at(from), y = y_.at(value);
    svg_.line(x, y, kRight, y, {kInk, 2, dash});
    Svg::TextStyle name = style(12, kInk, name_ends ? "end" : "start");
    name.halo = true;
    svg_.text(name_ends ? kRight - 6 : x + 10, y - 7, text, name);
    const double length = 10 + kLetter * static_cast<double>(text.size());
    const double left = name_ends ? kRight - length : x;
    taken_.push_back({x, y - 2, kRight, y + 2});
    taken_.push_back({left, y - 20, left + length, y});
  }

  void roofs() {
    double start = kInfinity;
    for (const double bandwidth : {r_.dram_bandwidth, r_.sram_bandwidth}) {
      if (bandwidth != kInfinity && bandwidth > 0) start = std::min(start, ridge(bandwidth));
    }
    peak(fmt::format("{} matrix peak {}FLOP/s", r_.format, engineering(r_.matrix_peak)),
         r_.matrix_peak, start == kInfinity ? x_.least() : start, "", false);
    peak(fmt::format("vector peak {}elem/s", engineering(r_.vector_peak)), r_.vector_peak,
         x_.least(), "7 4", true);
    slope("SRAM", r_.sram_bandwidth, "#8250a8");
    slope("DRAM", r_.dram_bandwidth, kInk);
  }

  double share(const RooflineOperator& o) const { return all_busy_ > 0 ? o.busy() / all_busy_ : 0; }
  double radius(const RooflineOperator& o) const {
    return kSmallest + (kLargest - kSmallest) * std::sqrt(share(o));
  }
  /// Where an operator without traffic stands: at the right edge.
  double place(double intensity) const {
    return intensity == kInfinity ? kRight : x_.at(intensity);
  }

  std::string title(const RooflineOperator& o) const {
    const auto intensity = [](double operations_per_byte, const char* memory) {
      return operations_per_byte == kInfinity
                 ? fmt::format("no {} bytes", memory)
                 : fmt::format("{:.3g} per {} byte", operations_per_byte, memory);
    };
    return fmt::format(
        "{} ({}, stages {}): {}{}/s, {:.0f} % of its roof; {}, {}; {:.1f} % of the time; bound by "
        "{}",
        o.name, o.phase, o.stages, engineering(o.rate()), o.matrix ? "FLOP" : "elem",
        100 * o.rate() / roof(r_, o), intensity(o.dram_intensity(), "DRAM"),
        intensity(o.sram_intensity(), "SRAM"), 100 * share(o), o.bound);
  }

  void mark(double x, double y, double radius, bool matrix, const std::string& paint,
            const std::string& title) {
    if (matrix) {
      svg_.shape(fmt::format("circle cx=\"{}\" cy=\"{}\" r=\"{}\" {}", Svg::number(x),
                             Svg::number(y), Svg::number(radius), paint),
                 title);
      return;
    }
    const double d = 1.2 * radius;
    svg_.shape(fmt::format("path d=\"M{0} {2}L{1} {3}L{0} {4}L{5} {3}Z\" {6}", Svg::number(x),
                           Svg::number(x + d), Svg::number(y - d), Svg::number(y),
                           Svg::number(y + d), Svg::number(x - d), paint),
               title);
  }

  void sram_mark(const RooflineOperator& o) {
    if (o.sram_intensity() == kInfinity) return;
    const double x = place(o.sram_intensity()), y = y_.at(o.rate());
    svg_.line(std::min(x, place(o.dram_intensity())), y, std::max(x, place(o.dram_intensity())), y,
              {colour(o.phase) + "40", 1, "2 3"});
    mark(x, y, 3.5, o.matrix,
         fmt::format("fill=\"white\" stroke=\"{}\" stroke-width=\"1.2\"", colour(o.phase)),
         title(o));
  }

  void dram_mark(const RooflineOperator& o) {
    const double x = place(o.dram_intensity()), y = y_.at(o.rate());
    mark(x, y, radius(o), o.matrix,
         fmt::format("fill=\"{}\" fill-opacity=\"0.72\" stroke=\"white\" stroke-width=\"1\"",
                     colour(o.phase)),
         title(o));
  }

  /// Whether a text there hides nothing and stays inside.
  bool free(const Box& box) const {
    return box.x0 > kLeft && box.x1 < kRight && box.y0 > kTop && box.y1 < kBottom &&
           std::none_of(taken_.begin(), taken_.end(), [&](const Box& b) { return b.meets(box); });
  }

  /// The name near the mark, where it has room: the closest place of those around it. Those that
  /// take little time, or stand where another of their name does, are left to the pointer.
  void label(const RooflineOperator& o) {
    constexpr double kLeast = 0.01;
    const double x = place(o.dram_intensity()), y = y_.at(o.rate()), r = radius(o);
    if (share(o) < kLeast || !named_.insert({o.name, std::lround(x), std::lround(y)}).second)
      return;
    const double length = kLetter * static_cast<double>(o.name.size());
    for (double away = r + 4; away < 90; away += 8) {
      for (const int degrees : {0, 180, 40, 140, -40, -140, 70, 110, -70, -110}) {
        const double angle = degrees * std::acos(-1) / 180;
        const bool right = std::cos(angle) > 0;
        const double tip_x = x + away * std::cos(angle), tip_y = y + away * std::sin(angle);
        const double left = right ? tip_x + 2 : tip_x - 2 - length;
        const Box box{left, tip_y - 7, left + length, tip_y + 7};
        if (!free(box)) continue;
        taken_.push_back(box);
        if (away > r + 8) {
          svg_.line(x + r * std::cos(angle), y + r * std::sin(angle), tip_x, tip_y,
                    {kFaint, 0.7, ""});
        }
        Svg::TextStyle name = style(11, kInk, right ? "start" : "end");
        name.halo = true;
        svg_.text(right ? tip_x + 2 : tip_x - 2, tip_y + 4, o.name, name);
        return;
      }
    }
  }

  void legend() {
    const double x = kRight + 34;
    double y = kTop + 10;
    const auto heading = [&](const std::string& text) {
      Svg::TextStyle bold = style(12);
      bold.bold = true;
      svg_.text(x - 10, y, text, bold);
      y += 22;
    };
    const auto entry = [&](double radius, bool matrix, const std::string& paint,
                           const std::string& text) {
      mark(x, y - 4, radius, matrix, paint, "");
      svg_.text(x + 18, y, text, style(12));
      y += 21;
    };
    const std::string grey = "fill=\"" + kFaint + "\"";
    heading("Phase");
    for (const PhaseColour& p : kPhases) {
      if (std::any_of(r_.operators.begin(), r_.operators.end(),
                      [&p](const RooflineOperator& o) { return o.phase == p.phase; })) {
        entry(6, true, fmt::format("fill=\"{}\"", p.colour), p.phase);
      }
    }
    y += 10;
    heading("Operations");
    entry(6, true, grey, "FLOP, matrix engine");
    entry(6, false, grey, "elements, vector engine");
    y += 10;
    heading("Bytes");
    entry(6, true, grey, "moved by DRAM");
    entry(3.5, true, fmt::format("fill=\"white\" stroke=\"{}\" stroke-width=\"1.2\"", kFaint),
          "moved by the SRAM");
    svg_.text(x - 10, y, "right edge: no DRAM traffic", style(11, kFaint));
    y += 31;
    heading("Part of the time");
    for (const double part : {0.01, 0.1, 0.3}) {
      entry(kSmallest + (kLargest - kSmallest) * std::sqrt(part), true, grey,
            fmt::format("{:.0f} %", 100 * part));
    }
  }

  const Roofline& r_;
  Svg svg_;
  Axis x_, y_;
  double all_busy_ = 0;
  std::vector<Box> taken_;  // by text and marks
  std::set<std::tuple<std::string, long, long>> named_;
};

}  // namespace

std::string roofline_svg(const Roofline& roofline) { return Drawing(roofline).draw(); }

}  // namespace tilewright
