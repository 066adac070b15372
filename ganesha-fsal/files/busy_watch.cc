#include "ganesha-fsal/files/busy_watch.h"

namespace weft::mds {

BusyWatch::Look BusyWatch::judge(const StoreHealth& now) const {
  if (now.writes_slowed || now.writes_stopped) return Look::kBad;
  const std::uint64_t syncs = now.syncs - syncs_;
  if (syncs == 0) return now.commits == commits_ ? Look::kGood : Look::kBad;
  const auto each = (now.sync_time - sync_time_) / syncs;
  if (each >= kSlowSync) return Look::kBad;
  return each < kSlowSync / 2 ? Look::kGood : Look::kBetween;
}

void BusyWatch::look(const StoreHealth& now) {
  const Look found = judge(now);
  commits_ = now.commits;
  syncs_ = now.syncs;
  sync_time_ = now.sync_time;
  if (found != (busy_ ? Look::kGood : Look::kBad)) {
    in_a_row_ = 0;
    return;
  }
  if (++in_a_row_ < (busy_ ? kGoodLooks : kBadLooks)) return;
  busy_ = !busy_;
  in_a_row_ = 0;
}

}  // namespace weft::mds
