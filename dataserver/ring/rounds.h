// Asks one question for many who ask at the same time, and asks again while nobody answers.
//
// For each object at most one request is under way. Who asks meanwhile is not given that answer,
// which may be older than the question, but waits for the next round, sent when this one is over.
// A request that fails because the other side cannot be reached is sent again until each waiter's
// own deadline, or until there is no hope; everyone waiting then has joined it. Whoever may not ask
// any more when a request is sent has no part in it, and is refused.
//
// Threading: an instance belongs to one I/O thread: ask() is called there and completions run
// there. The sender may be answered on any thread.
//
// Ownership: whoever answers has done so, or never will, before the Rounds is destroyed; the ring
// outlives it, and its context does not run afterwards what was posted to it.
//
// Invariants:
//  1. waiting() <= limits.max_waiting; beyond it ask() fails with kBusy.
//  2. Every waiter is completed exactly once, at the latest one attempt after its deadline.
//  3. While there is no hope nobody waits for a second attempt, nor begins to wait.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <unordered_map>
#include <vector>

#include "dataserver/ring/io_ring.h"
#include "layout/object_id.h"
#include "rpc/base/clock.h"
#include "rpc/base/error.h"

namespace weft::ds {

struct RoundLimits {
  std::size_t max_waiting = 16384;
  // Below the 60 s after which a Linux client gives up on a request, so that it hears of an error.
  std::chrono::milliseconds deadline{45'000};
  std::chrono::milliseconds retry_after{100};
  // Whether it is of no use to go on asking. On any I/O thread.
  std::function<bool()> hopeless = [] { return false; };
};

// True for failures that another attempt may cure.
[[nodiscard]] inline bool is_transient(const Error& error) {
  return error == Errc::kUnreachable || error == Errc::kTimedOut || error == Errc::kBusy ||
         error == Errc::kClosed;
}

// Request has merge(const Request&): one request that asks for both.
template <class Request, class Answer>
class Rounds {
 public:
  using Done = std::move_only_function<void(Result<Answer>)>;
  using Send = std::function<void(const layout::ObjectId&, const Request&, Done)>;
  using May = std::function<bool(const Request&)>;

  Rounds(
      IoRing& ring, Clock& clock, RoundLimits limits, Send send,
      May may = [](const Request&) { return true; })
      : ring_(ring), clock_(clock), limits_(limits), send_(std::move(send)), may_(std::move(may)) {}

  void ask(const layout::ObjectId& object, const Request& request, Done done) {
    if (waiting_ >= limits_.max_waiting) {
      return done(fail(Errc::kBusy, "too many requests wait for the metadata server"));
    }
    if (limits_.hopeless()) return done(fail(Errc::kUnreachable, "not in touch"));
    ++waiting_;
    Round& round = rounds_.try_emplace(object, ring_.context()).first->second;
    round.next.push_back({request, std::move(done), clock_.now() + limits_.deadline});
    if (!round.under_way) attempt(object);
  }

  [[nodiscard]] std::size_t waiting() const { return waiting_; }

 private:
  struct Waiter {
    Request request;
    Done done;
    TimePoint deadline;
  };
  struct Round {
    explicit Round(boost::asio::io_context& context) : retry(context) {}
    bool under_way = false;
    std::vector<Waiter> asked;  // by the request under way
    std::vector<Waiter> next;
    boost::asio::steady_timer retry;
  };

  void attempt(const layout::ObjectId& object) {
    Round& round = rounds_.at(object);
    for (Waiter& waiter : round.next) round.asked.push_back(std::move(waiter));
    round.next.clear();
    round.under_way = true;
    std::vector<Waiter> refused = take_refused(round);
    if (round.asked.empty()) {
      rounds_.erase(object);
    } else {
      send(round, object);
    }
    for (Waiter& waiter : refused) waiter.done(fail(Errc::kFenced, "fenced while it waited"));
  }

  std::vector<Waiter> take_refused(Round& round) {
    std::vector<Waiter> refused;
    std::vector<Waiter> admitted;
    for (Waiter& waiter : round.asked) {
      (may_(waiter.request) ? admitted : refused).push_back(std::move(waiter));
    }
    round.asked.swap(admitted);
    waiting_ -= refused.size();
    return refused;
  }

  void send(Round& round, const layout::ObjectId& object) {
    Request request = round.asked.front().request;
    for (const Waiter& waiter : round.asked) request.merge(waiter.request);
    send_(object, request, [this, object](Result<Answer> answer) mutable {
      ring_.post([this, object, answer = std::move(answer)]() mutable {
        answered(object, std::move(answer));
      });
    });
  }

  void answered(const layout::ObjectId& object, Result<Answer> answer) {
    Round& round = rounds_.at(object);
    std::vector<Waiter> finished;
    if (answer || !is_transient(answer.error()) || limits_.hopeless()) {
      finished.swap(round.asked);
    } else {
      const TimePoint now = clock_.now();
      std::vector<Waiter> still;
      for (Waiter& waiter : round.asked) {
        (waiter.deadline <= now ? finished : still).push_back(std::move(waiter));
      }
      round.asked.swap(still);
    }
    waiting_ -= finished.size();
    if (!round.asked.empty()) {
      retry_later(round, object);
    } else if (!round.next.empty()) {
      attempt(object);
    } else {
      rounds_.erase(object);
    }
    for (Waiter& waiter : finished) waiter.done(answer);
  }

  void retry_later(Round& round, const layout::ObjectId& object) {
    round.retry.expires_after(limits_.retry_after);
    round.retry.async_wait([this, object](const boost::system::error_code& error) {
      if (!error) attempt(object);
    });
  }

  IoRing& ring_;
  Clock& clock_;
  const RoundLimits limits_;
  const Send send_;
  const May may_;
  std::unordered_map<layout::ObjectId, Round> rounds_;
  std::size_t waiting_ = 0;
};

}  // namespace weft::ds
