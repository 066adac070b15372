// Which files may be being written under layouts, so that a crash of this server together with a
// client leaves no file shorter than its data: the journal's writers records
// (meta/schema/journal.h), and what is in memory of them.
//
//   begin    Before the first layout for writing is handed out the record is made, durably. A
//            second begin() finds it in memory and costs nothing.
//   sweep    Some time after nobody holds such a layout any more, records go, many in one
//            transaction that nobody waits for. So a file that is opened again and again, and one
//            that is made, written and closed, cost one record and a share of a sweep.
//   ensure   The file's size is in doubt, perhaps long after its last layout came back: a record is
//            made as begin() makes one, and stays until the size is learned.
//   doubt    A holder was fenced: what it wrote last it has told nobody. The record stays until
//            settled().
//   inherit  A record of an earlier run stands for holders that nobody remembers. It stays until
//            they are fenced by the object's epoch and the data servers have been asked how far the
//            file goes: settled() again. begin() takes it over, with an epoch above theirs.
//
// What is in memory of it is a part of the file's record (file_state.h).
//
// Threading: any thread. begin() and sweep() wait for the metadata store.
//
// Invariants:
//  1. While a layout for writing is out, or its holder is being fenced, the record is durable.
//  2. A record whose file is in doubt, for its size or its copies, or inherited is never swept.
//  3. This run makes no further record while there are Parts::most.
#pragma once

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "ganesha-fsal/files/layout_maps.h"
#include "ganesha-fsal/meta/ops/namespace.h"

namespace weft::mds {

class WriterJournal {
 public:
  struct Parts {
    FileTable& files;
    Namespace& names;
    Clock::duration linger = std::chrono::seconds(5);  // of a record that nobody needs
    Clock::duration retry = std::chrono::seconds(5);   // after settling failed
    std::size_t most = std::size_t{1} << 20;           // records
  };

  explicit WriterJournal(Parts parts) : parts_(std::move(parts)) {}
  WriterJournal(const WriterJournal&) = delete;
  WriterJournal& operator=(const WriterJournal&) = delete;

  // Reads the records of earlier runs. Returns how many.
  [[nodiscard]] Result<std::size_t> open();

  // While it lives, the file's record stays: a layout is about to be handed out.
  class Pin {
   public:
    Pin() = default;
    Pin(WriterJournal& journal, FileId file) : journal_(&journal), file_(file) {}
    Pin(Pin&& other) noexcept
        : journal_(std::exchange(other.journal_, nullptr)), file_(other.file_) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (journal_ != nullptr) journal_->unpin(file_);
    }

   private:
    WriterJournal* journal_ = nullptr;
    FileId file_ = 0;
  };
  struct Begun {
    layout::LayoutMap map;
    Pin pin;
  };
  // Namespace::begin_writing(), unless that was done before. kBusy: there are too many records, or
  // the store takes long to end this one.
  [[nodiscard]] Result<Begun> begin(FileId file, const Namespace::MakeLayout& make);

  // A record of the file is durable, of this run or of an earlier one; there is none of a file
  // without a layout map. It stays as long as the size is in doubt. Errors as of begin().
  [[nodiscard]] Result<> ensure(FileId file);

  // False of a file without record: no layout for writing was out.
  bool doubt(FileId file);

  [[nodiscard]] bool inherited(FileId file) const;
  // What is to be settled before the record may go.
  struct Unsettled {
    FileId file = 0;
    bool inherited = false;     // holders are to be fenced first
    std::uint64_t doubted = 0;  // for settled()
  };
  [[nodiscard]] std::optional<Unsettled> unsettled(FileId file) const;
  // Those that are due, at most `limit`; inherited ones only if so asked.
  [[nodiscard]] std::vector<Unsettled> due(bool inherited_too, std::size_t limit) const;
  // Done; unless it was doubted again since `what` was asked for.
  void settled(const Unsettled& what);
  void not_settled(FileId file);  // to be tried again, not at once
  // Its doubt, or a new one if it is none: until that is settled the file is in doubt.
  [[nodiscard]] std::uint64_t doubted(const Unsettled& what);
  // The file's copies are about to be asked to be compared for that doubt, unless they have been
  // for an earlier one.
  void compares(const Unsettled& what);
  // They have been compared. False: for an earlier doubt, so that they are to be once more.
  [[nodiscard]] bool compared(const Unsettled& what);
  // Those that failed are due now: a data server is back.
  void retry_all();

  // Ends the records that nobody needs. Call about once a second.
  void sweep();

  // Records that are, or may be, in the store.
  [[nodiscard]] std::size_t size() const { return recorded_; }

 private:
  void unpin(FileId file);

  const Parts parts_;
  std::atomic<std::size_t> recorded_{0};
};

}  // namespace weft::mds
