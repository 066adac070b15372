// A store in memory whose operations are carried out, and answered, when a test says so.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dataserver/store/store.h"

namespace weft::test {

class HeldStore final : public ds::Store {
 public:
  struct File {
    std::string now;
    std::string durable;
  };
  std::map<layout::ObjectId, File> files;
  bool hold = false;            // otherwise each operation is over before its call returns
  Errc broken{};                // what reads fail with, if anything
  std::uint64_t broken_at = 0;  // those that touch this byte
  Errc broken_writes{};         // what writes fail with, if anything, after half of each
  bool pages_lost = false;      // write-back failed once: what is cached the disk does not have
  std::uint64_t reads = 0;
  std::uint64_t uncached_reads = 0;

  // --- What is held
  [[nodiscard]] std::size_t held() const { return held_.size(); }
  [[nodiscard]] bool carried_out(std::size_t which) const { return held_[which]->result_is_there; }
  void carry_out(std::size_t which) { held_[which]->carry_out(false); }
  void answer(std::size_t which) { take(which)->answer(); }
  void finish(std::size_t which) {
    if (!carried_out(which)) carry_out(which);
    answer(which);
  }
  void finish_all() {
    while (!held_.empty()) finish(0);
  }
  // It fails, after all of it, half of it or nothing was done.
  void refuse(std::size_t which, bool half) {
    auto one = take(which);
    if (half && !one->result_is_there) one->carry_out(true);
    one->refuse();
  }
  // It fails, and is carried out later: carry_out_late().
  void refuse_early(std::size_t which) {
    auto one = take(which);
    Held& what = *one;
    if (!what.result_is_there) late_.push_back(std::move(one));
    what.refuse();
  }
  [[nodiscard]] std::size_t late() const { return late_.size(); }
  void carry_out_late() {
    late_.front()->carry_out(false);
    late_.erase(late_.begin());
  }
  // What the files would be after a power loss: each operation that was not answered is carried out
  // or not, and each file keeps what was made stable, with any of its pieces of `sector` bytes as
  // they were written since.
  template <class Random>
  [[nodiscard]] std::map<layout::ObjectId, File> after_power_loss(Random& random,
                                                                  std::uint64_t sector) {
    const auto one_in_two = [&] { return random.below(2) == 0; };
    for (std::size_t i = 0; i < held(); ++i) {
      if (!carried_out(i) && one_in_two()) carry_out(i);
    }
    auto left = files;
    for (auto& [id, file] : left) {
      std::string kept = file.durable;
      if (one_in_two()) {
        kept.resize(one_in_two() ? file.now.size() : kept.size(), '\0');
        for (std::uint64_t at = 0; at < kept.size(); at += sector) {
          if (at >= file.now.size() || one_in_two()) continue;
          const std::uint64_t size = std::min({sector, file.now.size() - at, kept.size() - at});
          kept.replace(at, size, file.now, at, size);
        }
      }
      file.now = file.durable = kept;
    }
    return left;
  }
  void lose_unstable() {
    for (auto& [object, file] : files) file.now = file.durable;
    ++verifier_;
  }

  // --- Store
  using Store::read;
  using Store::write;
  void read(ds::StoreRead what, Done<ds::ReadResult> done) override {
    ++reads;
    if (what.uncached) ++uncached_reads;
    done = into_room(std::move(what.room), std::move(done));
    const auto [object, offset, count] = std::tuple(what.object, what.offset, what.count);
    const bool what_the_disk_has = what.uncached;
    submit<ds::ReadResult>(std::move(done), [=, this](bool) -> Result<ds::ReadResult> {
      if (broken != Errc{} && offset <= broken_at && broken_at < offset + count) {
        return fail(broken, "injected");
      }
      const auto found = files.find(object);
      if (found == files.end()) return fail(Errc::kNotFound);
      if (what_the_disk_has && pages_lost) found->second.now = found->second.durable;
      ds::ReadResult result{.object_end = found->second.now.size()};
      if (offset >= result.object_end) return result;
      const std::string bytes = found->second.now.substr(offset, count);
      auto buffer = pool_.allocate(bytes.size()).value();
      std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), buffer.data());
      result.payload.append(std::move(buffer));
      return result;
    });
  }
  void write(ds::StoreWrite what, Done<ds::WriteResult> done) override {
    what.to_memory().value();
    const auto [object, offset, wanted] = std::tuple(what.object, what.offset, what.wanted);
    std::string bytes;
    for (const Buffer& piece : what.data) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    submit<ds::WriteResult>(std::move(done), [=, this](bool half) -> Result<ds::WriteResult> {
      File& file = files[object];
      half = half || broken_writes != Errc{};
      put(file.now, offset, half ? bytes.substr(0, half_of(bytes.size())) : bytes);
      if (broken_writes != Errc{}) return fail(broken_writes, "injected");
      if (wanted != ds::Stability::kUnstable) file.durable = file.now;
      return ds::WriteResult{.bytes = bytes.size(),
                             .stability = wanted,
                             .verifier = verifier_,
                             .object_end = file.now.size()};
    });
  }
  void commit(const layout::ObjectId& object, Done<ds::WriteVerifier> done) override {
    submit<ds::WriteVerifier>(std::move(done), [=, this](bool) -> Result<ds::WriteVerifier> {
      if (const auto found = files.find(object); found != files.end()) settle(found->second);
      return verifier_;
    });
  }
  void truncate(const layout::ObjectId& object, std::uint64_t size,
                Done<ds::ObjectStat> done) override {
    submit<ds::ObjectStat>(std::move(done), [=, this](bool) -> Result<ds::ObjectStat> {
      if (size == 0 && !files.contains(object)) return ds::ObjectStat{};
      File& file = files[object];
      file.now.resize(size, '\0');
      settle(file);
      return ds::ObjectStat{.size = size};
    });
  }
  void remove(const layout::ObjectId& object, Done<void> done) override {
    submit<void>(std::move(done), [=, this](bool) -> Result<> {
      files.erase(object);
      return {};
    });
  }
  void stat(const layout::ObjectId& object, Done<ds::ObjectStat> done) override {
    submit<ds::ObjectStat>(std::move(done), [=, this](bool) -> Result<ds::ObjectStat> {
      const auto found = files.find(object);
      if (found == files.end()) return fail(Errc::kNotFound);
      return ds::ObjectStat{.size = found->second.now.size()};
    });
  }
  void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override {
    submit<void>(std::move(done), [=, this](bool) -> Result<> {
      File& file = files[object];
      if (file.now.size() < offset + size) file.now.resize(offset + size, '\0');
      settle(file);
      return {};
    });
  }
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override {
    submit<void>(std::move(done), [=, this](bool half) -> Result<> {
      const auto found = files.find(object);
      if (found == files.end()) return {};
      std::string& now = found->second.now;
      const std::uint64_t end =
          std::min<std::uint64_t>(now.size(), offset + (half ? half_of(size) : size));
      for (std::uint64_t at = offset; at < end; ++at) now[at] = '\0';
      settle(found->second);
      return {};
    });
  }
  // By number alone: all is in one folder.
  void list(ds::ListPlace from, std::uint32_t max, Done<ds::ObjectList> done) override {
    submit<ds::ObjectList>(std::move(done), [=, this](bool) -> Result<ds::ObjectList> {
      ds::ObjectList page;
      for (auto at = files.upper_bound(from.after); at != files.end(); ++at) {
        if (page.objects.size() == max) {
          page.more = true;
          break;
        }
        page.objects.push_back(at->first);
        page.next.after = at->first;
      }
      return page;
    });
  }
  [[nodiscard]] ds::WriteVerifier verifier() const override { return verifier_; }
  [[nodiscard]] bool settled() const override { return late_.empty(); }
  [[nodiscard]] Result<ds::StoreStat> usage() const override { return ds::StoreStat{}; }

 private:
  struct Held {
    virtual ~Held() = default;
    virtual void carry_out(bool half) = 0;
    virtual void answer() = 0;
    virtual void refuse() = 0;
    bool result_is_there = false;
  };
  template <class T>
  struct HeldOp final : Held {
    HeldOp(Done<T> then, std::function<Result<T>(bool)> what)
        : done(std::move(then)), effect(std::move(what)) {}
    void carry_out(bool half) override {
      result.emplace_back(effect(half));
      result_is_there = true;
    }
    void answer() override { done(std::move(result.front())); }
    void refuse() override { done(fail(Errc::kIo, "refused")); }
    Done<T> done;
    std::function<Result<T>(bool)> effect;
    std::vector<Result<T>> result;
  };
  template <class T>
  void submit(Done<T> done, std::function<Result<T>(bool)> effect) {
    if (!hold) return done(effect(false));
    held_.push_back(std::make_unique<HeldOp<T>>(std::move(done), std::move(effect)));
  }
  std::unique_ptr<Held> take(std::size_t which) {
    auto one = std::move(held_[which]);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
    return one;
  }
  static void put(std::string& into, std::uint64_t offset, const std::string& bytes) {
    if (bytes.empty()) return;
    if (into.size() < offset + bytes.size()) into.resize(offset + bytes.size(), '\0');
    std::ranges::copy(bytes, into.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  // Of what fails half way: no word of 8 bytes is torn.
  static std::uint64_t half_of(std::uint64_t size) { return size < 16 ? size / 2 : size / 16 * 8; }
  void settle(File& file) const {
    if (!pages_lost) file.durable = file.now;
  }

  BufferPool pool_{std::size_t{64} << 20};
  ds::WriteVerifier verifier_ = 1;
  std::vector<std::unique_ptr<Held>> held_;
  std::vector<std::unique_ptr<Held>> late_;
};

}  // namespace weft::test
