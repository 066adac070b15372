// Which files a client opens next, guessed from those it has opened: the metadata server sees the
// OPENs, a round trip before the READs come to data servers.
//
// A client that opens several files of a directory one after another is a stream. It goes by one of
// the orders that the directory itself has (FileOrder), as `tar`, `cp -r` or a program with
// numbered files do, or by one of its own, which is learnt: of each file the last four are
// remembered that the same client opened next, and one that is twice among them is expected again
// (Recent Popularity, as SuccessorGraph at data servers has it for strips). When it comes, two
// files are named ahead, and twice as many each time, up to 16; when it does not, none, until one
// comes that was expected.
//
// A stream that met what an order says twice in a row is sure of it. Then four files are named
// ahead, and twice as many each time, up to kMostAhead. What is between (small files whose bytes
// are inline, other clients' files) may be passed over: kPassedOver entries are no break. A
// stream that meets nothing expected is asked about less and less often, so that one who opens
// files at random costs little.
//
// Memory: bounded (RecentMap). Threading: one thread.
//
// Invariant: a stream names a file once, as long as it goes on in its order.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ganesha-fsal/files/recent_map.h"
#include "ganesha-fsal/meta/following.h"
#include "ganesha-fsal/meta/schema/types.h"

namespace weft::mds {

class OpenOrder {
 public:
  static constexpr std::size_t kMostAhead = 64;
  static constexpr std::size_t kPassedOver = 8;

  struct Opened {
    ClientId client = 0;
    FileId dir = 0;
    std::string name;
    FileId file = 0;
  };
  // As files_after(); nothing where that fails.
  using After = std::function<std::vector<NamedFile>(FileId dir, std::string_view name,
                                                     FileOrder order, std::size_t limit)>;
  explicit OpenOrder(After after) : after_(std::move(after)) {}

  // The files that are expected now and were not before, the next first.
  [[nodiscard]] std::vector<FileId> observe(const Opened& opened);

 private:
  static constexpr std::size_t kStreams = 1024;   // with at most 130 names each
  static constexpr std::size_t kLearnt = 65'536;  // files; about 100 bytes each
  static constexpr unsigned kSure = 2;
  static constexpr unsigned kMostMisses = 4;  // then 14 opens pass until the next look
  static constexpr unsigned kChainBits = 4;   // up to 2^4 files ahead, of what is learnt
  static constexpr std::array kOrders{FileOrder::kListing, FileOrder::kNames, FileOrder::kNumbers};

  // Of one order, what comes next.
  struct Guess {
    std::deque<NamedFile> ahead;
    std::size_t named = 0;  // of them, from the first on
    unsigned hits = 0;      // in a row
  };
  struct StreamKey {
    ClientId client = 0;
    FileId dir = 0;
    friend bool operator==(const StreamKey&, const StreamKey&) = default;
  };
  struct StreamHash {
    std::size_t operator()(const StreamKey& key) const noexcept {
      return std::hash<std::uint64_t>{}(key.client * 0x9E3779B97F4A7C15ULL ^ key.dir);
    }
  };
  struct Stream {
    FileId last = 0;
    std::array<Guess, kOrders.size()> guesses;
    std::optional<std::size_t> sure;  // the guess that is right
    unsigned misses = 0;              // in a row, up to kMostMisses: looks that met nothing
    unsigned rest = 0;                // opens until the next look
    std::deque<FileId> expected;      // by what is learnt; named, but for the first one
    unsigned met = 0;                 // of these, in a row, up to kChainBits
  };
  struct Successors {
    std::array<FileId, 4> last{};
    std::uint8_t at = 0;  // where the next goes
    // The one that is at least twice among them; 0: none.
    [[nodiscard]] FileId usual() const;
  };

  [[nodiscard]] static bool meets(Guess& guess, FileId file);
  [[nodiscard]] std::vector<FileId> by_directory(Stream& stream, const Opened& opened);
  [[nodiscard]] std::vector<FileId> go_on(Guess& guess, FileOrder order, const Opened& opened);
  [[nodiscard]] std::vector<FileId> by_what_is_learnt(Stream& stream, FileId file);

  const After after_;
  RecentMap<StreamKey, Stream, StreamHash> streams_{kStreams};
  RecentMap<FileId, Successors> successors_{kLearnt};
};

}  // namespace weft::mds
