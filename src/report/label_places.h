// Where the names of a figure's marks stand so that they do not lie on each other. Knows the plot's
// size only about, as pages are of any width.
#pragma once

#include <string>
#include <vector>

namespace kvphase::report {

// A mark at a share of the plot's width from the left and of its height from the top, 0 to 1.
struct NamedMark {
  double x = 0;
  double y = 0;
  std::string name;
};

struct LabelPlace {
  bool left = false;  // of its mark, not right
  double down = 0;    // pixels
};

// For each mark: beside it where there is room, else above or below, as near as free. A name for
// which nothing is free stands to the right of its mark.
std::vector<LabelPlace> place_labels(const std::vector<NamedMark>& marks);

}  // namespace kvphase::report
