#include "ganesha-fsal/files/size_asks.h"

#include "ganesha-fsal/cluster/wait_limit.h"
#include "ganesha-fsal/files/file_table.h"

namespace weft::mds {

Result<ObjectsEnd> SizeAsks::answer(FileId file, std::uint64_t doubt,
                                    std::chrono::milliseconds patience, const Ask& ask) {
  const auto unanswered = [] {
    return fail(Errc::kBusy, "the data servers have not said yet how far the file goes");
  };
  bool fresh = false;
  {
    const FileTable::Changing record(files_, file);
    auto& asked = record->size.asked;
    if (asked && asked->waited_for) return unanswered();
    if (asked && asked->answer && asked->doubt != doubt) asked.reset();
    fresh = !asked;
    if (fresh) {
      if (unanswered_->fetch_add(1) >= kMostAsked) {
        --*unanswered_;
        return unanswered();
      }
      asked.emplace(SizeState::Question{.doubt = doubt, .answer = {}, .waited_for = false});
    }
    asked->waited_for = true;  // until we look, nobody takes it away
  }
  if (fresh) {
    ask([&files = files_, file, count = unanswered_](Result<ObjectsEnd> end) {
      --*count;
      const FileTable::Changing record(files, file);
      record->size.asked->answer.emplace(std::move(end));  // stays until somebody takes it
    });
  }
  FileTable::Changing record(files_, file);
  // The answer to a question of before the newest doubt is dropped when it has come.
  if (record->size.asked->doubt == doubt && patience.count() > 0 && WaitLimit::may_wait()) {
    static_cast<void>(record.wait_for(
        patience, [](const FileState& state) { return state.size.asked->answer.has_value(); }));
  }
  auto& asked = record->size.asked;
  asked->waited_for = false;
  if (!asked->answer || asked->doubt != doubt) return unanswered();
  Result<ObjectsEnd> answer = std::move(*asked->answer);
  asked.reset();
  return answer;
}

Result<> SizeAsks::forget(FileId file) {
  const FileTable::Changing record(files_, file);
  auto& asked = record->size.asked;
  if (!asked) return {};
  if (!asked->answer || asked->waited_for) {
    return fail(Errc::kBusy, "the file's size is being learned");
  }
  asked.reset();
  return {};
}

}  // namespace weft::mds
