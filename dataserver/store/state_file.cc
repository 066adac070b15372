#include "dataserver/store/state_file.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>

#include "dataserver/store/disk.h"
#include "rpc/xdr/xdr.h"

namespace weft::ds {

namespace {

constexpr std::uint32_t kMagic = 0x57465354;
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kSummed = 24;

std::optional<StoreState> decode_slot(std::span<const std::byte> slot) {
  xdr::Decoder in(slot);
  const std::uint32_t magic = in.u32();
  const std::uint32_t version = in.u32();
  StoreState state;
  state.generation = in.u64();
  state.boot = in.u64();
  const std::uint64_t sum = in.u64();
  if (!in.ok() || magic != kMagic || version != kVersion || state.generation == 0) return {};
  if (sum != XXH64(slot.data(), kSummed, 0)) return {};
  return state;
}

}  // namespace

StateSlot encode_state(const StoreState& state) {
  xdr::Encoder out(kSummed + 8);
  out.u32(kMagic);
  out.u32(kVersion);
  out.u64(state.generation);
  out.u64(state.boot);
  out.u64(XXH64(out.bytes().data(), kSummed, 0));
  StateSlot slot{};
  std::ranges::copy(out.bytes(), slot.begin());
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
