// Going on without a member that is lost for ever together with a crash of the data server.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "dataserver/parity/parity_internal.h"
#include "dataserver/parity/parity_scrub.h"

namespace weft::ds {

Result<> ParityStore::give_up(unsigned member) {
  const std::string name = "target " + std::to_string(member);
  if (member >= members()) return fail(Errc::kInvalid, "the parity group has no " + name);
  if (view_.may_give_up.load() != static_cast<int>(member)) {
    return fail(Errc::kInvalid, "the parity group does not wait for " + name + ", or not alone");
  }
  give_up_.store(static_cast<int>(member));
  kick();
  return {};
}

// The member is lost, and what is dirty with it: that is settled at the others, as after any crash,
// but for what only that member had. Then the record says that it is out. If this process dies
// before that, nothing has happened: the member may come back yet, and all is settled anew.
Task<bool> ParityStore::go_on_without(Op& op, unsigned member, const LogState& log) {
  spdlog::warn("event=parity_gives_up target={} objects={}", member, log.dirty.size());
  scrub_->gave_up();
  op.mode.out = static_cast<int>(member);
  op.settling = true;
  std::uint64_t blocks = 0;
  for (const auto& [object, regions] : log.dirty) {
    const auto cut = log.cuts.find(object);
    if (cut != log.cuts.end() && cut->second.remove) continue;
    if (!co_await recover_object(op, object, regions, blocks)) co_return false;
  }
  op.settling = false;
  op.mode.lost = true;
  GroupRecord without = record_;
  without.out = static_cast<int>(member);
  without.lost = true;
  without.given_up += blocks;
  if (!co_await save_record(without)) co_return false;
  give_up_.store(-1);
  view_.put_out.fetch_add(1);
  spdlog::warn("event=parity_given_up target={} blocks={} epoch={}", member, blocks, record_.epoch);
  co_return true;
}

// Of the member that is given up: its block is lost, unless it is behind the end of the object, or
// nobody has anything in this row, so that it had nothing either.
void ParityStore::give_up_block(Image& image, std::size_t row, Settled& settled) {
  const auto absent = static_cast<unsigned>(settled.absent);
  const std::uint64_t at = geometry().logical(absent, image.offset() + row * kParityBlock);
  bool nothing = at >= settled.size;
  if (!nothing) {
    nothing = true;
    for (unsigned member = 0; member < members(); ++member) {
      nothing = nothing && (member == absent || image.nothing(member, row));
    }
  }
  if (nothing) return;
  image.lost[absent][row] = true;
  if (settled.given_up++ == 0) settled.lost.begin = at;
  settled.lost.begin = std::min(settled.lost.begin, at);
  settled.lost.end = std::max(settled.lost.end, std::min(settled.size, at + kParityBlock));
}

// A scrub of all has found nothing that is lost.
Task<bool> ParityStore::forget_given_up() {
  {
    const MutexLock lock(mutex_);
    none_lost_ = false;
  }
  if (record_.given_up == 0) co_return true;
  GroupRecord record = record_;
  record.given_up = 0;
  co_return co_await save_record(record);
}

}  // namespace weft::ds
