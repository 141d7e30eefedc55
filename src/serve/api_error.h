// A refused request as OpenAI-style servers say it: an HTTP status and the envelope
// {"error": {"message", "type", "param", "code"}}. Must not know HTTP libraries or models.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/json.h"

namespace kvphase::serve {

// What the envelope says; thrown while a request is read, turned into a reply by Api::handle.
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, std::string type, std::string message, std::string param = "",
           std::string code = "");

  int status() const { return status_; }
  const std::string& param() const { return param_; }  // the parameter at fault, may be empty
  const std::string& code() const { return code_; }    // for programs, may be empty
  base::Json envelope() const;  // an empty param or code is null; extra is added to "error"

  base::Json extra;  // more members of "error", null or an object

 private:
  int status_;
  std::string type_;
  std::string param_;
  std::string code_;
};

// 400: the request itself is wrong.
ApiError invalid_request(std::string message, std::string param = "", std::string code = "");

// 400 in OpenAI's words and code, with llama.cpp's counts n_prompt_tokens and n_ctx.
ApiError context_exceeded(std::int64_t prompt_tokens, std::int64_t context_length);

// JSON as bytes; text that is not UTF-8 is replaced, never thrown at.
std::string dump(const base::Json& json);

// One line of a value for an error message, at most about 60 characters.
std::string shown(const base::Json& value);

}  // namespace kvphase::serve
