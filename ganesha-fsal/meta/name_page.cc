#include "ganesha-fsal/meta/name_page.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace weft::mds {
namespace {

constexpr std::uint64_t kOffset = 0xcbf29ce484222325;  // FNV-1a, the same on every machine
constexpr std::uint64_t kPrime = 0x100000001b3;

std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = kOffset;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  }
  return std::max<std::uint64_t>(hash, 1);  // 0 is before the first
}

std::size_t xdr_bytes(std::string_view name) {
  return sizeof(std::uint32_t) + (name.size() + 3) / 4 * 4;
}

}  // namespace

Result<NamePage> name_page(std::vector<std::string> names, std::uint64_t cookie,
                           const NamePageLimits& limits) {
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (std::string& name : names) {
    const std::uint64_t hash = hash_of(name);
    if (hash > cookie) order.emplace_back(hash, std::move(name));
  }
  std::ranges::sort(order);
  NamePage page{.names = {}, .cookie = cookie};
  std::size_t bytes = 0;
  for (auto at = order.begin(); at != order.end();) {
    const auto next =
        std::find_if(at, order.end(), [&](const auto& one) { return one.first != at->first; });
    std::size_t more = 0;
    for (auto one = at; one != next; ++one) more += xdr_bytes(one->second);
    const auto count = static_cast<std::size_t>(next - at);
    if (page.names.size() + count > limits.names || bytes + more > limits.bytes) {
      if (page.names.empty()) return fail(Errc::kTooLarge, "no room for a name");
      return page;
    }
    bytes += more;
    page.cookie = at->first;
    for (; at != next; ++at) page.names.push_back(std::move(at->second));
  }
  page.end = true;
  return page;
}

}  // namespace weft::mds
