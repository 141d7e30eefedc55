// Requests and replies from one side to the other: which header fields pass, and what a client is
// told where there is no reply. Internal to the proxy.
#pragma once

#include <httplib.h>

#include <string>
#include <string_view>

#include "endpoint/http.h"

namespace kvphase::guard {

inline constexpr const char* kJson = "application/json";

// To `path` of the upstream, with the client's own fields but those of the connection; no body.
endpoint::HttpRequest request_to(const std::string& path, const httplib::Request& from);

// Status and fields but those of the connection and the body's length.
void copy_headers(const endpoint::HttpResponse& from, httplib::Response& to);
// For a body that is not the upstream's bytes: without what only holds for those (coding, digest,
// tag), nor another guard's findings. Leaves the status.
void copy_headers_for_new_body(const endpoint::HttpResponse& from, httplib::Response& to);
std::string content_type_of(const endpoint::HttpResponse& from);

// An error of our own.
void refuse(httplib::Response& to, int status, std::string_view message, std::string_view code);
// What a client is told when the upstream gave no whole reply: 504 where it was late, else 502.
void no_reply(httplib::Response& to, const endpoint::HttpResponse& from);

// The body asks for server-sent events; looks for the words only.
bool wants_stream(std::string_view body);

}  // namespace kvphase::guard
