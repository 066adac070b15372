#include "ganesha-fsal/proxy/proxy_admission.h"

#include <string>

namespace weft::mds {

Result<ProxyAdmission::Place> ProxyAdmission::admit(std::vector<Call> calls) {
  std::map<std::uint32_t, Use> wanted;
  std::size_t bytes = 0;
  for (const Call& call : calls) {
    Use& use = wanted[call.ds_id];
    ++use.calls;
    use.bytes += call.bytes;
    bytes += call.bytes;
  }
  const MutexLock lock(mutex_);
  if (bytes_ > 0 && bytes_ + bytes > bounds_.bytes) {
    return fail(Errc::kBusy, "too much data is on its way through this server");
  }
  for (const auto& [ds_id, want] : wanted) {
    const auto now = servers_.find(ds_id);
    if (now == servers_.end()) continue;
    if (now->second.calls + want.calls > bounds_.calls ||
        now->second.bytes + want.bytes > bounds_.server_bytes) {
      return fail(Errc::kBusy, "too much waits for data server " + std::to_string(ds_id));
    }
  }
  for (const auto& [ds_id, want] : wanted) {
    Use& use = servers_[ds_id];
    use.calls += want.calls;
    use.bytes += want.bytes;
  }
  bytes_ += bytes;
  return Place(this, std::move(calls));
}

void ProxyAdmission::leave(const std::vector<Call>& calls) {
  const MutexLock lock(mutex_);
  for (const Call& call : calls) {
    const auto at = servers_.find(call.ds_id);
    at->second.bytes -= call.bytes;
    bytes_ -= call.bytes;
    if (--at->second.calls == 0) servers_.erase(at);
  }
}

}  // namespace weft::mds
