#include "ganesha-fsal/cluster/wait_limit.h"

namespace weft::mds {
namespace {

thread_local WaitLimit::Scope* current = nullptr;

}  // namespace

WaitLimit::Scope::Scope(WaitLimit& limit) : limit_(current == nullptr ? &limit : nullptr) {
  if (limit_ != nullptr) current = this;
}

WaitLimit::Scope::~Scope() {
  if (limit_ == nullptr) return;
  if (counted_) --limit_->waiting_;
  current = nullptr;
}

bool WaitLimit::may_wait() {
  if (current == nullptr || current->counted_) return true;
  WaitLimit& limit = *current->limit_;
  if (++limit.waiting_ > limit.most_) {
    --limit.waiting_;
    return false;
  }
  current->counted_ = true;
  return true;
}

}  // namespace weft::mds
