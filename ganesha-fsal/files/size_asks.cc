#include "ganesha-fsal/files/size_asks.h"

#include <map>
#include <optional>

#include "ganesha-fsal/cluster/wait_limit.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

struct SizeAsks::Book {
  struct Entry {
    std::uint64_t doubt = 0;
    std::optional<Result<Stat>> answer;
    bool waited_for = false;
  };
  Mutex mutex;
  CondVar answered;
  std::map<FileId, Entry> entries WEFT_GUARDED_BY(mutex);
  std::size_t asked WEFT_GUARDED_BY(mutex) = 0;  // and not answered

  void take_in(FileId file, Result<Stat> answer) {
    const MutexLock lock(mutex);
    --asked;
    entries.at(file).answer.emplace(std::move(answer));  // stays until somebody takes it
    answered.notify_all();
  }
};

SizeAsks::SizeAsks() : book_(std::make_shared<Book>()) {}
SizeAsks::~SizeAsks() = default;

Result<SizeAsks::Stat> SizeAsks::answer(FileId file, std::uint64_t doubt,
                                        std::chrono::milliseconds patience, const Ask& ask) {
  const auto unanswered = [] {
    return fail(Errc::kBusy, "the data servers have not said yet how far the file goes");
  };
  MutexLock lock(book_->mutex);
  auto at = book_->entries.find(file);
  if (at != book_->entries.end() && at->second.waited_for) return unanswered();
  if (at != book_->entries.end() && at->second.answer && at->second.doubt != doubt) {
    book_->entries.erase(at);
    at = book_->entries.end();
  }
  if (at == book_->entries.end()) {
    if (book_->asked >= kMostAsked) return unanswered();
    at = book_->entries.emplace(file, Book::Entry{.doubt = doubt}).first;
    at->second.waited_for = true;  // until we look, nobody takes it away
    ++book_->asked;
    lock.unlock();
    ask([book = book_, file](Result<Stat> stat) { book->take_in(file, std::move(stat)); });
    lock.lock();
  }
  Book::Entry& entry = at->second;
  entry.waited_for = true;
  // The answer to a question of before the newest doubt is dropped when it has come.
  if (!entry.answer && entry.doubt == doubt && patience.count() > 0 && WaitLimit::may_wait()) {
    book_->answered.wait_for(book_->mutex, patience, [&] { return entry.answer.has_value(); });
  }
  entry.waited_for = false;
  if (!entry.answer || entry.doubt != doubt) return unanswered();
  Result<Stat> answer = std::move(*entry.answer);
  book_->entries.erase(at);
  return answer;
}

Result<> SizeAsks::forget(FileId file) {
  const MutexLock lock(book_->mutex);
  const auto at = book_->entries.find(file);
  if (at == book_->entries.end()) return {};
  if (!at->second.answer || at->second.waited_for) {
    return fail(Errc::kBusy, "the file's size is being learned");
  }
  book_->entries.erase(at);
  return {};
}

}  // namespace weft::mds
