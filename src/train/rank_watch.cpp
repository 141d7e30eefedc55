#include "train/rank_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/json.h"

namespace kvphase::train {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{250};           // between pulses
constexpr milliseconds kGuardTick{100};      // between looks at a pulse thread that may be stuck
constexpr milliseconds kSilentBroken{3000};  // silence that convicts once a connection broke
constexpr milliseconds kVerdict{15000};      // the longest wait for a verdict after a break
constexpr milliseconds kGoodbye{5000};  // the longest that rank 0 waits for the others to leave
// Communication waits for ever: a slow rank is not a lost one. c10d takes 0 for its own timeout.
constexpr milliseconds kForever = std::chrono::hours(24 * 365);

constexpr const char* kLost = "lost";      // the verdict
constexpr const char* kBroken = "broken";  // set by a rank whose connection broke

std::string pulse_key(std::int64_t rank) { return fmt::format("pulse/{}", rank); }
std::string left_key(std::int64_t rank) { return fmt::format("left/{}", rank); }

void put(c10d::Store& store, const std::string& key, const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

Json take(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> bytes = store.get(key);
  return Json::parse(bytes.begin(), bytes.end());
}

Json to_json(const LostRank& lost) {
  return {{"rank", lost.rank},
          {"name", lost.name},
          {"kind", static_cast<int>(lost.kind)},
          {"error", lost.error}};
}

LostRank lost_from(const Json& json) {
  return {json.at("rank"), json.at("name"),
          static_cast<base::ErrorKind>(json.at("kind").get<int>()), json.at("error")};
}

}  // namespace

// Shared with the pulse thread, which outlives the watch when its store does not answer.
struct RankWatch::State {
  c10::intrusive_ptr<c10d::Store> store;
  Place place;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::optional<LostRank> lost;
  bool broken = false;   // a connection of this rank broke
  bool leaving = false;  // last words wait to be said
  std::optional<LostRank> last_words;
  bool ended = false;  // the pulse thread uses the store no more
  Clock::time_point answered = Clock::now();
  c10::intrusive_ptr<c10d::Work> waited_for;

  // Of the pulse thread alone.
  struct Watched {
    std::int64_t rank = 0;
    std::int64_t pulses = 0;
    Clock::time_point heard = Clock::now();
    bool left = false;
  };
  std::vector<Watched> others;

  void convict(const LostRank& verdict) {
    const std::lock_guard lock(mutex);
    if (!lost) lost = verdict;
    changed.notify_all();
  }
  LostRank gone(std::int64_t rank) const {
    return {rank, place.names[static_cast<std::size_t>(rank)], base::ErrorKind::kEnvironment, ""};
  }

  void pulse();
  bool look();
  void say_goodbye();
};

// One round of signs. Returns whether there is nothing more to do.
bool RankWatch::State::look() {
  store->add(pulse_key(place.rank), 1);
  bool is_broken = false;
  {
    const std::lock_guard lock(mutex);
    if (leaving || lost) return true;
    is_broken = broken;
  }
  if (is_broken) store->set(kBroken, std::vector<std::uint8_t>{1});
  if (store->check({kLost})) {
    convict(lost_from(take(*store, kLost)));
    return true;
  }
  const bool any_broken = is_broken || store->check({kBroken});
  const milliseconds silent = any_broken ? std::min(kSilentBroken, place.silent) : place.silent;
  for (Watched& other : others) {
    if (other.left) continue;
    if (store->check({left_key(other.rank)})) {
      other.left = true;
      const Json words = take(*store, left_key(other.rank));
      if (words.is_null()) continue;  // left in peace
      convict(lost_from(words));
      return true;
    }
    const std::int64_t pulses = store->add(pulse_key(other.rank), 0);
    if (pulses != other.pulses) {
      other.pulses = pulses;
      other.heard = Clock::now();
    } else if (Clock::now() - other.heard > silent) {
      convict(gone(other.rank));
      return true;
    }
  }
  return false;
}

void RankWatch::State::say_goodbye() {
  std::optional<LostRank> verdict;
  std::optional<LostRank> words;
  {
    const std::lock_guard lock(mutex);
    verdict = lost;
    words = last_words;
  }
  if (verdict && !store->check({kLost})) put(*store, kLost, to_json(*verdict));
  put(*store, left_key(place.rank), words ? to_json(*words) : Json(nullptr));
  if (place.rank != 0) return;
  const Clock::time_point until = Clock::now() + kGoodbye;
  for (const Watched& other : others) {
    if (verdict && verdict->rank == other.rank) continue;
    while (!store->check({left_key(other.rank)}) && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
}

void RankWatch::State::pulse() {
  try {
    for (;;) {
      const bool enough = look();
      std::unique_lock lock(mutex);
      answered = Clock::now();
      if (enough) break;
      const bool was_broken = broken;
      changed.wait_for(lock, kTick, [&] { return leaving || broken != was_broken; });
    }
    say_goodbye();
  } catch (const std::exception&) {
    // The store is rank 0's: without it rank 0 has ended. Before a goodbye that means it is lost.
    const std::lock_guard lock(mutex);
    if (!lost && !leaving) lost = gone(0);
  }
  const std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

RankWatch::RankWatch(c10::intrusive_ptr<c10d::Store> store, Place place)
    : state_(std::make_shared<State>()) {
  state_->store = std::move(store);
  state_->place = std::move(place);
  const auto ranks = static_cast<std::int64_t>(state_->place.names.size());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    // Rank 0 watches all, so that the store's work grows with the ranks and not with their square.
    if (rank != state_->place.rank && (state_->place.rank == 0 || rank == 0)) {
      state_->others.push_back({.rank = rank});
    }
  }
  pulse_ = std::thread([state = state_] { state->pulse(); });
  guard_ = std::thread([this] { guard(); });
}

// Wakes whoever waits for communication that will never come.
void RankWatch::guard() {
  std::unique_lock lock(state_->mutex);
  while (!state_->ended) {
    state_->changed.wait_for(lock, kGuardTick);
    if (!state_->lost && !state_->leaving &&
        Clock::now() - state_->answered > state_->place.silent) {
      state_->lost = state_->gone(0);  // its store does not even refuse
      state_->changed.notify_all();
    }
    if (state_->lost) break;
  }
  if (state_->lost && state_->waited_for) state_->waited_for->abort();
}

void RankWatch::throw_if_lost() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->lost) throw LostRank(*state_->lost);
}

void RankWatch::finish(const c10::intrusive_ptr<c10d::Work>& work) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->lost) throw LostRank(*state_->lost);
    state_->waited_for = work;
  }
  bool done = false;
  std::string broke;
  try {
    done = work->wait(kForever);
  } catch (const std::exception& error) {
    broke = error.what();
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->waited_for.reset();
  }
  if (!done) throw_after_break(broke);
}

void RankWatch::throw_after_break(const std::string& what) {
  std::unique_lock lock(state_->mutex);
  state_->broken = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kVerdict, [&] { return state_->lost.has_value(); });
  if (!state_->lost) {
    // Everybody lives, but not all can talk to each other.
    const std::int64_t own = state_->place.rank;
    state_->lost = LostRank(own, state_->place.names[static_cast<std::size_t>(own)],
                            base::ErrorKind::kEnvironment,
                            fmt::format("its connection to another rank broke: {}", what));
    state_->changed.notify_all();
  }
  throw LostRank(*state_->lost);
}

void RankWatch::leave(std::optional<LostRank> error) {
  std::unique_lock lock(state_->mutex);
  if (!state_->leaving) {
    state_->leaving = true;
    state_->last_words = std::move(error);
    state_->changed.notify_all();
  }
  state_->changed.wait_for(lock, kGoodbye + milliseconds(1000), [&] { return state_->ended; });
}

RankWatch::~RankWatch() {
  leave(std::nullopt);
  bool ended = false;
  {
    const std::lock_guard lock(state_->mutex);
    ended = state_->ended;
    // The guard goes by the same word; a stuck pulse thread keeps the state alive.
    state_->ended = true;
    state_->changed.notify_all();
  }
  guard_.join();
  if (ended) {
    pulse_.join();
  } else {
    pulse_.detach();
  }
}

}  // namespace kvphase::train
