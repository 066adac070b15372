// A map that keeps what was used last: at most `limit` entries, and at least half of that. There
// are two generations; when the young one has half of the limit it becomes the old one, and what is
// in the old one then is forgotten. What is found in the old one is young again.
//
// Threading: one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <unordered_map>
#include <utility>

namespace weft::mds {

template <class Key, class Value, class Hash = std::hash<Key>>
class RecentMap {
 public:
  explicit RecentMap(std::size_t limit) : half_(limit / 2) {}

  // Null if there is none. Valid until the next call.
  [[nodiscard]] Value* find(const Key& key) {
    if (const auto at = young_.find(key); at != young_.end()) return &at->second;
    const auto at = old_.find(key);
    if (at == old_.end()) return nullptr;
    Value value = std::move(at->second);
    old_.erase(at);
    return &add(key, std::move(value));
  }
  // Made if there is none.
  [[nodiscard]] Value& of(const Key& key) {
    Value* const found = find(key);
    return found == nullptr ? add(key, {}) : *found;
  }
  [[nodiscard]] std::size_t size() const { return young_.size() + old_.size(); }

 private:
  using Generation = std::unordered_map<Key, Value, Hash>;
  Value& add(const Key& key, Value value) {
    if (young_.size() >= half_) old_ = std::exchange(young_, {});
    return young_.emplace(key, std::move(value)).first->second;
  }

  const std::size_t half_;
  Generation young_;
  Generation old_;
};

}  // namespace weft::mds
