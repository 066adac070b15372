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
constexpr std::size_t kMark = 2 * sizeof(std::uint64_t);
constexpr std::size_t kHead = kBatchHeader + 2 + kMark;

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

// What `bytes` begin with. Where none need begin only types of our version count, which few bytes
// are, and a checksum that does not fit is one of `tries`.
std::optional<Record> record_at(std::span<const std::byte> bytes, bool framed, std::size_t& tries) {
  if (bytes.size() < kHeader) return std::nullopt;
  const auto type = std::to_integer<unsigned>(bytes[6]);
  const auto length = static_cast<std::size_t>(number(bytes.subspan(4, 2)));
  if (type == 0 || (type > kLast && !framed)) return std::nullopt;
  if (kHeader + length > bytes.size()) return std::nullopt;
  if (checksum(bytes.subspan(6, 1 + length)) != number(bytes.first(4))) {
    --tries;
    return std::nullopt;
  }
  return Record{type, bytes.subspan(kHeader, length)};
}

}  // namespace

std::string log_mark(LogSequence stable, std::uint64_t salt) {
  std::string mark;
  for (const std::uint64_t value : {stable, salt}) {
    for (int bits = 0; bits < 64; bits += 8) mark += static_cast<char>(value >> bits & 0xFF);
  }
  return mark;
}

void LogReader::read(std::span<const std::byte> block) {
  const std::uint64_t begin = std::exchange(at_, at_ + block.size());
  const std::size_t written = without_zeros(block);
  if (zeros_ && written == 0) return;
  if (zeros_) lost();
  std::size_t at = 0;
  framed_ = true;
  for (std::size_t tries = kTries; at < written && tries > 0;) {
    if (at + kHeader > kBlock) break;  // too little for a record: nobody reads that
    const auto record = record_at(block.subspan(at), framed_, tries);
    if (!record) {
      lost();
      framed_ = false;
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
  return std::exchange(whole_, 0);
}

void LogReader::take(unsigned type, std::span<const std::byte> bytes, std::uint64_t end) {
  if (type > kLast) return;  // of a later version, and no batch
  const bool begins = type == kFull || type == kFirst;
  if (begins == in_batch_) lost();
  if (begins) {
    head_.clear();
    head_framed_ = framed_;
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
  const bool marked = head.size() == kHead && number(head.subspan(kBatchHeader, 1)) == kLogData &&
                      number(head.subspan(kBatchHeader + 1, 1)) == kMark;
  const LogSequence stable = marked ? number(head.subspan(kBatchHeader + 2, 8)) : 0;
  const std::uint64_t salt = marked ? number(head.subspan(kBatchHeader + 10, 8)) : 0;
  if (!broken_ && next_ && sequence != *next_) lost();
  if (!broken_) {
    next_ = sequence + number(head.subspan(8, 4));
    whole_ = end;
    if (marked) salt_ = salt;
    return;
  }
  if (!head_framed_ && salt_ && !(marked && salt == *salt_)) return;
  if (!after_break_) after_break_ = sequence;
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
std::map<std::uint64_t, std::string> logs_of(const std::string& folder, std::uint64_t first) {
  std::map<std::uint64_t, std::string> logs;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const auto number = log_number(entry.path().string());
    if (number && *number >= first) logs.emplace(*number, entry.path().string());
  }
  return logs;
}

Result<> cut(const std::string& path, std::uint64_t at) {
  spdlog::info("event=metadata_log_cut file={} at={}", path, at);
  const File file(path, O_WRONLY);
  if (!file.open()) return file.failed("open");
  return file.cut(at);
}

}  // namespace

std::optional<std::uint64_t> log_number(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string name = whole.stem().string();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is = error == std::errc() && end == name.data() + name.size();
  if (!is || whole.extension() != ".log") return std::nullopt;
  return number;
}

Result<LogEnds> check_logs(const std::string& folder, std::uint64_t first, bool repair) {
  const auto logs = logs_of(folder, first);
  LogReader reader;
  LogEnds ends;
  std::string damage;  // where it would be
  for (const auto& [number, path] : logs) {
    const File file(path, O_RDONLY);
    if (!file.open()) return file.failed("open");
    auto size = file.read(reader);
    if (!size) return pass(size);
    const std::uint64_t whole = reader.end();
    if (reader.broken() && damage.empty())
      damage = fmt::format("{} is damaged at byte {}", path, whole);
    if (reader.broken() && whole < *size) ends.emplace(number, whole);
    if (reader.damaged()) {
      return fail(Errc::kCorrupt,
                  damage + ": what was stored after it is lost. Restore a backup (weft-restore)");
    }
  }
  if (!repair) return ends;
  // The last first: until the break itself is gone, it is met again.
  for (const auto& [number, at] : ends | std::views::reverse) {
    if (auto done = cut(logs.at(number), at); !done) return pass(done);
  }
  return ends;
}

}  // namespace weft::mds
