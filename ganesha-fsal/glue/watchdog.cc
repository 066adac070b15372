#include "ganesha-fsal/glue/watchdog.h"

#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/meta/kv/store_watch.h"
#include "rpc/base/mutex.h"
#include "rpc/base/service_manager.h"

namespace weft::mds {
namespace {

constexpr int kRounds = 6;  // in the time after which a service manager ends a service

// A request that nobody has sent: resumed, a worker calls what it resumes with. It is not asked
// for again before it has done so.
struct WorkersSign {
  svc_req request{};
  std::function<void()> give;
};

WorkersSign& workers_sign() {
  static WorkersSign& instance = *new WorkersSign;
  return instance;
}

// XPRT_SUSPEND: ntirpc touches the request no more.
xprt_stat give_sign(svc_req* /*request*/) {
  std::exchange(workers_sign().give, {})();
  return XPRT_SUSPEND;
}

void ask_workers(std::function<void()> give) {
  WorkersSign& sign = workers_sign();
  sign.give = std::move(give);
  sign.request.rq_resume_cb = &give_sign;
  ::svc_resume(&sign.request);
}

struct Watch {
  SignsOfLife::Hold workers;
  std::optional<Regularly> rounds;
};

Mutex watch_mutex;
std::unique_ptr<Watch> watch WEFT_GUARDED_BY(watch_mutex);

// How long a service manager waits for a mark (sd_watchdog_enabled(3)); 0: it does not.
std::chrono::microseconds patience() {
  const char* const text = std::getenv("WATCHDOG_USEC");
  std::int64_t given = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), given);
  return std::chrono::microseconds(std::max<std::int64_t>(given, 0));
}

void look() {
  static const int named = ::pthread_setname_np(::pthread_self(), "weft-watchdog");
  static_cast<void>(named);
  if (signs_of_life().look()) tell_service_manager("WATCHDOG=1");
}

}  // namespace

SignsOfLife& signs_of_life() {
  static SignsOfLife& instance = *new SignsOfLife;
  return instance;
}

void start_watchdog() {
  const auto round = std::chrono::duration_cast<std::chrono::milliseconds>(patience() / kRounds);
  if (round.count() == 0) return;
  const MutexLock lock(watch_mutex);
  watch = std::make_unique<Watch>();
  watch->workers = signs_of_life().add({.ask = ask_workers});
  watch->rounds.emplace(round, look);
}

void stop_watchdog() {
  const MutexLock lock(watch_mutex);
  watch.reset();
}

}  // namespace weft::mds
