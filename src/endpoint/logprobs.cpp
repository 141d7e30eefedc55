#include "endpoint/logprobs.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace kvphase::endpoint {
namespace {

using base::Json;

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json* first_of(const Json* array) {
  return array != nullptr && array->is_array() && !array->empty() ? &array->front() : nullptr;
}

// A usable log-probability; otherwise why not.
struct Value {
  std::optional<double> logprob;
  std::string problem;
};

Value read_value(const Json* number, bool is_probability) {
  if (number == nullptr || !number->is_number()) return {std::nullopt, "null or NaN"};
  double value = number->get<double>();
  if (is_probability) {
    if (!(value > 0)) return {std::nullopt, "probability 0"};
    value = std::log(value);
  }
  if (!std::isfinite(value)) return {std::nullopt, "infinite"};
  // vLLM and DeepSeek write -9999 for "impossible", others clip at exactly -100.
  if (value <= -9998) return {std::nullopt, "the floor -9999"};
  if (value == -100) return {std::nullopt, "the clip -100"};
  if (value > 1e-3) return {std::nullopt, "a positive log-probability"};
  return {std::min(value, 0.0), ""};
}

std::optional<lm::TokenId> read_id(const Json* number) {
  if (number == nullptr || !number->is_number_integer()) return std::nullopt;
  const auto value = number->get<std::int64_t>();
  if (value < 0 || value > INT32_MAX) return std::nullopt;
  return static_cast<lm::TokenId>(value);
}

struct Name {
  std::optional<lm::TokenId> id;
  std::string text;
  bool exact = true;
};

// Names a token by id ("token_id:17" is vLLM's return_tokens_as_token_ids), bytes or text.
Name read_name(const std::string& text, const Json* bytes, std::optional<lm::TokenId> id) {
  constexpr std::string_view kPrefix = "token_id:";
  if (text.starts_with(kPrefix)) {
    lm::TokenId value = 0;
    const char* begin = text.data() + kPrefix.size();
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc{} && stop == end) return {value, "", true};
  }
  Name name{id, text, id.has_value()};
  if (bytes != nullptr && bytes->is_array() && !bytes->empty()) {
    std::string exact;
    for (const Json& byte : *bytes) {
      if (!byte.is_number_integer()) break;
      exact += static_cast<char>(byte.get<int>());
    }
    if (exact.size() == bytes->size()) {
      name.text = std::move(exact);
      name.exact = true;
      return name;
    }
  }
  name.exact = name.exact || (!text.empty() && text.find("\xEF\xBF\xBD") == std::string::npos);
  return name;
}

std::string string_of(const Json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

class Reader {
 public:
  void chosen(Name name, const Value& value) {
    first.id = name.id;
    first.text = std::move(name.text);
    first.text_is_exact = name.exact;
    first.logprob = value.logprob;
    if (!value.logprob) left_out(value.problem);
  }

  void rival(Name name, const Value& value) {
    ++seen_;
    if (!value.logprob) {
      left_out(value.problem);
      return;
    }
    first.top.push_back({.id = name.id,
                         .text = std::move(name.text),
                         .logprob = *value.logprob,
                         .text_is_exact = name.exact});
  }

  void finish(std::int64_t asked, bool keyed_by_text, Reply& reply) {
    std::stable_sort(first.top.begin(), first.top.end(),
                     [](const TopToken& a, const TopToken& b) { return a.logprob > b.logprob; });
    for (std::size_t i = 0; i < first.top.size(); ++i) {
      for (std::size_t j = 0; j < first.top.size(); ++j) {
        if (i != j && !first.top[i].id && first.top[i].text == first.top[j].text) {
          first.top[i].text_is_exact = false;
        }
      }
    }
    if (keyed_by_text && seen_ > 0 && seen_ < asked) {
      add_note(fmt::format("{} of {} tokens: equal texts share one key", seen_, asked));
    }
    if (first.logprob && *first.logprob == 0 && first.top.size() <= 1 && first.unusable > 1) {
      first.logprob.reset();
      first.top.clear();
      add_note("degenerate: taken after sampling at temperature 0; ask at temperature 1");
    }
    first.note = note_;
    reply.first = std::move(first);
  }

 private:
  void left_out(const std::string& why) {
    ++first.unusable;
    if (note_.find(why) == std::string::npos) add_note("left out: " + why);
  }
  void add_note(const std::string& text) { note_ += (note_.empty() ? "" : "; ") + text; }

 public:
  FirstToken first;

 private:
  std::int64_t seen_ = 0;
  std::string note_;
};

// {token | tok_str, logprob | prob, bytes, id, top_logprobs | top_probs}
void read_entry(const Json& entry, std::int64_t asked, Reply& reply) {
  Reader reader;
  const auto read = [](const Json& one) {
    const Json* token = find(one, "token");
    if (token == nullptr) token = find(one, "tok_str");
    if (token == nullptr) token = find(one, "content");
    return read_name(string_of(token), find(one, "bytes"), read_id(find(one, "id")));
  };
  const auto value = [](const Json& one) {
    const Json* logprob = find(one, "logprob");
    return logprob != nullptr || !one.contains("prob") ? read_value(logprob, false)
                                                       : read_value(find(one, "prob"), true);
  };
  const Json* top = find(entry, "top_logprobs");
  if (top == nullptr) top = find(entry, "top_probs");
  if (top == nullptr) top = find(entry, "probs");
  Name name = read(entry);
  Value own = value(entry);
  if (top != nullptr && top->is_array()) {
    for (const Json& one : *top) {
      if (!one.is_object()) continue;
      const Name rival = read(one);
      const Value rival_value = value(one);
      // The oldest llama.cpp shape gives the token's probability among its rivals only.
      if (!entry.contains("logprob") && !entry.contains("prob") && rival.text == name.text) {
        own = rival_value;
      }
      reader.rival(rival, rival_value);
    }
  }
  reader.chosen(std::move(name), own);
  reader.finish(asked, false, reply);
}

void read_legacy(const Json& logprobs, std::int64_t asked, Reply& reply) {
  const Json* tokens = find(logprobs, "tokens");
  const Json* values = find(logprobs, "token_logprobs");
  const Json* tops = find(logprobs, "top_logprobs");
  const Json* token = first_of(tokens);
  if (token == nullptr) {
    reply.first_absent = "log-probabilities without tokens";
    return;
  }
  Reader reader;
  reader.chosen(read_name(string_of(token), nullptr, std::nullopt),
                read_value(first_of(values), false));
  if (const Json* top = first_of(tops); top != nullptr && top->is_object()) {
    for (const auto& [text, value] : top->items()) {
      reader.rival(read_name(text, nullptr, std::nullopt), read_value(&value, false));
    }
  }
  reader.finish(asked, true, reply);
}

void read_triples(const Json& meta, std::int64_t asked, Reply& reply) {
  const auto read = [](const Json& triple, auto&& take) {
    if (!triple.is_array() || triple.size() < 2) return;
    const bool has_text = triple.size() > 2 && triple[2].is_string();
    take(read_name(has_text ? triple[2].get<std::string>() : "", nullptr, read_id(&triple[1])),
         read_value(&triple[0], false));
  };
  const Json* chosen = first_of(find(meta, "output_token_logprobs"));
  if (chosen == nullptr) {
    reply.first_absent = "output_token_logprobs is empty";
    return;
  }
  Reader reader;
  read(*chosen, [&](Name name, const Value& value) { reader.chosen(std::move(name), value); });
  if (const Json* top = first_of(find(meta, "output_top_logprobs"));
      top != nullptr && top->is_array()) {
    for (const Json& one : *top) {
      read(one, [&](Name name, const Value& value) { reader.rival(std::move(name), value); });
    }
  }
  reader.finish(asked, false, reply);
}

}  // namespace

void read_first_token(const Json& body, std::int64_t asked, Reply& reply) {
  reply.first_absent = "the reply has no log-probabilities";
  if (const Json* choice = first_of(find(body, "choices"))) {
    const Json* logprobs = find(*choice, "logprobs");
    if (logprobs == nullptr) return;
    if (const Json* content = find(*logprobs, "content")) {
      if (const Json* entry = first_of(content); entry != nullptr && entry->is_object()) {
        read_entry(*entry, asked, reply);
      } else {
        reply.first_absent = "logprobs.content is empty";
      }
    } else if (logprobs->is_object()) {
      read_legacy(*logprobs, asked, reply);
    }
  } else if (const Json* entry = first_of(find(body, "completion_probabilities"));
             entry != nullptr && entry->is_object()) {
    read_entry(*entry, asked, reply);
  } else if (const Json* meta = find(body, "meta_info"); meta != nullptr) {
    read_triples(*meta, asked, reply);
  } else if (const Json* own = first_of(find(body, "logprobs"));
             own != nullptr && own->is_object()) {
    read_entry(*own, asked, reply);
  }
  if (reply.first) reply.first_absent.clear();
}

}  // namespace kvphase::endpoint
