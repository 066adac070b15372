// How far a file goes, where that is not simply what the namespace says: a part of its record
// (file_state.h), and the questions for it.
//
// Data servers are asked without holding a thread for as long as they take: a question stays asked
// when nobody waits for its answer, and the answer is there for who comes next. There is one
// question for a file at a time.
//
// Answers are about a doubt (FileData::doubt_size): an answer to a question of before the newest
// doubt is of no use, and dropped.
//
// Threading: any thread. A question's completion may come on a thread of the cluster; the FileTable
// outlives it.
//
// Invariants:
//  1. One thread at most waits for a file's answer.
//  2. At most kMostAsked questions are asked and not answered.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/error.h"

namespace weft::mds {

class FileTable;

// As a file's objects show it.
struct ObjectsEnd {
  std::uint64_t size = 0;
  bool complete = true;  // all stripes have been asked
};

struct SizeState {
  struct Question {
    std::uint64_t doubt = 0;
    std::optional<Result<ObjectsEnd>> answer;
    bool waited_for = false;
  };

  // Number of the newest doubt of it (FileTable::number()), 0: none. An answer of the data servers
  // ends the doubt that it was asked for.
  std::uint64_t doubt = 0;
  bool guessed = false;            // while in doubt: answered with what is known
  bool cut_under_layouts = false;  // while layouts to write were out, and they still are
  std::optional<Question> asked;   // and nobody has taken its answer

  [[nodiscard]] bool idle() const { return doubt == 0 && !cut_under_layouts && !asked; }
};

class SizeAsks {
 public:
  using Answered = std::move_only_function<void(Result<ObjectsEnd>)>;
  // Asks the data servers; its completion is called once.
  using Ask = std::function<void(Answered)>;
  static constexpr std::size_t kMostAsked = 1024;

  explicit SizeAsks(FileTable& files) : files_(files) {}
  SizeAsks(const SizeAsks&) = delete;
  SizeAsks& operator=(const SizeAsks&) = delete;

  // The answer, once: if there is one, or one comes within `patience`. Asks if nobody has. kBusy:
  // asked, not yet answered.
  [[nodiscard]] Result<ObjectsEnd> answer(FileId file, std::uint64_t doubt,
                                          std::chrono::milliseconds patience, const Ask& ask);
  // The file is about to be cut: an answer that nobody has taken is of no use any more. kBusy while
  // a question is not answered.
  [[nodiscard]] Result<> forget(FileId file);

 private:
  FileTable& files_;
  // Asked and not answered. Shared with what is under way.
  const std::shared_ptr<std::atomic<std::size_t>> unanswered_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace weft::mds
