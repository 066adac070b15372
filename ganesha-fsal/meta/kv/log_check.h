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
// sequence number and its count. In a log numbers follow each other. Where zeros are, what was
// written has ended, or has not reached the disk: RocksDB passes over them, so they break a log
// that goes on behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpc/base/error.h"

namespace weft::mds {

using LogSequence = std::uint64_t;

// What commit() adds to a batch, before all else: everything up to `stable` is.
[[nodiscard]] std::string log_mark(LogSequence stable);

// Reads the logs of a store, in order. Not for several threads.
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
  bool first_ = true;        // no batch has been read
  // Of all.
  std::vector<std::byte> head_;             // the first bytes of the batch
  std::optional<LogSequence> next_;         // of the batch after the last whole one
  std::optional<LogSequence> after_break_;  // of the first whole one after the break
  bool broken_ = false;
  bool damaged_ = false;
};

// Looks through the logs of the store in `folder`, and with `repair` cuts what is not whole off
// them: the end of the log with the break, and all later ones, of which nothing was acknowledged.
// kCorrupt: damage. kIo.
[[nodiscard]] Result<> check_logs(const std::string& folder, bool repair);

}  // namespace weft::mds
