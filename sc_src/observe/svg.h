// Writes drawings as SVG.
#pragma once

#include <string>

namespace tilewright {

/// A drawing on white, in pixels from its upper left corner. Each call draws over the ones before.
class Svg {
 public:
  struct TextStyle {
    double size = 10;
    std::string fill = "black";
    std::string anchor = "start";  ///< or middle, end: what of the text stands at its place
    bool bold = false;
    bool halo = false;  ///< a white rim, so that it can be read on lines
    double turn = 0;    ///< degrees, clockwise
  };
  struct LineStyle {
    std::string stroke = "black";
    double width = 1;
    std::string dash;  ///< "6 3"; empty: a full line
  };

  Svg(double width, double height);

  /// A viewer shows `title` when the pointer is on the shape; empty: nothing.
  void rect(double x, double y, double width, double height, const std::string& fill,
            const std::string& title = "");
  void line(double x0, double y0, double x1, double y1, const LineStyle& style);
  /// `shape` is one of the elements that SVG draws, with its own attributes: `circle cx="1"`.
  void shape(const std::string& shape, const std::string& title = "");
  void text(double x, double y, const std::string& text, const TextStyle& style);

  std::string str() const { return svg_ + "</svg>\n"; }

  /// The shortest text of a coordinate to a hundredth of a pixel.
  static std::string number(double v);

 private:
  std::string svg_;
};

}  // namespace tilewright
