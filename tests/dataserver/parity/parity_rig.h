// A parity group over members and a log in memory, whose power can be cut at any write.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dataserver/parity/parity_store.h"
#include "dataserver/store/object_files.h"
#include "tests/dataserver/store/store_calls.h"

namespace weft::test {

using namespace std::chrono_literals;

inline layout::ObjectId object_of(std::uint64_t id) { return {.fileid = id, .generation = 1}; }

// Bytes that are known, others for each seed.
inline std::string pattern(std::size_t size, std::uint64_t seed = 1) {
  std::string bytes(size, '\0');
  SeededRandom random(seed);
  random.fill(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Counts writes to everything there is, and cuts the power at one of them.
struct Power {
  explicit Power(std::uint64_t seed) : random(seed) {}
  // Whether a write is to be carried out; the one at which the power goes may be, or not.
  bool take() {
    if (!on) return false;
    ++writes;
    if (cut_after == 0 || --cut_after > 0) return true;
    on = false;
    return random.below(2) == 0;
  }
  SeededRandom random;
  bool on = true;
  std::uint64_t writes = 0;
  std::uint64_t cut_after = 0;  // 0: never
};

class MemoryMember final : public ds::Store {
 public:
  MemoryMember(Power& power, BufferPool& pool) : power_(power), pool_(pool) {}

  bool unreachable = false;   // what it tells of itself is that
  bool failing = false;       // answers nothing any more: everything is late
  bool disk_fails = false;    // answers kIo to everything
  bool late = false;          // tells of a timeout, and writes and cuts when carry_out_late() says
  bool silent = false;        // does not answer a stat, until speak()
  std::uint64_t busy = 0;     // so many calls, from the next on, are told kBusy
  unsigned turns = 1;         // of the ring, until it answers
  std::uint64_t fail_in = 0;  // begins after so many writes, if not 0
  std::uint64_t capacity = std::uint64_t{1} << 40;
  std::uint64_t others = 0;  // bytes that are not the group's
  Errc full_as = Errc::kNoSpace;
  std::uint64_t longest = std::uint64_t{1} << 61;  // object of its file system
  // What usage() says is free; otherwise what is.
  std::optional<std::uint64_t> told_free;
  std::uint64_t reads = 0;
  std::uint64_t truncates = 0;
  std::uint64_t stats = 0;
  std::uint64_t written_bytes = 0;
  // Where its disk cannot read, until it is written: an object's byte.
  std::map<layout::ObjectId, std::set<std::uint64_t>> unreadable;

  struct Change {
    std::uint64_t offset;
    std::string bytes;
  };
  struct File {
    std::string now;
    std::string durable;
    std::vector<Change> unsynced;
    std::set<std::uint64_t> blocks;  // of 4096 bytes, that take room
  };
  std::map<layout::ObjectId, File> files;

  // As after a crash of its process or machine: any part of what is unsynced is lost.
  void crash() {
    for (auto& [object, file] : files) {
      for (const Change& change : file.unsynced) {
        for (std::size_t at = 0; at < change.bytes.size(); at += 1024) {
          if (power_.random.below(2) == 0) continue;
          put(file.durable, change.offset + at, change.bytes.substr(at, 1024));
        }
      }
      file.unsynced.clear();
      file.now = file.durable;
      file.blocks.erase(file.blocks.lower_bound((file.now.size() + 4095) / 4096),
                        file.blocks.end());
    }
    ++verifier_;
  }
  [[nodiscard]] std::uint64_t used() const {
    std::uint64_t blocks = 0;
    for (const auto& [object, file] : files) blocks += file.blocks.size();
    return others + blocks * 4096;
  }

  using Store::read;
  using Store::write;
  void read(ds::StoreRead what, Done<ds::ReadResult> done) override {
    ++reads;
    done = into_room(std::move(what.room), std::move(done));
    const auto [object, offset, count] = std::tuple(what.object, what.offset, what.count);
    if (!alive()) return refuse(std::move(done));
    const auto found = files.find(object);
    if (found == files.end()) return answer(std::move(done), fail(Errc::kNotFound));
    const auto& spots = unreadable[object];
    const auto spot = spots.lower_bound(offset);
    if (spot != spots.end() && *spot < offset + count) return refuse(std::move(done));
    ds::ReadResult result;
    const std::string& now = found->second.now;
    result.object_end = now.size();
    if (offset < now.size()) {
      const std::size_t size = std::min<std::size_t>(count, now.size() - offset);
      auto buffer = pool_.allocate(size);
      if (!buffer) return answer(std::move(done), fail(Errc::kBusy, "no memory"));
      std::copy_n(reinterpret_cast<const std::byte*>(now.data()) + offset, size, buffer->data());
      result.payload.append(std::move(*buffer));
    }
    answer(std::move(done), std::move(result));
  }
  void write(ds::StoreWrite what, Done<ds::WriteResult> done) override {
    if (!writable()) return refuse(std::move(done));
    what.to_memory().value();
    const auto [object, offset, wanted] = std::tuple(what.object, what.offset, what.wanted);
    std::string bytes;
    for (const Buffer& piece : what.data) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    if (late) {
      return postpone(std::move(done), object,
                      [offset, bytes](File& file) { put(file.now, offset, bytes); });
    }
    const bool too_long = offset + bytes.size() > longest;
    if (too_long) bytes.resize(longest - std::min(offset, longest));
    const bool full = !take_room(object, offset, bytes.size());
    if (full) bytes.resize(first_without_room(object, offset, bytes.size()) - offset);
    written_bytes += bytes.size();
    std::erase_if(unreadable[object], [&](std::uint64_t spot) {
      return spot >= offset && spot < offset + bytes.size();
    });
    File& file = files[object];
    put(file.now, offset, bytes);
    if (wanted == ds::Stability::kUnstable || !power_.on) {
      file.unsynced.push_back({offset, bytes});
    } else {
      for (const Change& change : file.unsynced) put(file.durable, change.offset, change.bytes);
      file.unsynced.clear();
      put(file.durable, offset, bytes);
    }
    if (!power_.on) return refuse(std::move(done));
    if (full) return answer(std::move(done), fail(full_as, "injected"));
    if (too_long) return answer(std::move(done), fail(Errc::kFileTooLarge, "injected"));
    answer(std::move(done), ds::WriteResult{.bytes = bytes.size(),
                                            .stability = wanted,
                                            .verifier = verifier_,
                                            .object_end = file.now.size()});
  }
  void commit(const layout::ObjectId& object, Done<ds::WriteVerifier> done) override {
    if (!writable()) return refuse(std::move(done));
    if (const auto found = files.find(object); found != files.end()) settle(found->second);
    if (!power_.on) return refuse(std::move(done));
    answer(std::move(done), ds::WriteVerifier{verifier_});
  }
  void truncate(const layout::ObjectId& object, std::uint64_t size,
                Done<ds::ObjectStat> done) override {
    if (!writable()) return refuse(std::move(done));
    if (late) {
      return postpone(std::move(done), object, [size](File& file) { file.now.resize(size, '\0'); });
    }
    if (size == 0 && !files.contains(object)) return answer(std::move(done), ds::ObjectStat{});
    File& file = files[object];
    ++truncates;
    if (size <= longest) file.now.resize(size, '\0');
    file.blocks.erase(file.blocks.lower_bound((size + 4095) / 4096), file.blocks.end());
    settle(file);
    if (!power_.on) return refuse(std::move(done));
    answer(std::move(done), ds::ObjectStat{.size = std::min(size, file.now.size())});
  }
  void remove(const layout::ObjectId& object, Done<void> done) override {
    if (!writable()) return refuse(std::move(done));
    files.erase(object);
    if (!power_.on) return refuse(std::move(done));
    answer(std::move(done), Result<>{});
  }
  void stat(const layout::ObjectId& object, Done<ds::ObjectStat> done) override {
    ++stats;
    if (silent) return unanswered_.push_back(std::move(done));
    if (!alive()) return refuse(std::move(done));
    const auto found = files.find(object);
    if (found == files.end()) return answer(std::move(done), fail(Errc::kNotFound));
    answer(std::move(done), ds::ObjectStat{.size = found->second.now.size()});
  }
  void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override {
    if (!writable()) return refuse(std::move(done));
    if (offset + size > longest) {
      return answer(std::move(done), fail(Errc::kFileTooLarge, "injected"));
    }
    const bool full = !take_room(object, offset, size);
    File& file = files[object];
    const std::uint64_t end = full ? first_without_room(object, offset, size) : offset + size;
    if (file.now.size() < end) file.now.resize(end, '\0');
    settle(file);
    if (!power_.on) return refuse(std::move(done));
    if (full) return answer(std::move(done), fail(full_as, "injected"));
    answer(std::move(done), Result<>{});
  }
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override {
    if (!writable()) return refuse(std::move(done));
    if (const auto found = files.find(object); found != files.end()) {
      std::string& now = found->second.now;
      for (std::uint64_t at = offset; at < std::min<std::uint64_t>(now.size(), offset + size); ++at)
        now[at] = '\0';
      for (std::uint64_t block = (offset + 4095) / 4096; (block + 1) * 4096 <= offset + size;
           ++block) {
        found->second.blocks.erase(block);
      }
      settle(found->second);
    }
    if (!power_.on) return refuse(std::move(done));
    answer(std::move(done), Result<>{});
  }
  // Blocks that nobody wrote are holes, if it says where it has some; of checksums, those of zeros.
  bool tells_holes = true;
  void next_data(const layout::ObjectId& object, std::uint64_t offset,
                 Done<ds::DataRun> done) override {
    if (!alive()) return refuse(std::move(done));
    const auto found = files.find(object);
    if (found == files.end()) return answer(std::move(done), fail(Errc::kNotFound));
    ds::DataRun run{.begin = offset};
    if (tells_holes) {
      const std::string& now = found->second.now;
      const auto blocks = ds::is_sums(object) ? std::set<std::uint64_t>() : found->second.blocks;
      const auto written = blocks.lower_bound(offset / 4096);
      const std::size_t bytes =
          offset < now.size() ? now.find_first_not_of('\0', offset) : std::string::npos;
      run.begin =
          written == blocks.end() || *written * 4096 >= now.size() ? ds::kNoData : *written * 4096;
      if (bytes != std::string::npos) run.begin = std::min(run.begin, bytes / 4096 * 4096);
      if (run.begin != ds::kNoData) run.begin = std::max(run.begin, offset);
    }
    answer(std::move(done), run);
  }
  void list(ds::ListPlace from, std::uint32_t max, Done<ds::ObjectList> done) override {
    if (!alive()) return refuse(std::move(done));
    std::set<ds::ListPlace> places;
    for (const auto& [object, file] : files) places.insert({ds::object_folder(object), object});
    ds::ObjectList list;
    for (auto at = places.upper_bound(from); at != places.end(); ++at) {
      list.more = list.objects.size() == std::min(max, kPage);
      if (list.more) break;
      list.objects.push_back(at->after);
      list.next = *at;
    }
    answer(std::move(done), std::move(list));
  }
  // A new store in its place.
  void wipe() {
    files.clear();
    ++verifier_;
  }
  [[nodiscard]] bool is_asked() const { return !unanswered_.empty(); }
  void speak() {
    silent = false;
    for (auto& done : std::exchange(unanswered_, {})) refuse(std::move(done));
  }
  void carry_out_late() {
    for (const auto& call : std::exchange(late_calls_, {})) call();
  }
  [[nodiscard]] bool settled() const override { return late_calls_.empty(); }
  [[nodiscard]] ds::WriteVerifier verifier() const override { return verifier_; }
  [[nodiscard]] Result<ds::StoreStat> usage() const override {
    if (unreachable) return fail(Errc::kUnreachable, "it does not answer");
    return ds::StoreStat{.capacity_bytes = capacity,
                         .free_bytes = told_free.value_or(capacity - used()),
                         .objects = files.size()};
  }

 private:
  static constexpr std::uint32_t kPage = 5;
  // As far as there is some. False: not for all of it.
  bool take_room(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size) {
    std::set<std::uint64_t>& blocks = files[object].blocks;
    std::uint64_t free = (capacity - used()) / 4096;
    for (std::uint64_t block = offset / 4096; block * 4096 < offset + size; ++block) {
      if (blocks.contains(block)) continue;
      if (free-- == 0) return false;
      blocks.insert(block);
    }
    return true;
  }
  std::uint64_t first_without_room(const layout::ObjectId& object, std::uint64_t offset,
                                   std::uint64_t size) {
    std::uint64_t at = offset;
    while (at < offset + size && files[object].blocks.contains(at / 4096)) {
      at = (at / 4096 + 1) * 4096;
    }
    return std::min(at, offset + size);
  }
  static void put(std::string& into, std::uint64_t offset, const std::string& bytes) {
    if (into.size() < offset + bytes.size()) into.resize(offset + bytes.size(), '\0');
    std::ranges::copy(bytes, into.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  static void settle(File& file) {
    file.durable = file.now;
    file.unsynced.clear();
  }
  template <class T, class Change>
  void postpone(Done<T> done, const layout::ObjectId& object, Change change) {
    late_calls_.emplace_back([this, object, change = std::move(change)] {
      File& file = files[object];
      change(file);
      settle(file);
    });
    answer(std::move(done), fail(Errc::kTimedOut, "injected"));
  }
  [[nodiscard]] bool alive() {
    if (busy > 0 && !was_busy_) {
      --busy;
      was_busy_ = true;
    }
    return power_.on && !failing && !disk_fails && !was_busy_;
  }
  bool writable() {
    if (fail_in > 0 && --fail_in == 0) failing = true;
    return alive() && power_.take();
  }
  template <class T, class R>
  void answer(Done<T> done, R result) {
    in_turns(turns, [done = std::move(done), result = Result<T>(std::move(result))]() mutable {
      done(std::move(result));
    });
  }
  template <class Then>
  static void in_turns(unsigned turns, Then then) {
    ds::IoRing::current()->post([turns, then = std::move(then)]() mutable {
      if (turns > 1) return in_turns(turns - 1, std::move(then));
      then();
    });
  }
  template <class T>
  void refuse(Done<T> done) {
    Errc code = failing ? Errc::kTimedOut : Errc::kIo;
    if (std::exchange(was_busy_, false)) code = Errc::kBusy;
    answer(std::move(done), fail(power_.on ? code : Errc::kClosed, "injected"));
  }

  Power& power_;
  BufferPool& pool_;
  ds::WriteVerifier verifier_ = 1;
  bool was_busy_ = false;  // of the call that is being answered
  std::vector<std::function<void()>> late_calls_;
  std::vector<Done<ds::ObjectStat>> unanswered_;
};

// Of members that are new and empty.
struct Offers final : ds::Replacements {
  int member = -1;
  std::function<void(unsigned)> on_accept = [](unsigned) {};
  bool offered(unsigned which) override { return static_cast<int>(which) == member; }
  Result<> accept(unsigned which) override {
    on_accept(which);
    member = -1;
    return {};
  }
};

class MemoryDisk final : public ds::GroupDisk {
 public:
  explicit MemoryDisk(Power& power) : power_(power) {}
  Kept kept;
  std::uint64_t appends = 0;
  bool fail_appends = false;

  void load(Loaded done) override {
    ds::IoRing::current()->post(
        [done = std::move(done),
         kept = power_.on ? Result<Kept>(kept) : fail(Errc::kClosed)]() mutable {
          done(std::move(kept));
        });
  }
  void save_record(std::vector<std::byte> bytes, Done done) override {
    if (power_.take()) kept.record = std::move(bytes);
    answer(std::move(done));
  }
  void save_scrub(std::vector<std::byte> bytes, Done done) override {
    if (power_.on) kept.scrub = std::move(bytes);
    answer(std::move(done));
  }
  void replace_log(std::vector<std::byte> bytes, Done done) override {
    if (power_.take()) {
      kept.log = std::move(bytes);
      durable_ = kept.log.size();
    }
    answer(std::move(done));
  }
  // As after a crash of the machine: any part of what is unsynced at the log's end is lost.
  void crash() { kept.log.resize(durable_ + power_.random.below(kept.log.size() - durable_ + 1)); }
  void append(std::vector<std::byte> bytes, bool sync, Done done) override {
    ++appends;
    if (fail_appends) {
      return ds::IoRing::current()->post(
          [done = std::move(done)]() mutable { done(fail(Errc::kIo, "injected")); });
    }
    const bool was_on = power_.on;
    std::size_t size = power_.take() ? bytes.size() : 0;
    if (was_on && !power_.on) {  // torn, or whole and not synced
      size = power_.random.below(2) == 0 ? bytes.size() : power_.random.below(bytes.size());
    }
    kept.log.insert(kept.log.end(), bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(size));
    if (sync && power_.on) durable_ = kept.log.size();
    answer(std::move(done));
  }

 private:
  void answer(Done done) {
    ds::IoRing::current()->post([done = std::move(done), on = power_.on]() mutable {
      done(on ? Result<>{} : fail(Errc::kClosed));
    });
  }
  Power& power_;
  std::size_t durable_ = 0;  // of the log
};

class ParityRig : public StoreCalls {
 public:
  explicit ParityRig(unsigned members = 3, std::uint32_t chunk = 4096, std::uint64_t seed = 1)
      : power(seed), disk(power) {
    options.geometry = {.members = members, .chunk = chunk};
    options.region_bytes = std::uint64_t{64} << 10;
    options.reserve_bytes = 0;
    options.retry_every = 2ms;
    options.patience = 1000ms;
    for (unsigned i = 0; i < members; ++i) {
      member.push_back(std::make_unique<MemoryMember>(power, pool_));
    }
    open();
  }
  ~ParityRig() override {
    if (store_ != nullptr) close();
  }
  ds::Store& any() override { return *store_; }
  [[nodiscard]] const ds::ParityView& view() const { return store_->view(); }
  ds::ParityStore& group() { return *store_; }

  void open() {
    std::vector<ds::Store*> members;
    for (auto& one : member) members.push_back(one.get());
    store_ = std::make_unique<ds::ParityStore>(ds::ParityStore::Parts{.members = members,
                                                                      .disk = disk,
                                                                      .pool = pool_,
                                                                      .clock = system_clock(),
                                                                      .random = power.random,
                                                                      .rings = {ring_.get()},
                                                                      .options = options,
                                                                      .replacements = &offers});
    store_->start();
    if (may_change) store_->allow_changes();
  }
  // False when something of it was still going on after a while.
  bool close() {
    store_->close();
    const bool ended = eventually([this] { return store_->idle(); });
    if (ended) store_.reset();
    return ended;
  }
  // Takes all memory, and gives it back.
  void starve() {
    for (const std::size_t size : {std::size_t{1} << 20, std::size_t{4} << 10}) {
      while (auto one = pool_.allocate(size)) taken_.push_back(std::move(*one));
    }
  }
  void feed() { taken_.clear(); }
  // The data server's process dies where it is; what members have, they keep.
  void restart() {
    close();
    power.on = true;
    power.cut_after = 0;
    open();
  }
  void lose_power() {
    close();
    power.on = true;
    power.cut_after = 0;
    for (auto& one : member) one->crash();
    disk.crash();
    open();
  }
  template <class Check>
  bool eventually(Check check) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!check()) {
      if (std::chrono::steady_clock::now() > end) return false;
      context_.restart();
      context_.run_one_for(5ms);
    }
    return true;
  }
  bool whole() {
    return eventually([this] { return view().state.load() == ds::GroupState::kWhole; });
  }
  bool degraded() {
    return eventually([this] { return view().state.load() == ds::GroupState::kDegraded; });
  }
  // Rows of an object whose XOR is not zero, and blocks that do not match their checksums.
  int bad_rows(const layout::ObjectId& object) {
    std::size_t size = 0;
    for (auto& one : member) size = std::max(size, one->files[object].now.size());
    int bad = 0;
    for (std::size_t at = 0; at < size; at += ds::kParityBlock) {
      std::string sum(ds::kParityBlock, '\0');
      for (unsigned m = 0; m < member.size(); ++m) {
        std::string block = member[m]->files[object].now;
        block.resize(std::max(block.size(), at + ds::kParityBlock), '\0');
        block = block.substr(at, ds::kParityBlock);
        for (std::size_t i = 0; i < block.size(); ++i)
          sum[i] = static_cast<char>(sum[i] ^ block[i]);
        std::string sums = member[m]->files[ds::sums_of(object)].now;
        const std::size_t where = ds::kSumsAt + at / ds::kParityBlock * 8;
        sums.resize(std::max(sums.size(), where + 8), '\0');
        alignas(32) std::array<char, ds::kParityBlock> aligned;
        std::ranges::copy(block, aligned.begin());
        if (ds::get_sum(std::as_bytes(std::span(sums)).subspan(where, 8)) !=
            ds::sum_block(std::as_bytes(std::span(aligned)), object, m, at / ds::kParityBlock)) {
          ++bad;
        }
      }
      if (std::ranges::any_of(sum, [](char c) { return c != 0; })) ++bad;
    }
    return bad;
  }

  bool may_change = true;  // from its start on
  Power power;
  MemoryDisk disk;
  Offers offers;
  std::vector<std::unique_ptr<MemoryMember>> member;
  ds::ParityOptions options;

 private:
  std::vector<Buffer> taken_;
  std::unique_ptr<ds::ParityStore> store_;
};

}  // namespace weft::test
