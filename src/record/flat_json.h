// One line of JSON that holds an object of plain values, read without building it: several times as
// fast as a parser. Internal to record/.
#pragma once

#include <cstddef>
#include <string_view>

#include "record/import_sources.h"

namespace kvphase::record {

// Walks over `{"key": value, ...}`. Whatever is not plain (nested values, escapes, bytes outside
// ASCII, anything that is not JSON) ends the walk with kUnclear: the line is then for the parser.
class FlatJson {
 public:
  enum class Step { kValue, kEnd, kUnclear };

  explicit FlatJson(std::string_view line) : at_(line.data()), end_(at_ + line.size()) {}

  // kValue: key() and cell() are those of the next entry, the cell as json_cell() makes it, except
  // that the text of a number that is no integer stays as it stood.
  Step next();
  std::string_view key() const { return key_; }
  Cell cell() const;
  bool integer() const { return integer_; }

 private:
  enum class Kind { kNull, kTrue, kFalse, kNumber, kText };

  void skip_blanks();
  bool take(char c);
  bool word(std::string_view text);
  bool text(std::string_view& out);
  bool number();
  bool value();

  const char* at_;
  const char* end_;
  bool started_ = false;
  std::string_view key_;
  std::string_view raw_;
  Kind kind_ = Kind::kNull;
  bool integer_ = false;
};

}  // namespace kvphase::record
