#include "ganesha-fsal/glue/later.h"

#include "ganesha-fsal/glue/guard.h"

namespace weft::mds {
namespace {

// Ganesha calls it with the numbers that a request has noted. False: nothing is told.
bool wait_for_store(std::uint64_t store, std::uint64_t upto) noexcept {
  try {
    const std::shared_ptr<ServedStore> served = exports().store_numbered(store);
    if (served == nullptr) return false;
    const weft::Clock& clock = served->server->environment().clock;
    const std::uint64_t since = op_ctx->reply_wait.since;
    const TimePoint began = since != 0 ? TimePoint(Nanoseconds(since)) : clock.now();
    const bool durable = served->kv->wait_durable(upto).has_value();
    served->server->times().add_reply_wait(clock.now() - began);
    return durable;
  } catch (...) {
    log_escaped_exception(__PRETTY_FUNCTION__);
    return false;
  }
}

void resume(std::span<void* const> requests) {
  resume_replies(requests.data(), static_cast<unsigned>(requests.size()));
}

// True: from here on the request may be at another thread, and op_ctx with it.
bool resume_when_durable(std::uint64_t store, std::uint64_t upto, svc_req* request) noexcept {
  try {
    const std::shared_ptr<ServedStore> served = exports().store_numbered(store);
    if (served == nullptr) return false;
    const TimePoint now = served->server->environment().clock.now();
    op_ctx->reply_wait.since = static_cast<std::uint64_t>(now.time_since_epoch().count());
    return served->kv->tell_when_durable(upto, &resume, request);
  } catch (...) {
    log_escaped_exception(__PRETTY_FUNCTION__);
    return false;
  }
}

// A compound that goes from one store to another notes those of the first, and waits in the others.
bool may_note(const reply_wait& due, std::uint64_t store) {
  if (!due.possible) return false;
  return due.upto == 0 || (due.wait == &wait_for_store && due.store == store);
}

}  // namespace

Later::Later() {
  if (may_note(op_ctx->reply_wait, this_export().store->number)) scope_.emplace(owed_);
}

Later::~Later() {
  if (!scope_ || owed_.upto() == 0) return;
  reply_wait& due = op_ctx->reply_wait;
  due.store = this_export().store->number;
  due.upto = std::max<std::uint64_t>(due.upto, owed_.upto());
  due.wait = &wait_for_store;
  due.later = &resume_when_durable;
}

}  // namespace weft::mds
