#include "dataserver/store/state_file.h"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "dataserver/store/disk.h"
#include "tests/dataserver/temp_folder.h"
#include "tests/hex.h"

namespace weft::ds {
namespace {

using test::TempFolder;

std::vector<std::byte> file_of(const StoreState& even, const StoreState& odd) {
  std::vector<std::byte> file;
  for (const StoreState& state : {even, odd}) {
    const StateSlot slot = encode_state(state);
    file.insert(file.end(), slot.begin(), slot.end());
  }
  return file;
}

TEST_CASE("a state is the bytes that it has always been") {
  const StateSlot slot = encode_state({7, 12});
  CHECK(test::hex(std::span(slot).first(32)) ==
        "57465354000000010000000000000007000000000000000c860ef1e97f08b06b");
  CHECK(test::hex(std::span(slot).subspan(32)) == std::string(960, '0'));
}

TEST_CASE("of the two states in a file the later counts, and nothing damaged") {
  auto file = file_of({6, 11}, {7, 12});
  CHECK(decode_states(file) == StoreState{7, 12});
  CHECK(decode_states(file_of({8, 13}, {7, 12})) == StoreState{8, 13});
  // One in the place of the other is none of ours.
  CHECK_FALSE(decode_states(file_of({7, 12}, {6, 11})));
  for (std::size_t at = 0; at < 32; ++at) {
    auto torn = file;
    torn[kStateSlotBytes + at] ^= std::byte{1};
    CHECK(decode_states(torn) == StoreState{6, 11});
    torn[at] ^= std::byte{0x80};
    CHECK_FALSE(decode_states(torn));
  }
  file.pop_back();
  CHECK_FALSE(decode_states(file));
}

TEST_CASE("states are noted in place, and read back") {
  const TempFolder folder;
  const OwnedFd directory = open_directory(folder.path()).value();
  CHECK(read_state(directory.get()) == StoreState{});
  for (std::uint64_t generation = 1; generation < 6; ++generation) {
    const StoreState state{generation, generation * 77};
    REQUIRE(write_state(directory.get(), state));
    CHECK(read_state(directory.get()) == state);
    CHECK(std::filesystem::file_size(folder.path() + "/state") == kStateFileBytes);
  }
  // A write that was torn leaves the state before.
  const StateSlot slot = encode_state({6, 1});
  {
    std::fstream file(folder.path() + "/state", std::ios::in | std::ios::out | std::ios::binary);
    file.write(reinterpret_cast<const char*>(slot.data()), 17);
  }
  CHECK(read_state(directory.get()) == StoreState{5, 385});
  std::filesystem::resize_file(folder.path() + "/state", 100);
  CHECK(read_state(directory.get()) == StoreState{});
}

}  // namespace
}  // namespace weft::ds
