// The state a store is in, <store>/state; and the metadata server that it follows, <store>/mds.
//
//   two slots of 512 bytes; that of a state is its generation modulo 2; each
//   u32 0x57465354 | u32 version (1) | u64 generation (1 or more) | u64 boot |
//   u64 XXH64 of the 24 bytes before it | zeros
//
// Big-endian. The whole slot with the greater generation counts. A state is written in place, into
// the slot of the one before the last, so a torn write leaves the last one; and it needs no room,
// so that a full disk does not keep a data server from registering.
//
// Of a metadata server the generation is its boot epoch, and the boot what it calls its run. When
// epochs were passed over, its slot may be that of the last: torn, it leaves the one before that.
//
// What they are for: docs/protocol.md, "A store's history" and "One metadata server".
//
// Threading: pure functions; read_state() and write_state() block.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "rpc/base/error.h"
#include "rpc/control/messages.h"

namespace weft::ds {

using rpc::control::StoreState;

constexpr std::size_t kStateSlotBytes = 512;
constexpr std::size_t kStateFileBytes = 2 * kStateSlotBytes;

using StateSlot = std::array<std::byte, kStateSlotBytes>;

[[nodiscard]] StateSlot encode_state(const StoreState& state);
// nullopt: neither slot is whole.
[[nodiscard]] std::optional<StoreState> decode_states(std::span<const std::byte> file);

constexpr const char* kStateFile = "state";
constexpr const char* kMdsFile = "mds";

// Of the store in `directory`. None (generation 0) when there is no such file; and, with an error
// in the log, when it is damaged: the metadata server then does not know the store's state.
[[nodiscard]] Result<StoreState> read_state(int directory, const char* name = kStateFile);
// Durable on success. kNoSpace, with what to do, when the file is still to be made.
[[nodiscard]] Result<> write_state(int directory, const StoreState& state,
                                   const char* name = kStateFile);

}  // namespace weft::ds
