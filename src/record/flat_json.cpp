#include "record/flat_json.h"

#include <charconv>

namespace kvphase::record {

void FlatJson::skip_blanks() {
  while (at_ < end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
}

bool FlatJson::take(char c) {
  skip_blanks();
  if (at_ == end_ || *at_ != c) return false;
  ++at_;
  return true;
}

bool FlatJson::word(std::string_view text) {
  if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(text)) return false;
  at_ += text.size();
  return true;
}

bool FlatJson::text(std::string_view& out) {
  if (!take('"')) return false;
  const char* start = at_;
  for (; at_ < end_ && *at_ != '"'; ++at_) {
    if (*at_ == '\\' || *at_ < 0x20 || *at_ > 0x7E) return false;
  }
  if (at_ == end_) return false;
  out = {start, static_cast<std::size_t>(at_ - start)};
  ++at_;
  return true;
}

// -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
bool FlatJson::number() {
  const auto digits = [&] {
    const char* start = at_;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ - start;
  };
  const char* start = at_;
  const bool negative = at_ < end_ && *at_ == '-';
  if (negative) ++at_;
  const char* first = at_;
  const auto whole = digits();
  if (whole == 0 || (whole > 1 && *first == '0')) return false;
  // Longer ones, and -0, are written otherwise by the parser.
  integer_ = whole <= 18 && !(negative && *first == '0');
  if (at_ < end_ && *at_ == '.') {
    ++at_;
    integer_ = false;
    if (digits() == 0) return false;
  }
  if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
    ++at_;
    integer_ = false;
    if (at_ < end_ && (*at_ == '+' || *at_ == '-')) ++at_;
    if (digits() == 0) return false;
  }
  raw_ = {start, static_cast<std::size_t>(at_ - start)};
  double wide = 0;
  return std::from_chars(start, at_, wide).ec == std::errc();
}

bool FlatJson::value() {
  skip_blanks();
  if (at_ == end_) return false;
  integer_ = false;
  switch (*at_) {
    case '"':
      kind_ = Kind::kText;
      return text(raw_);
    case 't':
      kind_ = Kind::kTrue;
      return word("true");
    case 'f':
      kind_ = Kind::kFalse;
      return word("false");
    case 'n':
      kind_ = Kind::kNull;
      return word("null");
    default:
      kind_ = Kind::kNumber;
      return number();
  }
}

FlatJson::Step FlatJson::next() {
  if (!started_) {
    started_ = true;
    if (!take('{')) return Step::kUnclear;
  } else {
    if (take('}')) {
      skip_blanks();
      return at_ == end_ ? Step::kEnd : Step::kUnclear;
    }
    if (!take(',')) return Step::kUnclear;
  }
  return text(key_) && take(':') && value() ? Step::kValue : Step::kUnclear;
}

Cell FlatJson::cell() const {
  switch (kind_) {
    case Kind::kNull:
      return {};
    case Kind::kTrue:
      return {.kind = Cell::Kind::kBoolean, .text = "true"};
    case Kind::kFalse:
      return {.kind = Cell::Kind::kBoolean, .text = "false"};
    case Kind::kText:
      return text_cell(raw_);
    case Kind::kNumber:
      break;
  }
  Cell cell{.kind = Cell::Kind::kNumber, .text = std::string(raw_)};
  std::from_chars(raw_.data(), raw_.data() + raw_.size(), cell.number);
  return cell;
}

}  // namespace kvphase::record
