// A new store in the place of a member that is lost: what the others have, all of it.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "dataserver/parity/parity_internal.h"
#include "dataserver/store/object_files.h"

namespace weft::ds {

namespace {

constexpr std::uint32_t kPage = 1024;  // objects listed at a time

}  // namespace

// Only of the member that is out, or of one when none is.
int ParityStore::offered() const {
  if (parts_.replacements == nullptr) return -1;
  for (unsigned member = 0; member < members(); ++member) {
    if (mode_.out >= 0 && mode_.readable(member)) continue;
    if (parts_.replacements->offered(member)) return static_cast<int>(member);
  }
  return -1;
}

// The record first: if this process dies between the two, the new store is offered again.
Task<bool> ParityStore::replace() {
  GroupRecord record = record_;
  record.everything = true;
  record.done = 0;
  record.place = {};
  if (!co_await save_record(record)) co_return false;
  {
    const MutexLock lock(mutex_);
    mode_.lost = true;
  }
  const auto member = static_cast<unsigned>(record_.out);
  auto accepted = parts_.replacements->accept(member);
  if (!accepted) {
    spdlog::error("event=parity_member_refused member={} error=\"{}\"", member,
                  accepted.error().describe());
    co_return true;
  }
  spdlog::warn("event=parity_member_replaced member={} epoch={}", member, record_.epoch);
  const MutexLock lock(mutex_);
  next_rebuild_ = parts_.clock.now();
  co_return true;
}

Task<bool> ParityStore::note_progress() {
  next_note_ = parts_.clock.now() + parts_.options.note_every;
  std::optional<Progress> progress;
  {
    const MutexLock lock(mutex_);
    progress = std::exchange(progress_, std::nullopt);
    if (!mode_.rebuilding) co_return true;
  }
  GroupRecord record = record_;
  if (!progress || !record.everything) co_return true;
  record.done = progress->done;
  record.place = progress->place;
  co_return co_await save_record(record);
}

// Objects of the group: those of which any member that is read has the checksums.
Task<Result<>> ParityStore::list_some(Op& op, ListPlace from, ObjectList& into) {
  std::vector<ObjectList> lists(members());
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    join.started();
    parts_.members[member]->list(from, kPage, [&, member](Result<ObjectList> listed) {
      after(op, member, listed ? nullptr : &listed.error(), nullptr);
      if (listed) lists[member] = std::move(*listed);
      join.ended();
    });
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  into = {};
  for (const ObjectList& list : lists) {  // as far as all of them went
    if (!list.more) continue;
    if (!into.more || list.next < into.next) into.next = list.next;
    into.more = true;
  }
  std::set<ListPlace> found;
  for (const ObjectList& list : lists) {
    for (const ObjectId& object : list.objects) {
      const ListPlace place{.folder = object_folder(object), .after = object};
      if (is_sums(object) && (!into.more || place <= into.next)) found.insert(place);
    }
  }
  for (const ListPlace& place : found) into.objects.push_back(data_of(place.after));
  co_return Result<>{};
}

void ParityStore::list(ListPlace from, std::uint32_t max, Done<ObjectList> done) {
  run<ObjectList>(do_list(from, max), std::move(done));
}

Task<Result<ObjectList>> ParityStore::do_list(ListPlace from, std::uint32_t max) {
  ObjectList page;
  auto listed = co_await until_done(0, [&](Op& op) { return list_some(op, from, page); });
  if (!listed) co_return pass(listed);
  if (page.objects.size() > max) {
    page.objects.resize(max);
    const ObjectId last = sums_of(page.objects.back());
    page.next = {.folder = object_folder(last), .after = last};
    page.more = true;
  }
  co_return page;
}

std::uint64_t ParityStore::objects_in_all() const {
  const auto all = usage();
  return all ? all->objects : 0;
}

Task<Result<>> ParityStore::rebuild_everything(Progress progress, TokenBucket& rate) {
  for (;;) {
    ObjectList page;
    auto listed =
        co_await until_done(0, [&](Op& op) { return list_some(op, progress.place, page); });
    if (!listed) co_return listed;
    for (const ObjectId& object : page.objects) {
      auto done = co_await rebuild_object(object, {.all = true}, rate);
      if (!done) co_return done;
      const std::uint64_t all = std::max(objects_in_all(), ++progress.done);
      view_.rebuild_objects_left.store(all - progress.done);
      view_.rebuild_permille.store(static_cast<std::uint32_t>(progress.done * 1000 / all));
      const MutexLock lock(mutex_);
      progress_ = {.done = progress.done,
                   .place = {.folder = object_folder(sums_of(object)), .after = sums_of(object)}};
    }
    kick();
    if (!page.more) co_return Result<>{};
    progress.place = page.next;
  }
}

}  // namespace weft::ds
