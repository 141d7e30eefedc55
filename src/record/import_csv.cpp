#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "record/import_sources.h"

namespace kvphase::record {
namespace {

// Fields of RFC 4180 records: quotes around fields, "" for a quote inside, line ends LF or CRLF,
// line ends inside quotes. Blank lines are skipped.
class CsvReader {
 public:
  CsvReader(std::string_view text, char delimiter, std::string file)
      : text_(text), delimiter_(delimiter), file_(std::move(file)) {}

  // False at the end. line() is then the record's first line.
  bool next(std::vector<std::string>& fields);
  std::size_t line() const { return record_line_; }

 private:
  std::string quoted_field();

  std::string_view text_;
  char delimiter_;
  std::string file_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t record_line_ = 1;
};

std::string CsvReader::quoted_field() {
  const std::size_t start_line = line_;
  std::string field;
  for (++at_; at_ < text_.size(); ++at_) {
    if (text_[at_] == '"') {
      if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        ++at_;
      } else {
        ++at_;
        return field;
      }
    }
    if (text_[at_] == '\n') ++line_;
    field.push_back(text_[at_]);
  }
  throw base::usage_error("analyze", "{}:{}: expected a closing quote, got the end of the file",
                          file_, start_line);
}

bool CsvReader::next(std::vector<std::string>& fields) {
  while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) {
    if (text_[at_++] == '\n') ++line_;
  }
  if (at_ >= text_.size()) return false;
  fields.clear();
  record_line_ = line_;
  while (true) {
    if (at_ < text_.size() && text_[at_] == '"') {
      fields.push_back(quoted_field());
      const bool field_ends = at_ >= text_.size() || text_[at_] == delimiter_ ||
                              text_[at_] == '\n' || text_[at_] == '\r';
      if (!field_ends) {
        throw base::usage_error("analyze",
                                "{}:{}: expected '{}' or a line end after a quote, got '{}'", file_,
                                line_, delimiter_, text_[at_]);
      }
    } else {
      const std::size_t start = at_;
      while (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' &&
             text_[at_] != '\r') {
        ++at_;
      }
      fields.emplace_back(text_.substr(start, at_ - start));
    }
    if (at_ >= text_.size()) return true;
    if (text_[at_] == delimiter_) {
      ++at_;
      continue;
    }
    if (text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
      ++line_;
    }
    return true;
  }
}

// The most frequent of comma, semicolon and tab in the first line.
char find_delimiter(std::string_view text) {
  const std::string_view header = text.substr(0, text.find('\n'));
  char best = ',';
  for (const char candidate : {';', '\t'}) {
    if (std::count(header.begin(), header.end(), candidate) >
        std::count(header.begin(), header.end(), best)) {
      best = candidate;
    }
  }
  return best;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return std::string(text);
}

std::int64_t whole_number(const std::string& text, std::string_view name, const std::string& file,
                          std::size_t line) {
  const Cell cell = text_cell(text);
  const bool whole =
      cell.kind == Cell::Kind::kText && cell.text.size() < 13 &&
      std::all_of(cell.text.begin(), cell.text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!whole) {
    throw base::usage_error("analyze", "{}:{}: expected a whole number of 0 to {} as {}, got '{}'",
                            file, line, kMostPrompts, name, text);
  }
  return std::stoll(cell.text);
}

// `residue,correct,n`: one row per residue, each residue once.
Dataset read_counts(CsvReader& reader, const Columns& columns,
                    const std::vector<std::string>& header, const std::string& file,
                    const ImportOptions& options) {
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  const std::size_t residue_at = column(columns.residue);
  const std::size_t correct_at = column(columns.correct);
  const std::size_t n_at = column(columns.n);
  struct Row {
    std::size_t line;
    std::int64_t residue, correct, n;
  };
  std::vector<Row> rows;
  std::vector<std::string> fields;
  while (reader.next(fields)) {
    if (fields.size() != header.size()) {
      throw base::usage_error("analyze", "{}:{}: expected {} fields as in the header, got {}", file,
                              reader.line(), header.size(), fields.size());
    }
    const Row row{reader.line(),
                  whole_number(fields[residue_at], columns.residue, file, reader.line()),
                  whole_number(fields[correct_at], columns.correct, file, reader.line()),
                  whole_number(fields[n_at], columns.n, file, reader.line())};
    if (row.correct > row.n) {
      throw base::usage_error("analyze", "{}:{}: expected correct <= n, got {} of {}", file,
                              row.line, row.correct, row.n);
    }
    for (const Row& earlier : rows) {
      if (earlier.residue == row.residue) {
        throw base::usage_error(
            "analyze",
            "{}:{}: expected every residue once, got residue {} again (first in "
            "line {}); add its counts up",
            file, row.line, row.residue, earlier.line);
      }
    }
    if (row.residue >= 100000) {
      throw base::usage_error("analyze", "{}:{}: expected a residue below 100000, got {}", file,
                              row.line, row.residue);
    }
    rows.push_back(row);
  }
  if (rows.empty()) {
    throw base::usage_error("analyze", "{}: expected rows below the header, got none", file);
  }
  Dataset data;
  data.origin = "counts CSV";
  std::int64_t modulus = 0;
  for (const Row& row : rows) modulus = std::max(modulus, row.residue + 1);
  data.modulus = modulus;
  if (options.modulus && *options.modulus > modulus) {
    modulus = data.modulus = *options.modulus;  // the last residues have no prompts
  }
  CountsTable counts{.modulus = modulus};
  counts.n.assign(static_cast<std::size_t>(modulus), 0);
  counts.correct = counts.n;
  for (const Row& row : rows) {
    counts.n[static_cast<std::size_t>(row.residue)] = row.n;
    counts.correct[static_cast<std::size_t>(row.residue)] = row.correct;
  }
  data.counts = std::move(counts);
  return data;
}

}  // namespace

std::vector<Dataset> import_csv(std::string_view text, const std::filesystem::path& path,
                                const ImportOptions& options) {
  const std::string file = path.string();
  CsvReader reader(text, find_delimiter(text), file);
  std::vector<std::string> header;
  if (!reader.next(header)) {
    throw base::usage_error("analyze", "{}: expected a header line, got an empty file", file);
  }
  for (std::string& name : header) name = trimmed(name);
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (std::find(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(i), header[i]) !=
        header.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw base::usage_error("analyze", "{}:1: expected each column once, got '{}' twice", file,
                              header[i]);
    }
  }
  std::vector<std::string> notes;
  const Columns columns = choose_columns(header, options, file, notes);
  if (!columns.n.empty() && !columns.correct.empty() && !columns.residue.empty() &&
      columns.item.empty() && columns.position.empty()) {
    Dataset data = read_counts(reader, columns, header, file, options);
    data.notes.insert(data.notes.begin(), notes.begin(), notes.end());
    return {std::move(data)};
  }
  RowCollector collector(file, !columns.item.empty());
  const auto index = [&](const std::string& name) {
    return name.empty() ? header.size()
                        : static_cast<std::size_t>(std::find(header.begin(), header.end(), name) -
                                                   header.begin());
  };
  const std::vector<std::size_t> at = {
      index(columns.item),  index(columns.position), index(columns.residue), index(columns.correct),
      index(columns.score), index(columns.logprob),  index(columns.margin),  index(columns.repeat)};
  std::vector<std::string> fields;
  while (reader.next(fields)) {
    if (fields.size() != header.size()) {
      throw base::usage_error("analyze", "{}:{}: expected {} fields as in the header, got {}", file,
                              reader.line(), header.size(), fields.size());
    }
    const auto cell = [&](std::size_t role) {
      return at[role] < fields.size() ? text_cell(fields[at[role]]) : Cell{};
    };
    collector.add({.line = reader.line(),
                   .item = cell(0),
                   .position = cell(1),
                   .residue = cell(2),
                   .correct = cell(3),
                   .score = cell(4),
                   .logprob = cell(5),
                   .margin = cell(6),
                   .repeat = cell(7)});
  }
  Dataset data = collector.finish(options);
  data.origin = "item-level CSV";
  data.notes.insert(data.notes.begin(), notes.begin(), notes.end());
  return {std::move(data)};
}

}  // namespace kvphase::record
