#include "ganesha-fsal/meta/kv/log_check.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <charconv>
#include <filesystem>
#include <map>
#include <ranges>
#include <utility>

namespace weft::mds {
namespace {

constexpr std::size_t kHeader = 7;  // of a record: checksum, length, type
enum Type : std::uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

constexpr std::size_t kTries = 4096;      // checksums in a block that do not fit
constexpr std::size_t kBatchHeader = 12;  // sequence number, count
constexpr std::uint8_t kLogData = 3;      // the tag of log data in a batch
constexpr std::size_t kHead = kBatchHeader + 2 + sizeof(LogSequence);  // with the mark

// Both little endian.
std::uint64_t number(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (const std::byte byte : bytes | std::views::reverse) {
    value = value << 8 | std::to_integer<std::uint64_t>(byte);
  }
  return value;
}

std::uint32_t checksum(std::span<const std::byte> bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const auto plain = static_cast<std::uint32_t>(crc.checksum());
  return ((plain >> 15) | (plain << 17)) + 0xA282EAD8U;
}

// How long what is before the zeros at the end is.
std::size_t without_zeros(std::span<const std::byte> bytes) {
  const auto last = std::ranges::find_if(bytes | std::views::reverse,
                                         [](std::byte byte) { return byte != std::byte{0}; });
  return static_cast<std::size_t>(last.base() - bytes.begin());
}

struct Record {
  unsigned type = 0;
  std::span<const std::byte> bytes;
};

// What `bytes` begin with. A checksum that does not fit is one of `tries`.
std::optional<Record> record_at(std::span<const std::byte> bytes, std::size_t& tries) {
  if (bytes.size() < kHeader) return std::nullopt;
  const auto type = std::to_integer<unsigned>(bytes[6]);
  const auto length = static_cast<std::size_t>(number(bytes.subspan(4, 2)));
  if (type == 0 || kHeader + length > bytes.size()) return std::nullopt;
  if (checksum(bytes.subspan(6, 1 + length)) != number(bytes.first(4))) {
    --tries;
    return std::nullopt;
  }
  return Record{type, bytes.subspan(kHeader, length)};
}

}  // namespace

std::string log_mark(LogSequence stable) {
  std::string mark(sizeof(stable), '\0');
  for (std::size_t at = 0; at < mark.size(); ++at) {
    mark[at] = static_cast<char>(stable >> (8 * at) & 0xFF);
  }
  return mark;
}

void LogReader::read(std::span<const std::byte> block) {
  const std::uint64_t begin = std::exchange(at_, at_ + block.size());
  const std::size_t written = without_zeros(block);
  if (zeros_ && written == 0) return;
  if (zeros_) lost();
  std::size_t at = 0;
  for (std::size_t tries = kTries; at < written && tries > 0;) {
    const auto record = record_at(block.subspan(at), tries);
    if (!record) {
      lost();
      ++at;  // another may begin anywhere
      continue;
    }
    at += kHeader + record->bytes.size();
    take(record->type, record->bytes, begin + at);
  }
  zeros_ = at + kHeader <= block.size();
  if (zeros_ && in_batch_) lost();
}

std::uint64_t LogReader::end() {
  if (in_batch_) lost();
  at_ = 0;
  zeros_ = false;
  first_ = true;
  return std::exchange(whole_, 0);
}

void LogReader::take(unsigned type, std::span<const std::byte> bytes, std::uint64_t end) {
  if (type > kLast) return;  // of a later version, and no batch
  const bool begins = type == kFull || type == kFirst;
  if (begins == in_batch_) lost();
  if (begins) {
    head_.clear();
    in_batch_ = true;
  }
  if (!in_batch_) return;
  const auto more = bytes.first(std::min(bytes.size(), kHead - std::min(kHead, head_.size())));
  head_.insert(head_.end(), more.begin(), more.end());
  if (type == kFull || type == kLast) batch(end);
}

void LogReader::batch(std::uint64_t end) {
  in_batch_ = false;
  const std::span<const std::byte> head(head_);
  if (head.size() < kBatchHeader) return lost();
  const LogSequence sequence = number(head.first(8));
  if (!std::exchange(first_, false) && !broken_ && sequence != next_) lost();
  if (!broken_) {
    next_ = sequence + number(head.subspan(8, 4));
    whole_ = end;
    return;
  }
  if (!after_break_) after_break_ = sequence;
  const bool marked = head.size() == kHead && number(head.subspan(kBatchHeader, 1)) == kLogData &&
                      number(head.subspan(kBatchHeader + 1, 1)) == sizeof(LogSequence);
  const LogSequence stable = marked ? number(head.subspan(kBatchHeader + 2)) : 0;
  if (stable == 0) return;
  // Of the lost, of a batch after it, or of all before this one.
  damaged_ =
      damaged_ || (next_ && stable >= *next_) || stable >= *after_break_ || stable >= sequence - 1;
}

void LogReader::lost() {
  broken_ = true;
  in_batch_ = false;
}

namespace {

class File {
 public:
  File(std::string path, int flags)
      : path_(std::move(path)), fd_(::open(path_.c_str(), flags | O_CLOEXEC)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] bool open() const { return fd_ >= 0; }
  [[nodiscard]] std::unexpected<Error> failed(std::string_view doing) const {
    return fail_errno(errno, std::string(doing) + " " + path_);
  }

  // All that it has, in pieces of a block.
  [[nodiscard]] Result<std::uint64_t> read(LogReader& reader) const {
    std::vector<std::byte> buffer(32 * LogReader::kBlock);
    std::uint64_t size = 0;
    for (;;) {
      std::size_t have = 0;
      while (have < buffer.size()) {
        const ssize_t n = ::read(fd_, buffer.data() + have, buffer.size() - have);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed("read");
        if (n == 0) break;
        have += static_cast<std::size_t>(n);
      }
      size += have;
      const auto bytes = std::span(buffer).first(have);
      for (std::size_t at = 0; at < have; at += LogReader::kBlock) {
        reader.read(bytes.subspan(at, std::min(LogReader::kBlock, have - at)));
      }
      if (have < buffer.size()) return size;
    }
  }

  [[nodiscard]] Result<> cut(std::uint64_t size) const {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0 || ::fsync(fd_) != 0) return failed("cut");
    return {};
  }

 private:
  const std::string path_;
  const int fd_;
};

// By their numbers.
std::map<std::uint64_t, std::string> logs_of(const std::string& folder) {
  std::map<std::uint64_t, std::string> logs;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().stem().string();
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is = error == std::errc() && end == name.data() + name.size();
    if (is && entry.path().extension() == ".log") logs.emplace(number, entry.path().string());
  }
  return logs;
}

}  // namespace

Result<> check_logs(const std::string& folder, bool repair) {
  struct Cut {
    std::string path;
    std::uint64_t at = 0;
  };
  LogReader reader;
  std::vector<Cut> cuts;
  for (const auto& [number, path] : logs_of(folder)) {
    const File file(path, O_RDONLY);
    if (!file.open()) return file.failed("open");
    auto size = file.read(reader);
    if (!size) return pass(size);
    const std::uint64_t whole = reader.end();
    if (reader.broken() && whole < *size) cuts.push_back({path, whole});
    if (reader.damaged()) {
      return fail(Errc::kCorrupt,
                  fmt::format("{} is damaged at byte {}: what was stored after it is lost. Restore "
                              "a backup (weft-restore)",
                              cuts.front().path, cuts.front().at));
    }
  }
  if (!repair) return {};
  for (const Cut& cut : cuts) {
    spdlog::info("event=metadata_log_cut file={} at={}", cut.path, cut.at);
    const File file(cut.path, O_WRONLY);
    if (!file.open()) return file.failed("open");
    if (auto done = file.cut(cut.at); !done) return done;
  }
  return {};
}

}  // namespace weft::mds
