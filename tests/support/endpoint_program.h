// Shared by the tests that run `kvphase audit http://...` against scripted engines.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "record/journal.h"
#include "record/result.h"
#include "tests/scripted_server/engines.h"
#include "tests/support/program.h"

namespace kvphase::test {

// The language of the scripted lookup model: any will do, it looks keys up itself.
inline base::Json lookup_language() {
  return {{"fillers", 16},  {"keys", 64},   {"values", 64},
          {"haystack", 30}, {"records", 5}, {"queries", 5}};
}
inline constexpr const char* kLookupTask = "--modulus 8 --items 64 --demonstrations 2 -q ";

// The lookup model, wrong where `wrong` says, with what our own server says of a model.
inline scripted::EngineOptions lookup_engine(std::function<bool(std::int64_t)> wrong) {
  return {.model = scripted::lookup_model(std::move(wrong)),
          .card = {{"language", lookup_language()},
                   {"vocab_size", 145},
                   {"max_logprobs", 20},
                   {"window", 4},
                   {"stride", 4}}};
}
inline scripted::EngineOptions weak_lookup() {
  return lookup_engine([](std::int64_t position) { return position % 4 == 3; });
}
inline scripted::EngineOptions strong_lookup() {
  return lookup_engine([](std::int64_t) { return false; });
}

inline bool is_completion(const scripted::Request& request) {
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/completion", "/generate",
                           "/api/generate", "/api/chat"}) {
    if (request.path == path) return true;
  }
  return false;
}

inline std::int64_t completions(const scripted::ScriptedServer& server) {
  const auto requests = server.requests();
  return std::count_if(requests.begin(), requests.end(), is_completion);
}

class EndpointProgram : public Program {
 protected:
  record::Result result(const std::string& folder) const {
    return record::result_from_json(base::Json::parse(read(folder + "/result.json")), "test");
  }
  // What must be the same however often a run was stopped.
  base::Json findings(const std::string& folder) const {
    base::Json json = base::Json::parse(read(folder + "/result.json"));
    json.erase("context");
    json.erase("notes");
    return json;
  }
  std::vector<record::Observation> journal(const std::string& folder) const {
    return record::read_journal(folder_ / folder / "journal.jsonl");
  }
  // Every file of the test's folder, the program's outputs among them.
  std::string everything() const {
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) all += base::read_file(entry.path());
    }
    return all;
  }
};

}  // namespace kvphase::test
