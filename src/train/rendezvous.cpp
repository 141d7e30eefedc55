#include "train/rendezvous.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/stop.h"

namespace kvphase::train {
namespace {

using base::environment_error;
using base::Json;
using base::usage_error;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause{100};            // between looks for what has not come yet
constexpr const char* kComplete = "complete";  // key: all ranks are there, or why not
// Rank 0 gives up first and says who is missing; the others then repeat it.
constexpr milliseconds kGrace{5000};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const std::string& host, std::uint16_t port, int type, std::string& problem) {
  const addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = type};
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), fmt::to_string(port).c_str(), &hints, &list);
  if (error != 0) problem = ::gai_strerror(error);
  return {error == 0 ? list : nullptr, ::freeaddrinfo};
}

struct Descriptor {
  int number;
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

// Empty when something accepts connections there; else why not.
std::string why_unreachable(const std::string& host, std::uint16_t port) {
  std::string problem = "no address";
  const Addresses addresses = resolve(host, port, SOCK_STREAM, problem);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const Descriptor socket(
        ::socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol));
    if (socket.number < 0) continue;
    if (::connect(socket.number, at->ai_addr, at->ai_addrlen) == 0) return "";
    int error = errno;
    if (error == EINPROGRESS) {
      pollfd ready = {.fd = socket.number, .events = POLLOUT, .revents = 0};
      error = ETIMEDOUT;
      if (::poll(&ready, 1, 2000) > 0) {
        socklen_t size = sizeof error;
        ::getsockopt(socket.number, SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) return "";
    problem = std::strerror(error);
  }
  return problem;
}

// Empty when rank 0 can listen there; else why not.
std::string why_not_free(std::uint16_t port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.number < 0) return std::strerror(errno);
  const int yes = 1;  // c10d listens with it too
  ::setsockopt(socket.number, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const std::uint16_t network_order = htons(port);
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_port = network_order;
  any.sin_addr.s_addr = INADDR_ANY;
  const bool free =
      ::bind(socket.number, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 &&
      ::listen(socket.number, 1) == 0;
  return free ? "" : std::strerror(errno);
}

// This machine's address on the way to a host: the one that the others of the launch can reach.
std::string address_towards(const std::string& host, std::uint16_t port) {
  std::string problem;
  const Addresses addresses = resolve(host, port, SOCK_DGRAM, problem);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const Descriptor socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0));
    sockaddr_storage own = {};
    socklen_t size = sizeof own;
    auto* own_address = reinterpret_cast<sockaddr*>(&own);
    std::array<char, NI_MAXHOST> text{};
    // Connecting a datagram socket sends nothing; it only picks the route.
    if (socket.number >= 0 && ::connect(socket.number, at->ai_addr, at->ai_addrlen) == 0 &&
        ::getsockname(socket.number, own_address, &size) == 0 &&
        ::getnameinfo(own_address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
            0) {
      return text.data();
    }
  }
  throw environment_error("train", "expected a way to MASTER_ADDR '{}', got: {}", host, problem);
}

void throw_if_stopped() {
  if (base::stop_requested()) {
    throw base::Error(base::ErrorKind::kInterrupted, "train",
                      "stopped while the ranks were gathering; nothing was trained");
  }
}

class Gathering {
 public:
  explicit Gathering(const Launch& launch)
      : launch_(launch),
        deadline_(Clock::now() +
                  milliseconds(static_cast<std::int64_t>(1000 * launch.join_seconds))) {}

  Meeting meet();

 private:
  bool serves() const { return launch_.rank == 0 && !launch_.store_is_served; }
  std::string place() const { return fmt::format("{}:{}", launch_.address, launch_.port); }
  std::string who_key(std::int64_t rank) const { return fmt::format("who/{}", rank); }

  void reach_rank_0() const;
  c10::intrusive_ptr<c10d::Store> open(bool as_server) const;
  void introduce(c10d::Store& store) const;
  void await_all(c10d::Store& store) const;
  void await_word_of_rank_0(c10d::Store& store) const;
  std::vector<std::string> names(c10d::Store& store) const;

  Launch launch_;
  Clock::time_point deadline_;
};

void put(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::string take(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

void Gathering::reach_rank_0() const {
  for (;;) {
    const std::string problem = why_unreachable(launch_.address, launch_.port);
    if (problem.empty()) return;
    throw_if_stopped();
    if (Clock::now() > deadline_) {
      throw environment_error(
          "train",
          "expected rank 0 of {} to listen at MASTER_ADDR:MASTER_PORT {} within {:g} s, got: {}; "
          "is it running there, and is the port open?",
          launch_.ranks, place(), launch_.join_seconds, problem);
    }
    std::this_thread::sleep_for(kPause);
  }
}

c10::intrusive_ptr<c10d::Store> Gathering::open(bool as_server) const {
  const std::string host = serves() ? "127.0.0.1" : launch_.address;
  struct Opened {
    c10::intrusive_ptr<c10d::Store> store;
  };
  const auto opened = std::make_shared<Opened>();
  const auto work = [opened, host, as_server, launch = launch_] {
    const auto store = c10::make_intrusive<c10d::TCPStore>(
        host, c10d::TCPStoreOptions{
                  .port = launch.port,
                  .isServer = as_server,
                  .waitWorkers = false,
                  .timeout = milliseconds(static_cast<std::int64_t>(1000 * launch.join_seconds))});
    store->add("hello", 1);  // whoever answers this is a store
    opened->store =
        c10::make_intrusive<c10d::PrefixStore>(fmt::format("kvphase/{}", launch.attempt), store);
  };
  try {
    run_watched(work, [&] {
      throw_if_stopped();
      if (Clock::now() > deadline_ + kGrace) throw std::runtime_error("no answer");
    });
  } catch (const base::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw environment_error(
        "train", "expected the store of rank 0 at {}, got: {}", place(),
        std::string_view(error.what()).substr(0, std::string_view(error.what()).find('\n')));
  }
  return opened->store;
}

// Tells the others who this is; refuses a place that is taken.
void Gathering::introduce(c10d::Store& store) const {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string name =
      fmt::format("rank {} of {} ({}, pid {})", launch_.rank, launch_.ranks, host.data(), getpid());
  if (store.add(fmt::format("place/{}", launch_.rank), 1) > 1) {
    throw usage_error(
        "train", "expected a RANK of its own for every process, got {} twice: {}", launch_.rank,
        store.check({who_key(launch_.rank)}) ? take(store, who_key(launch_.rank)) : name);
  }
  put(store, who_key(launch_.rank), name);
  put(store, fmt::format("size/{}", launch_.rank), fmt::to_string(launch_.ranks));
}

// On rank 0.
void Gathering::await_all(c10d::Store& store) const {
  const auto refuse = [&](const base::Error& error) {
    put(store, kComplete,
        Json{{"kind", static_cast<int>(error.kind())}, {"text", error.what()}}.dump());
    std::this_thread::sleep_for(milliseconds(1000));  // the store goes with this process
    throw error;
  };
  for (;;) {
    std::string missing;
    for (std::int64_t rank = 0; rank < launch_.ranks; ++rank) {
      const std::string size_key = fmt::format("size/{}", rank);
      if (!store.check({size_key})) {
        if (!missing.empty()) missing += ", ";
        missing += fmt::to_string(rank);
        continue;
      }
      if (const std::string size = take(store, size_key); size != fmt::to_string(launch_.ranks)) {
        refuse(usage_error("train",
                           "expected the same WORLD_SIZE on every rank, got {} on rank 0 "
                           "and {} on rank {}",
                           launch_.ranks, size, rank));
      }
    }
    if (missing.empty()) break;
    if (base::stop_requested()) {
      refuse({base::ErrorKind::kInterrupted, "train",
              "stopped while the ranks were gathering; nothing was trained"});
    }
    if (Clock::now() > deadline_) {
      refuse(environment_error(
          "train",
          "expected {} processes within {:g} s, got no sign of rank {}; start them with the same "
          "MASTER_ADDR and MASTER_PORT, or allow more by --join-seconds",
          launch_.ranks, launch_.join_seconds, missing));
    }
    std::this_thread::sleep_for(kPause);
  }
  put(store, kComplete, "null");
}

void Gathering::await_word_of_rank_0(c10d::Store& store) const {
  try {
    while (!store.check({kComplete})) {
      throw_if_stopped();
      if (Clock::now() > deadline_ + kGrace) {
        throw environment_error("train",
                                "expected rank 0 of {} to gather all ranks within {:g} s, got no "
                                "word of it",
                                launch_.ranks, launch_.join_seconds);
      }
      std::this_thread::sleep_for(kPause);
    }
    const Json word = Json::parse(take(store, kComplete));
    if (word.is_null()) return;
    const std::string text = word.at("text");
    throw base::Error(static_cast<base::ErrorKind>(word.at("kind").get<int>()), "train",
                      fmt::format("rank 0 of {} ended: {}", launch_.ranks, text));
  } catch (const base::Error&) {
    throw;
  } catch (const std::exception&) {
    throw environment_error("train",
                            "expected rank 0 of {} at {} to stay until all ranks are there, got a "
                            "closed connection; see its messages",
                            launch_.ranks, place());
  }
}

std::vector<std::string> Gathering::names(c10d::Store& store) const {
  std::vector<std::string> list;
  for (std::int64_t rank = 0; rank < launch_.ranks; ++rank) {
    // Only rank 0 speaks of all; the others need not read every name.
    const bool needed = launch_.rank == 0 || rank == 0 || rank == launch_.rank;
    list.push_back(needed ? take(store, who_key(rank))
                          : fmt::format("rank {} of {}", rank, launch_.ranks));
  }
  return list;
}

Meeting Gathering::meet() {
  if (serves()) {
    if (const std::string problem = why_not_free(launch_.port); !problem.empty()) {
      throw environment_error("train",
                              "expected MASTER_PORT {} to be free for rank 0, got: {}; choose "
                              "another port, the same for all ranks",
                              launch_.port, problem);
    }
  } else {
    reach_rank_0();
  }
  Meeting meeting{.store = open(serves()), .second_store = open(false)};
  try {
    introduce(*meeting.store);
    meeting.address = address_towards(launch_.address, launch_.port);
    if (launch_.rank == 0) {
      await_all(*meeting.store);
    } else {
      await_word_of_rank_0(*meeting.store);
    }
    meeting.names = names(*meeting.store);
  } catch (const base::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw environment_error(
        "train", "expected an answer of the store at {}, got: {}", place(),
        std::string_view(error.what()).substr(0, std::string_view(error.what()).find('\n')));
  }
  return meeting;
}

}  // namespace

Meeting meet(const Launch& launch) { return Gathering(launch).meet(); }

void run_watched(std::function<void()> work, const std::function<void()>& look) {
  const auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
  std::future<void> done = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  while (done.wait_for(kPause) != std::future_status::ready) look();
  done.get();
}

}  // namespace kvphase::train
