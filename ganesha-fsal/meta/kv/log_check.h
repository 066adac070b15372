// Whether RocksDB's log has lost anything that was stable.
//
// A power failure leaves a log that ends in half a record, and RocksDB reads it up to there. It
// would do the same at a record in the middle that a disk has damaged, and what was acknowledged
// after it would be gone. So each commit carries, as log data that RocksDB passes over, up to which
// of its sequence numbers the log was stable when the commit was made. A record that is lost,
// although a later one says that it was stable, is damage.
//
// The format is RocksDB's: blocks of 32 KiB, in them records of a header (masked CRC-32C of type
// and bytes, length, type) and bytes, a batch in one record or in several; a batch begins with its
// sequence number and its count. Numbers follow each other, in a log and from one to the next.
// Where zeros are, what was written has ended, or has not reached the disk: RocksDB passes over
// them, so they break a log that goes on behind them.
//
// Behind a break in a block a record may begin anywhere, also in bytes that a client has stored. So
// a mark has a salt, too, which no client knows: a record that was looked for is believed only if
// its salt is that of the last record before the break, if there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpc/base/error.h"

namespace weft::mds {

using LogSequence = std::uint64_t;

// What commit() adds to a batch, before all else: everything up to `stable` is. The salt is one of
// the process's own, by chance.
[[nodiscard]] std::string log_mark(LogSequence stable, std::uint64_t salt);

// Reads the logs of a store that RocksDB would read, in order. Not for several threads.
class LogReader {
 public:
  static constexpr std::size_t kBlock = 32768;

  // The next block of a log; shorter than kBlock only if it is the log's last.
  void read(std::span<const std::byte> block);
  // The log ends here, and the next block is of another. Returns how many of its bytes, from its
  // begin, are whole and have nothing before them that is not.
  [[nodiscard]] std::uint64_t end();

  // A record was met, in this log or an earlier one, that is not whole.
  [[nodiscard]] bool broken() const { return broken_; }
  // And it was stable.
  [[nodiscard]] bool damaged() const { return damaged_; }

 private:
  void take(unsigned type, std::span<const std::byte> bytes, std::uint64_t end);
  void batch(std::uint64_t end);
  void lost();

  // Of the log that is being read.
  std::uint64_t at_ = 0;     // where the block is
  std::uint64_t whole_ = 0;  // what end() will say
  bool zeros_ = false;       // what was read last, where a record could be
  bool in_batch_ = false;    // pieces of one have been read, and not the last
  bool framed_ = true;       // from the begin of the block up to here each record follows another
  bool head_framed_ = true;  // so it was where the batch began
  // Of all.
  std::vector<std::byte> head_;             // the first bytes of the batch
  std::optional<LogSequence> next_;         // of the batch after the last whole one
  std::optional<std::uint64_t> salt_;       // of the last whole one that has one
  std::optional<LogSequence> after_break_;  // of the first whole one after the break
  bool broken_ = false;
  bool damaged_ = false;
};

// The number of a log, as RocksDB names it. nullopt: no log.
[[nodiscard]] std::optional<std::uint64_t> log_number(const std::string& path);

// Looks through the logs in `folder` from number `first` on. Returns which of them end before the
// end of the file, and where: the log with the break, and all later ones, of which nothing was
// acknowledged. With `repair` they have been cut there. kCorrupt: damage. kIo.
using LogEnds = std::map<std::uint64_t, std::uint64_t>;  // by number
[[nodiscard]] Result<LogEnds> check_logs(const std::string& folder, std::uint64_t first,
                                         bool repair);

}  // namespace weft::mds
