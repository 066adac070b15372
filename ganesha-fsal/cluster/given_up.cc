#include "ganesha-fsal/cluster/given_up.h"

namespace weft::mds {

bool GivenUp::has(const Where& where) const {
  const MutexLock lock(mutex_);
  return changes_.contains(where);
}

void GivenUp::add(const Where& where) {
  const MutexLock lock(mutex_);
  ++changes_[where];
}

void GivenUp::settled(const Where& where) {
  const MutexLock lock(mutex_);
  const auto at = changes_.find(where);
  if (at != changes_.end() && --at->second == 0) changes_.erase(at);
}

GivenUp::Change::~Change() {
  if (given_up_) all_->settled(where_);
}

void GivenUp::Change::give_up() {
  if (!std::exchange(given_up_, true)) all_->add(where_);
}

}  // namespace weft::mds
