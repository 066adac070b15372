// How reads of a file with several copies are shared among them: each copy of a stripe gets of it
// what its data server has to spare.
//
// The rule is another than that for writing (layout/member_choice.h), where one copy has to lead:
//
//   network   what is left of it
//   disk      only for the part of the file that cannot be in the server's memory: with m of its
//             bytes missing there, the disk gives 1/m of what is left of it
//   CPUs      while all are busy, the server gives readers what it gives its clients now, no more
//
// What a server's own clients move does not count as used, since readers would take it along to
// where they are sent: counted, two copies that are read from alike would look the worse the more
// they are read, and readers would go to and fro. So what counts is the use by others: other
// programs, a backup, data servers that make copies equal. A data server that says what others use
// of its disk is believed. Of one that does not it is what its clients did not move, so that use by
// others is not seen up to what clients read out of memory.
//
// What is not measured limits nothing. Spares are rounded to eighths of the best, so that noise
// makes neither another layout nor another device.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "layout/layout_map.h"
#include "layout/layout_servers.h"
#include "layout/load.h"
#include "rpc/base/error.h"

namespace weft::layout {

struct ReaderView {
  ServerLoad load;
  std::uint64_t served = 0;  // of what is used: bytes a second that its own clients moved
};

// null when it cannot be used. What it points to lives until the call it was passed to returns.
using ReaderViewOf = std::function<const ReaderView*(std::uint32_t ds_id)>;

// Bytes a second that all readers together can expect; infinity when nothing is measured. `part`:
// how many of the file's bytes the server has.
[[nodiscard]] double spare_for_reading(const ReaderView& view, std::uint64_t part);

// Of one stripe, relative to the best: 0 for what is not to be read, 1/8 to 1 for the others. Among
// those that are eligible there is one with 1; if none has anything to spare, all have.
// `spares`: bytes a second; negative: not eligible.
[[nodiscard]] std::vector<double> rounded_spares(std::span<const double> spares);

// [stripe][copy], rounded. Copies that are current and whose servers can be used are eligible.
// kLayoutUnavailable: a stripe has none.
using Spares = std::vector<std::vector<double>>;
[[nodiscard]] Result<Spares> spares_of(const LayoutMap& map, const ReaderViewOf& view_of,
                                       std::uint64_t file_bytes);

// For each stripe the copies that successive units of it are read from, in turn; as many for each
// stripe.
using ReadTurns = std::vector<std::vector<std::uint8_t>>;

// The turns with which one who reads all of the file is served soonest: at most kMostTurns, and no
// more than that the list of servers has at most `max_servers`, if every stripe has one. More turns
// are taken only for a clear gain.
inline constexpr std::size_t kMostTurns = 8;
[[nodiscard]] ReadTurns share_reads(const Spares& spares, std::size_t max_servers);

// One copy of each stripe: the first that is as good as the best, or nearly.
[[nodiscard]] ReadTurns best_of_each(const Spares& spares);

// The list of a files layout. Precondition: the turns are of this map.
[[nodiscard]] LayoutServers servers_in_turn(const LayoutMap& map, const ReadTurns& turns);

// [stripe][copy]: the part of a stripe that is read from the copy; of a stripe they add up to 1.
using ReadParts = std::vector<std::vector<double>>;
[[nodiscard]] ReadParts parts_of(const ReadTurns& turns, std::size_t copies);

// The parts when each client reads from one copy alone (flexible files), of those that have at
// least half of what the best has to spare: for fewer it would be served worse than need be.
[[nodiscard]] std::vector<double> parts_among_clients(std::span<const double> spares);

// What is read at these parts, of what all copies together have to spare: 0 to 1. 0 as well when
// the parts are of another map.
[[nodiscard]] double use_of(const ReadParts& parts, const Spares& spares);

}  // namespace weft::layout
