#include "ganesha-fsal/cluster/refusals.h"

#include <algorithm>

namespace weft::mds {

bool Refusals::add(const layout::NetAddress& from, const std::string& name,
                   const std::string& why) {
  const auto now = now_();
  const std::string address = layout::ip_text(from);
  const MutexLock lock(mutex_);
  const auto [at, added] = known_.try_emplace({address, name});
  Refusal& refusal = at->second;
  const bool news = added || refusal.why != why || now - refusal.last > kRecent;
  refusal.address = address;
  refusal.name = name;
  refusal.why = why;
  refusal.times = news ? 1 : refusal.times + 1;
  refusal.last = now;
  if (known_.size() > kMost) {
    known_.erase(
        std::ranges::min_element(known_, {}, [](const auto& one) { return one.second.last; }));
  }
  return news;
}

void Refusals::forget(const layout::NetAddress& from, const std::string& name) {
  const std::string address = layout::ip_text(from);
  const MutexLock lock(mutex_);
  known_.erase({address, name});
  known_.erase({address, ""});
}

std::vector<Refusals::Refusal> Refusals::recent() const {
  const auto now = now_();
  std::vector<Refusal> recent;
  {
    const MutexLock lock(mutex_);
    for (const auto& [who, refusal] : known_) {
      if (now - refusal.last <= kRecent) recent.push_back(refusal);
    }
  }
  std::ranges::sort(recent, std::ranges::greater{}, &Refusal::last);
  return recent;
}

}  // namespace weft::mds
