#include "dataserver/store/state_file.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "dataserver/store/disk.h"
#include "dataserver/store/small_record.h"

namespace weft::ds {

namespace {

constexpr RecordKind kKind{
    .magic = 0x57465354, .oldest = 1, .newest = 1, .name = "the store's state"};
constexpr std::size_t kRecordBytes = 32;

std::optional<StoreState> decode_slot(std::span<const std::byte> slot) {
  auto reader = open_record(slot.first(kRecordBytes), kKind);
  if (!reader) return {};
  StoreState state;
  state.generation = reader->body.u64();
  state.boot = reader->body.u64();
  if (!reader->whole() || state.generation == 0) return {};
  return state;
}

}  // namespace

StateSlot encode_state(const StoreState& state) {
  RecordWriter writer(kKind);
  writer.body.u64(state.generation);
  writer.body.u64(state.boot);
  StateSlot slot{};
  std::ranges::copy(writer.seal(), slot.begin());
  return slot;
}

std::optional<StoreState> decode_states(std::span<const std::byte> file) {
  if (file.size() != kStateFileBytes) return {};
  std::optional<StoreState> found;
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const auto state = decode_slot(file.subspan(slot * kStateSlotBytes, kStateSlotBytes));
    if (!state || state->generation % 2 != slot) continue;
    if (!found || found->generation < state->generation) found = state;
  }
  return found;
}

Result<StoreState> read_state(int directory, const char* name) {
  {
    // A process that died may have written it, and not synced it yet.
    const OwnedFd file(::openat(directory, name, O_RDONLY | O_CLOEXEC));
    if (!file && errno == ENOENT) return StoreState{};
    if (!file) return fail_errno(errno, name);
    if (::fdatasync(file.get()) != 0) return fail_errno(errno, "sync of the store's state");
  }
  auto bytes = read_small_file(directory, name, kStateFileBytes);
  if (!bytes && !(bytes.error() == Errc::kTooLarge)) return pass(bytes);
  const auto state = bytes ? decode_states(*bytes) : std::nullopt;
  if (state) return *state;
  spdlog::error("event=store_state_damaged file={}", name);
  return StoreState{};
}

Result<> write_state(int directory, const StoreState& state, const char* name) {
  const StateSlot slot = encode_state(state);
  const std::size_t at = state.generation % 2 * kStateSlotBytes;
  const OwnedFd file(::openat(directory, name, O_WRONLY | O_CLOEXEC));
  if (!file && errno != ENOENT) return fail_errno(errno, name);
  if (file) {
    if (auto written = write_fully(file.get(), slot, at); !written) return pass(written);
    if (::fdatasync(file.get()) != 0) return fail_errno(errno, "sync of the store's state");
    return {};
  }
  std::array<std::byte, kStateFileBytes> whole{};
  std::ranges::copy(slot, whole.begin() + static_cast<std::ptrdiff_t>(at));
  auto made = replace_file(directory, name, whole);
  if (made || !(made.error() == Errc::kNoSpace)) return made;
  return fail(Errc::kNoSpace, "no room to note the store's state: free 8 KiB of its file system");
}

}  // namespace weft::ds
