// SHA-256 of bytes, in hexadecimal: the identity of prompt sets, configurations and checkpoints.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace kvphase::base {

std::string sha256_hex(std::string_view data);

// The same over data that comes in parts.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(std::string_view data);
  std::string finish_hex();  // call once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvphase::base
