// Files with several copies that were written through this server, unstable, and not committed
// since: a part of a file's record (file_state.h).
//
// What was not committed a data server may lose in a crash, at one copy and not at another. A
// client that commits is told by the write verifier, and writes it again; but a client need never
// commit, or may be gone by then. So this server commits such files itself after a while, and if a
// COMMIT says that something may be lost, whoever made it, the file's copies are to be compared.
#pragma once

#include <cstdint>
#include <vector>

#include "ganesha-fsal/files/grants.h"

namespace weft::mds {

class FileTable;

struct UnstableWrites {
  std::uint64_t verifier = 0;   // that the first was answered with
  std::uint64_t last = 0;       // number of the last (FileTable::number()); 0: all is committed
  Clock::time_point at;         // of the last
  Clock::time_point commit_at;  // when this server is to look at it

  [[nodiscard]] bool idle() const { return last == 0; }

  // A write is about to be answered with this verifier.
  void written(std::uint64_t with_verifier, std::uint64_t number, Clock::time_point now,
               Clock::duration commit_after);
  // A COMMIT of all up to `upto` was answered, with this verifier. True: that may be lost in part.
  [[nodiscard]] bool committed(std::uint64_t upto, std::uint64_t with_verifier);
};

// Files not written since `commit_after` ago, at most `limit`. They come again after that time.
[[nodiscard]] std::vector<FileId> take_uncommitted(FileTable& files, Clock::time_point now,
                                                   Clock::duration commit_after, std::size_t limit);

}  // namespace weft::mds
