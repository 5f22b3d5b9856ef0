#include "svg.h"

#include <cmath>

#include <fmt/format.h>

namespace tilewright {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace

std::string Svg::number(double v) { return fmt::format("{:g}", std::round(v * 100) / 100 + 0.0); }

Svg::Svg(double width, double height)
    : svg_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
                       "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"10\">\n",
                       number(width), number(height))) {
  rect(0, 0, width, height, "white");
}

void Svg::rect(double x, double y, double width, double height, const std::string& fill,
               const std::string& title) {
  shape(fmt::format("rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"", number(x),
                    number(y), number(width), number(height), fill),
        title);
}

void Svg::line(double x0, double y0, double x1, double y1, const LineStyle& style) {
  shape(
      fmt::format("line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" "
                  "stroke-width=\"{}\"{}",
                  number(x0), number(y0), number(x1), number(y1), style.stroke, number(style.width),
                  style.dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", style.dash)));
}

void Svg::shape(const std::string& shape, const std::string& title) {
  if (title.empty()) {
    svg_ += fmt::format("<{}/>\n", shape);
    return;
  }
  const std::string element = shape.substr(0, shape.find(' '));
  svg_ += fmt::format("<{}><title>{}</title></{}>\n", shape, escaped(title), element);
}

void Svg::text(double x, double y, const std::string& text, const TextStyle& style) {
  std::string attributes;
  if (style.size != 10) attributes += fmt::format(" font-size=\"{}\"", number(style.size));
  if (style.fill != "black") attributes += fmt::format(" fill=\"{}\"", style.fill);
  if (style.anchor != "start") attributes += fmt::format(" text-anchor=\"{}\"", style.anchor);
  if (style.bold) attributes += " font-weight=\"bold\"";
  if (style.halo) {
    attributes +=
        " stroke=\"white\" stroke-width=\"3\" stroke-linejoin=\"round\" "
        "paint-order=\"stroke\"";
  }
  if (style.turn != 0) {
    attributes +=
        fmt::format(" transform=\"rotate({} {} {})\"", number(style.turn), number(x), number(y));
  }
  svg_ += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", number(x), number(y), attributes,
                      escaped(text));
}

}  // namespace tilewright
