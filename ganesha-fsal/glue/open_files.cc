#include "ganesha-fsal/glue/open_files.h"

#include "ganesha-fsal/glue/convert.h"
#include "rpc/base/assert.h"

namespace weft::mds {

std::shared_ptr<OpenFile> OpenFiles::of(FileId file) {
  const MutexLock lock(table_->mutex);
  std::weak_ptr<OpenFile>& slot = table_->files[file];
  if (auto held = slot.lock()) return held;
  // The deleter forgets the slot, unless a newer entry has taken it.
  std::shared_ptr<OpenFile> made(new OpenFile, [table = table_, file](OpenFile* gone) {
    delete gone;
    const MutexLock relock(table->mutex);
    const auto it = table->files.find(file);
    if (it != table->files.end() && it->second.expired()) table->files.erase(it);
  });
  slot = made;
  return made;
}

bool OpenFiles::is_open(FileId file, std::optional<ClientId> client) const {
  std::shared_ptr<OpenFile> held;
  {
    const MutexLock lock(table_->mutex);
    const auto it = table_->files.find(file);
    if (it != table_->files.end()) held = it->second.lock();
  }
  if (!held) return false;
  const MutexLock lock(held->mutex);
  return client ? held->by_client.contains(*client) : !held->by_client.empty();
}

namespace {

void count_open(OpenFile& file, const OpenState& state) WEFT_REQUIRES(file.mutex) {
  if (state.flags == FSAL_O_CLOSED) return;
  OpenFile::ByClient& counts = file.by_client[state.client];
  ++counts.all;
  if ((state.flags & FSAL_O_WRITE) != 0) ++counts.writing;
}

void uncount_open(OpenFile& file, const OpenState& state) WEFT_REQUIRES(file.mutex) {
  if (state.flags == FSAL_O_CLOSED) return;
  const auto it = file.by_client.find(state.client);
  WEFT_ASSERT(it != file.by_client.end());
  if ((state.flags & FSAL_O_WRITE) != 0) --it->second.writing;
  if (--it->second.all == 0) file.by_client.erase(it);
}

}  // namespace

fsal_status_t take_share(OpenFile& file, OpenState* state, fsal_openflags_t flags,
                         ClientId client) {
  const MutexLock lock(file.mutex);
  const fsal_openflags_t wanted = FSAL_O_NFS_FLAGS(flags);
  if (state == nullptr) return check_share_conflict(&file.share, wanted, false);

  const fsal_openflags_t before = state->flags;
  // Another OPEN of the same owner comes with what it had and what it asks for, and what it denied
  // itself counts as well (RFC 8881 section 9.7). What is less than before is an OPEN_DOWNGRADE,
  // or an upgrade that is taken back, and conflicts with nobody.
  if (wanted == before || (wanted & ~before) != 0) {
    const fsal_status_t status = check_share_conflict(&file.share, wanted, false);
    if (FSAL_IS_ERROR(status)) return status;
  }
  update_share_counters(&file.share, before, wanted);
  uncount_open(file, *state);
  if (before == FSAL_O_CLOSED) state->client = client;
  state->flags = wanted;
  count_open(file, *state);
  return kFsalOk;
}

bool may_use(OpenFile& file, ClientId client, layout::Access access) {
  const MutexLock lock(file.mutex);
  const auto it = file.by_client.find(client);
  if (it == file.by_client.end()) return false;
  return access == layout::Access::kRead || it->second.writing > 0;
}

void drop_share(OpenFile& file, OpenState& state) {
  const MutexLock lock(file.mutex);
  update_share_counters(&file.share, state.flags, FSAL_O_CLOSED);
  uncount_open(file, state);
  state.flags = FSAL_O_CLOSED;
}

fsal_status_t check_share(OpenFile& file, fsal_openflags_t access, bool bypass) {
  const MutexLock lock(file.mutex);
  return check_share_conflict(&file.share, access, bypass);
}

namespace {
void free_state_of_ours(state_t* state) { gsh_free(static_cast<OpenState*>(state)); }
}  // namespace

state_t* alloc_state(fsal_export* /*exp*/, state_type type, state_t* related) {
  auto* state = static_cast<OpenState*>(gsh_calloc(1, sizeof(OpenState)));
  return init_state(state, &free_state_of_ours, type, related);
}

}  // namespace weft::mds
