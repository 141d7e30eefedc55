#include "endpoint/detect.h"

#include <algorithm>

namespace kvphase::endpoint {
namespace {

using base::Json;

std::string text_of(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return "";
  return object[key].get<std::string>();
}

std::int64_t count_of(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number_integer()) return 0;
  return std::max<std::int64_t>(0, object[key].get<std::int64_t>());
}

bool is_host(const std::string& host, const std::string& domain) {
  return host == domain || host.ends_with("." + domain);
}

void read_models(const Json& list, ServerInfo& info, std::string& owner) {
  if (!list.is_object() || !list.contains("data") || !list["data"].is_array()) return;
  for (const Json& model : list["data"]) {
    const std::string id = text_of(model, "id");
    if (id.empty()) continue;
    if (info.models.empty()) {
      owner = text_of(model, "owned_by");
      info.context_length = count_of(model, "max_model_len");
      if (model.contains("kvphase")) info.card = model["kvphase"];
    }
    if (info.models.size() < 100) info.models.push_back(id);
  }
}

bool read_llama_cpp(const Getter& get, ServerInfo& info) {
  const auto props = get("/props");
  if (!props || !props->is_object() || !props->contains("default_generation_settings")) {
    return false;
  }
  info.kind = ServerKind::kLlamaCpp;
  info.evidence = "/props has default_generation_settings";
  info.version = text_of(*props, "build_info");
  info.slots = count_of(*props, "total_slots");
  // Of one slot: what one request may use.
  info.context_length = count_of((*props)["default_generation_settings"], "n_ctx");
  return true;
}

bool read_sglang(const Getter& get, ServerInfo& info) {
  auto model = get("/get_model_info");
  if (!model) model = get("/model_info");
  if (!model || text_of(*model, "model_path").empty()) return false;
  info.kind = ServerKind::kSglang;
  info.evidence = "/get_model_info has model_path";
  if (const auto server = get("/get_server_info")) {
    info.version = text_of(*server, "version");
    for (const char* key : {"max_total_num_tokens", "context_length"}) {
      if (const auto value = count_of(*server, key); value > 0) info.context_length = value;
    }
  }
  return true;
}

bool read_ollama(const Getter& get, ServerInfo& info) {
  const auto version = get("/api/version");
  if (!version || text_of(*version, "version").empty()) return false;
  info.kind = ServerKind::kOllama;
  info.evidence = "/api/version answers";
  info.version = text_of(*version, "version");
  return true;
}

bool read_vllm(const Getter& get, ServerInfo& info) {
  const auto version = get("/version");
  if (!version || text_of(*version, "version").empty()) return false;
  info.kind = ServerKind::kVllm;
  info.evidence = "/version answers";
  info.version = text_of(*version, "version");
  return true;
}

}  // namespace

ServerInfo detect_server(const BaseUrl& base, const std::optional<ServerKind>& given,
                         const Getter& get) {
  ServerInfo info{.address = base.root.text()};
  std::string owner;
  if (const auto models = get(base.version + "/models")) read_models(*models, info, owner);
  if (given) {
    // Its own route may still know the context and the version.
    if (*given == ServerKind::kLlamaCpp) read_llama_cpp(get, info);
    if (*given == ServerKind::kSglang) read_sglang(get, info);
    if (*given == ServerKind::kOllama) read_ollama(get, info);
    if (*given == ServerKind::kVllm) read_vllm(get, info);
    info.kind = *given;
    info.evidence = "given";
    return info;
  }
  const std::string& host = base.root.host;
  for (const auto& [domain, kind] : {std::pair{"openai.com", ServerKind::kOpenAi},
                                     std::pair{"deepseek.com", ServerKind::kDeepSeek},
                                     std::pair{"openrouter.ai", ServerKind::kOpenRouter}}) {
    if (is_host(host, domain)) {
      info.kind = kind;
      info.evidence = std::string("its host is ") + domain;
      return info;
    }
  }
  if (owner == "kvphase") {
    info.kind = ServerKind::kKvphase;
    info.evidence = "its models are owned by kvphase";
    return info;
  }
  // What owns the models is a hint for the order; the route of the kind itself decides.
  using Probe = bool (*)(const Getter&, ServerInfo&);
  std::vector<std::pair<std::string, Probe>> probes = {{"llamacpp", read_llama_cpp},
                                                       {"sglang", read_sglang},
                                                       {"vllm", read_vllm},
                                                       {"library", read_ollama}};
  std::stable_sort(probes.begin(), probes.end(), [&](const auto& a, const auto& b) {
    return (a.first == owner) > (b.first == owner);
  });
  for (const auto& [name, probe] : probes) {
    if (probe(get, info)) return info;
  }
  info.kind = ServerKind::kGeneric;
  info.evidence = info.models.empty() ? "no information route answers"
                                      : "it lists models and has no route of a known engine";
  return info;
}

}  // namespace kvphase::endpoint
