#include "dataserver/main/store_watch.h"

namespace weft::ds {

namespace {

std::string in_words(const Error& error) {
  return error.text.empty() ? error.describe() : error.text;
}

}  // namespace

StoreWatch::State StoreWatch::look() {
  if (auto folder = parts_.folder.check(); !folder) {
    return {.usage = {}, .trouble = in_words(folder.error())};
  }
  const TimePoint now = parts_.clock.now();
  const auto usage = parts_.usage();
  if (usage) {
    last_ = *usage;
    good_ = now;
    return {.usage = last_, .trouble = {}};
  }
  if (good_ == TimePoint{}) good_ = now;
  if (now - good_ < kPatience) return {.usage = last_, .trouble = {}};
  return {.usage = {}, .trouble = in_words(usage.error())};
}

}  // namespace weft::ds
