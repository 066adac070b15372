// Random operations on a few objects of any store, against strings in memory.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/dataserver/store/store_calls.h"

namespace weft::test {

constexpr std::uint64_t kMaxSize = 300'000;

struct Model {
  std::map<std::uint64_t, std::string> objects;

  void write(std::uint64_t id, std::uint64_t offset, const std::string& bytes) {
    std::string& object = objects[id];
    if (bytes.empty()) return;
    if (object.size() < offset + bytes.size()) object.resize(offset + bytes.size(), '\0');
    std::copy(bytes.begin(), bytes.end(), object.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  void truncate(std::uint64_t id, std::uint64_t size) {
    if (size == 0 && !objects.contains(id)) return;
    objects[id].resize(size, '\0');
  }
};

inline std::uint64_t pick_offset() {
  const auto blocks = *rc::gen::inRange<std::uint64_t>(0, kMaxSize / 4096);
  const auto odd = *rc::gen::element<std::uint64_t>(0, 0, 1, 511, 512, 4095);
  return blocks * 4096 + odd;
}

inline std::string pick_bytes() {
  const auto size = *rc::gen::element<std::size_t>(0, 1, 100, 4096, 8192, 33000, 65536);
  return std::string(size, *rc::gen::inRange('a', 'z'));
}

inline void step(StoreCalls& runner, Model& model) {
  const auto id = *rc::gen::inRange<std::uint64_t>(1, 4);
  const layout::ObjectId object{.fileid = id, .generation = 1};
  const auto offset = pick_offset();
  switch (*rc::gen::inRange(0, 8)) {
    case 0:
    case 1:
    case 2: {
      const auto bytes = pick_bytes();
      const auto stability = *rc::gen::element(ds::Stability::kUnstable, ds::Stability::kUnstable,
                                               ds::Stability::kFileSync);
      const auto written = runner.write(object, offset, bytes, stability);
      RC_ASSERT(written.has_value());
      model.write(id, offset, bytes);
      RC_ASSERT(written->object_end == model.objects[id].size());
      break;
    }
    case 3: {
      RC_ASSERT(runner.truncate(object, offset).has_value());
      model.truncate(id, offset);
      break;
    }
    case 4: {
      RC_ASSERT(runner.remove(object).has_value());
      model.objects.erase(id);
      break;
    }
    case 5: RC_ASSERT(runner.commit(object).value() == runner.any().verifier()); break;
    case 6: {
      RC_ASSERT(runner.punch(object, offset, 5000).has_value());
      if (model.objects.contains(id) && offset < model.objects[id].size()) {
        const auto size = std::min<std::uint64_t>(5000, model.objects[id].size() - offset);
        model.write(id, offset, std::string(size, '\0'));
      }
      break;
    }
    default: {
      const auto count = *rc::gen::element<std::uint32_t>(1, 100, 4096, 40000, 200000);
      const auto result = runner.read(object, offset, count);
      if (!model.objects.contains(id)) {
        RC_ASSERT(result.error() == Errc::kNotFound);
        break;
      }
      const std::string& expected = model.objects[id];
      RC_ASSERT(result->object_end == expected.size());
      const auto bytes = result->payload.flatten().value();
      const std::string got(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      RC_ASSERT(got == (offset < expected.size() ? expected.substr(offset, count) : ""));
    }
  }
}

inline bool behaves_like_strings(StoreCalls& runner) {
  return rc::check("a store behaves like strings in memory", [&] {
    Model model;
    for (std::uint64_t id = 1; id < 4; ++id) {
      RC_ASSERT(runner.remove({.fileid = id, .generation = 1}).has_value());
    }
    const int steps = *rc::gen::inRange(1, 40);
    for (int i = 0; i < steps; ++i) step(runner, model);
    for (const auto& [id, expected] : model.objects) {
      // Some stores know another way once an object was read.
      for (int i = 0; i < 2; ++i) {
        RC_ASSERT(runner.text({.fileid = id, .generation = 1}, 0, 1 << 20) == expected);
      }
    }
  });
}

}  // namespace weft::test
