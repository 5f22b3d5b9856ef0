#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include <tilewright/observe/load_curve.h>

#include "svg.h"

namespace tilewright {
namespace {

constexpr double kWidth = 640, kHeight = 420, kLeft = 60, kRight = 20, kTop = 40, kBottom = 50;
constexpr double kMost = 5;  // times the least latency
constexpr const char *kMeanColour = "#1f6fb4", *kTailColour = "#c0504d", *kGrid = "#dddddd";

/// 1, 2 or 5 times a power of ten: some five to ten steps up to `end`.
double step_of(double end) {
  const double ten = std::pow(10, std::floor(std::log10(end / 5)));
  for (const double n : {1.0, 2.0, 5.0}) {
    if (end / (n * ten) <= 10) return n * ten;
  }
  return 10 * ten;
}

class Curve {
 public:
  Curve(const std::string& title, double load, double latency)
      : load_(load), latency_(latency), svg_(kWidth, kHeight) {
    svg_.text(kLeft, 22, title, bold());
    const double dx = step_of(load_), dy = step_of(latency_);
    for (double x = 0; x <= load_ * (1 + 1e-9); x += dx) {
      svg_.line(at_x(x), at_y(0), at_x(x), at_y(latency_), {kGrid, 1, ""});
      label(at_x(x), kHeight - kBottom + 16, fmt::format("{:.6g}", x), "middle");
    }
    for (double y = 0; y <= latency_ * (1 + 1e-9); y += dy) {
      svg_.line(at_x(0), at_y(y), at_x(load_), at_y(y), {kGrid, 1, ""});
      label(kLeft - 8, at_y(y) + 4, fmt::format("{:.6g}", y), "end");
    }
    svg_.line(at_x(0), at_y(0), at_x(load_), at_y(0), {});
    svg_.line(at_x(0), at_y(0), at_x(0), at_y(latency_), {});
    label((at_x(0) + at_x(load_)) / 2, kHeight - 14, "offered load, flits per cycle and tile",
          "middle");
    Svg::TextStyle turned;
    turned.anchor = "middle";
    turned.turn = -90;
    svg_.text(16, (at_y(0) + at_y(latency_)) / 2, "latency, cycles", turned);
  }

  /// One line through all results, a dot on each; `row`: its place in the legend.
  void add(const std::string& name, const std::string& colour, const std::string& dash, int row,
           const std::vector<LoadResult>& results,
           const std::function<double(const LoadResult&)>& latency) {
    const LoadResult* before = nullptr;
    for (const LoadResult& r : results) {
      if (r.packets == 0) continue;
      if (before != nullptr) {
        svg_.line(at_x(before->offered), at_y(latency(*before)), at_x(r.offered), at_y(latency(r)),
                  {colour, 1.5, dash});
      }
      before = &r;
    }
    for (const LoadResult& r : results) {
      if (r.packets == 0) continue;
      svg_.shape(fmt::format("circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"{}\"",
                             Svg::number(at_x(r.offered)), Svg::number(at_y(latency(r))), colour),
                 fmt::format("load {:.6g}: {} {:.6g} cycles, {:.6g} accepted", r.offered, name,
                             latency(r), r.accepted));
    }
    const double y = kTop + 14 + 16 * row;
    svg_.line(kLeft + 12, y - 4, kLeft + 36, y - 4, {colour, 1.5, dash});
    label(kLeft + 42, y, name, "start");
  }

  std::string str() const { return svg_.str(); }

 private:
  static Svg::TextStyle bold() {
    Svg::TextStyle style;
    style.size = 13;
    style.bold = true;
    return style;
  }
  void label(double x, double y, const std::string& text, const char* anchor) {
    Svg::TextStyle style;
    style.anchor = anchor;
    svg_.text(x, y, text, style);
  }
  double at_x(double load) const { return kLeft + load / load_ * (kWidth - kLeft - kRight); }
  double at_y(double latency) const {
    const double part = std::min(latency / latency_, 1.0);
    return kHeight - kBottom - part * (kHeight - kTop - kBottom);
  }

  double load_, latency_;
  Svg svg_;
};

}  // namespace

std::string load_curve(const std::string& title, const std::vector<LoadResult>& results) {
  double load = 0, least = std::numeric_limits<double>::infinity(), most = 0;
  for (const LoadResult& r : results) {
    if (r.packets == 0) continue;
    load = std::max(load, r.offered);
    least = std::min(least, r.latency_mean);
    most = std::max(most, static_cast<double>(r.latency_p99));
  }
  if (load == 0) load = 1;
  const double top = least > 0 && std::isfinite(least) ? std::min(kMost * least, most) : 1;
  Curve curve(title, load, std::max(top, 1.0));
  curve.add("99th percentile", kTailColour, "5 3", 1, results,
            [](const LoadResult& r) { return static_cast<double>(r.latency_p99); });
  curve.add("mean", kMeanColour, "", 0, results,
            [](const LoadResult& r) { return r.latency_mean; });
  return curve.str();
}

}  // namespace tilewright
