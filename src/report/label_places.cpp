#include "report/label_places.h"

#include <algorithm>

namespace kvphase::report {
namespace {

constexpr double kWidth = 620, kHeight = 220;  // of a plot, about, pixels
constexpr double kLetter = 5.6, kLine = 11;    // of the names' type
constexpr double kApart = 8;                   // from the mark

struct Box {
  double left, right, top, bottom;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

Box box_of(const NamedMark& mark, const LabelPlace& place) {
  const double wide = kLetter * static_cast<double>(mark.name.size());
  const double x = mark.x * kWidth, y = mark.y * kHeight + place.down;
  const double left = place.left ? x - kApart - wide : x + kApart;
  return {left, left + wide, y - kLine / 2, y + kLine / 2};
}

Box box_of(const NamedMark& mark) {
  constexpr double kHalf = 4;
  const double x = mark.x * kWidth, y = mark.y * kHeight;
  return {x - kHalf, x + kHalf, y - kHalf, y + kHalf};
}

std::vector<LabelPlace> candidates() {
  std::vector<LabelPlace> places;
  for (const double lines : {0.0, -1.0, 1.0, -2.0, 2.0, -3.0, 3.0, -4.0, 4.0}) {
    for (const bool left : {false, true}) places.push_back({left, lines * kLine});
  }
  return places;
}

}  // namespace

std::vector<LabelPlace> place_labels(const std::vector<NamedMark>& marks) {
  std::vector<Box> taken;
  for (const NamedMark& mark : marks) taken.push_back(box_of(mark));
  std::vector<LabelPlace> places;
  for (const NamedMark& mark : marks) {
    LabelPlace chosen;
    for (const LabelPlace& place : candidates()) {
      const Box box = box_of(mark, place);
      if (box.left < 0 || box.right > kWidth || box.top < -kLine || box.bottom > kHeight) continue;
      if (std::ranges::any_of(taken, [&](const Box& other) { return box.meets(other); })) continue;
      chosen = place;
      break;
    }
    taken.push_back(box_of(mark, chosen));
    places.push_back(chosen);
  }
  return places;
}

}  // namespace kvphase::report
