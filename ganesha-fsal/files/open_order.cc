#include "ganesha-fsal/files/open_order.h"

#include <algorithm>
#include <functional>

namespace weft::mds {

std::vector<FileId> OpenOrder::observe(const Opened& opened) {
  Stream& stream = streams_.of({opened.client, opened.dir});
  if (stream.last == opened.file) return {};  // again
  if (stream.last != 0) {
    Successors& known = successors_.of(stream.last);
    known.last[known.at] = opened.file;
    known.at = static_cast<std::uint8_t>((known.at + 1) % known.last.size());
  }
  stream.last = opened.file;
  auto next = by_directory(stream, opened);
  if (stream.sure) {
    stream.expected.clear();
    return next;
  }
  return by_what_is_learnt(stream, opened.file);
}

// Takes from the guess what has been opened.
bool OpenOrder::meets(Guess& guess, FileId file) {
  const auto end =
      guess.ahead.begin() + static_cast<long>(std::min(guess.ahead.size(), kPassedOver + 1));
  const auto at = std::ranges::find(guess.ahead.begin(), end, file, &NamedFile::id);
  if (at == end) return false;
  const auto gone = static_cast<std::size_t>(at - guess.ahead.begin()) + 1;
  guess.ahead.erase(guess.ahead.begin(), at + 1);
  guess.named -= std::min(guess.named, gone);
  ++guess.hits;
  return true;
}

std::vector<FileId> OpenOrder::by_directory(Stream& stream, const Opened& opened) {
  if (stream.sure) {
    Guess& guess = stream.guesses[*stream.sure];
    if (meets(guess, opened.file)) return go_on(guess, kOrders[*stream.sure], opened);
    stream.sure.reset();
    stream.guesses = {};
  }
  if (stream.rest > 0) {
    --stream.rest;
    return {};
  }
  const bool guessed =
      std::ranges::any_of(stream.guesses, [](const Guess& guess) { return !guess.ahead.empty(); });
  std::array<bool, kOrders.size()> met{};
  for (std::size_t i = 0; i < kOrders.size(); ++i) {
    Guess& guess = stream.guesses[i];
    met[i] = meets(guess, opened.file);
    if (guess.hits < kSure) continue;
    stream.sure = i;
    stream.misses = 0;
    return go_on(guess, kOrders[i], opened);
  }
  if (guessed && std::ranges::none_of(met, std::identity{})) {
    stream.guesses = {};
    stream.misses = std::min(stream.misses + 1, kMostMisses);
    stream.rest = (1U << stream.misses) - 2;
    if (stream.rest > 0) return {};
  }
  for (std::size_t i = 0; i < kOrders.size(); ++i) {
    Guess& guess = stream.guesses[i];
    if (!met[i]) guess.hits = 0;
    const auto next = after_(opened.dir, opened.name, kOrders[i], kPassedOver + 1);
    guess.ahead.assign(next.begin(), next.end());
  }
  return {};
}

std::vector<FileId> OpenOrder::go_on(Guess& guess, FileOrder order, const Opened& opened) {
  const std::size_t wanted =
      std::min(kMostAhead, std::size_t{4} << std::min(guess.hits - kSure, 8U));
  // As many as may be passed over are known, too.
  if (guess.ahead.size() < std::max(wanted, kPassedOver + 1)) {
    const std::string last = guess.ahead.empty() ? opened.name : guess.ahead.back().name;
    for (NamedFile& next : after_(opened.dir, last, order, kMostAhead)) {
      guess.ahead.push_back(std::move(next));
    }
  }
  std::vector<FileId> out;
  for (; guess.named < std::min(wanted, guess.ahead.size()); ++guess.named) {
    out.push_back(guess.ahead[guess.named].id);
  }
  return out;
}

FileId OpenOrder::Successors::usual() const {
  for (const FileId file : last) {
    if (file != 0 && std::ranges::count(last, file) >= 2) return file;
  }
  return 0;
}

std::vector<FileId> OpenOrder::by_what_is_learnt(Stream& stream, FileId file) {
  std::deque<FileId>& expected = stream.expected;
  const auto at = std::ranges::find(expected, file);
  if (at == expected.end()) {
    expected.clear();
    stream.met = 0;
  } else {
    expected.erase(expected.begin(), at + 1);
    stream.met = std::min(stream.met + 1, kChainBits);
  }
  // What was expected was met: else it is told nobody, as the orders may be many.
  const bool sure = stream.met > 0;
  std::vector<FileId> out;
  FileId from = expected.empty() ? file : expected.back();
  while (expected.size() < std::size_t{1} << stream.met) {
    const Successors* const known = successors_.find(from);
    const FileId next = known == nullptr ? 0 : known->usual();
    if (next == 0 || next == file || std::ranges::find(expected, next) != expected.end()) break;
    expected.push_back(next);
    if (sure) out.push_back(next);
    from = next;
  }
  return out;
}

}  // namespace weft::mds
