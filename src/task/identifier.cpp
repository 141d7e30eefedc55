#include "task/identifier.h"

#include <array>

#include "base/error.h"
#include "base/nearest.h"

namespace kvphase::task {
namespace {

struct Kind {
  std::string_view name;
  std::string_view noun;
};
constexpr std::array<Kind, 4> kKinds = {{{"code", "contract number"},
                                         {"path", "log file"},
                                         {"hex", "build id"},
                                         {"uuid", "request id"}}};
const Kind& kind_of(IdentifierKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

// '@' a letter, '#' a digit, '*' a hex digit, '~' a UUID's variant; everything else is itself.
std::string fill(std::string_view pattern, base::Random& random) {
  const auto pick = [&](std::string_view from) { return from[random.uniform_index(from.size())]; };
  std::string text;
  for (const char c : pattern) {
    text += c == '@'   ? pick("ABCDEFGHJKLMNPQRSTUVWXYZ")
            : c == '#' ? pick("0123456789")
            : c == '*' ? pick("0123456789abcdef")
            : c == '~' ? pick("89ab")
                       : c;
  }
  return text;
}

}  // namespace

std::vector<std::string> identifier_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

IdentifierKind identifier_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].name == name) return static_cast<IdentifierKind>(i);
  }
  const auto names = identifier_names();
  throw base::usage_error("needle", "expected an identifier of {}, got '{}'; did you mean {}?",
                          fmt::join(names, " | "), name, base::nearest_name(name, names));
}

std::string_view name_of(IdentifierKind kind) { return kind_of(kind).name; }
std::string_view noun_of(IdentifierKind kind) { return kind_of(kind).noun; }

std::string make_identifier(IdentifierKind kind, base::Random& random) {
  switch (kind) {
    case IdentifierKind::kCode:
      return fill("@@-###-#####-##", random);
    case IdentifierKind::kPath: {
      constexpr std::array<std::string_view, 8> kFolders = {"batch", "cache", "daily",  "export",
                                                            "index", "queue", "report", "shard"};
      const std::string_view folder = kFolders[random.uniform_index(kFolders.size())];
      return fill(fmt::format("/srv/data#/{}/run-######.log", folder), random);
    }
    case IdentifierKind::kHex:
      return fill("****************", random);
    case IdentifierKind::kUuid:
      break;
  }
  return fill("********-****-4***-~***-************", random);
}

}  // namespace kvphase::task
