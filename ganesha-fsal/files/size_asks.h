// Asking data servers how far files go, without holding a thread for as long as they take: a
// question stays asked when nobody waits for its answer, and the answer is there for who comes
// next. There is one question for a file at a time.
//
// Answers are about a doubt (FileData::doubt_size): an answer to a question of before the newest
// doubt is of no use, and dropped.
//
// Threading: any thread. A question's completion may come on a thread of the cluster, also when the
// SizeAsks is gone.
//
// Invariants:
//  1. One thread at most waits for a file's answer.
//  2. At most kMostAsked questions are asked and not answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/error.h"

namespace weft::mds {

class SizeAsks {
 public:
  using Stat = Cluster::ObjectsStat;
  // Asks the data servers; its completion is called once.
  using Ask = std::function<void(Done<Stat>)>;
  static constexpr std::size_t kMostAsked = 1024;

  SizeAsks();
  SizeAsks(const SizeAsks&) = delete;
  SizeAsks& operator=(const SizeAsks&) = delete;
  ~SizeAsks();

  // The answer, once: if there is one, or one comes within `patience`. Asks if nobody has. kBusy:
  // asked, not yet answered.
  [[nodiscard]] Result<Stat> answer(FileId file, std::uint64_t doubt,
                                    std::chrono::milliseconds patience, const Ask& ask);
  // The file is about to be cut: an answer that nobody has taken is of no use any more. kBusy while
  // a question is not answered.
  [[nodiscard]] Result<> forget(FileId file);

 private:
  struct Book;
  const std::shared_ptr<Book> book_;  // what is under way has it too
};

}  // namespace weft::mds
