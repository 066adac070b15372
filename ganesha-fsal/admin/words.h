// Sizes, durations, counts and names in text for people.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::mds {

// "0 B", "1023 B", "1.00 KiB", "12.3 GiB": three digits that count.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);
// "0 ms", "850 ms", "12.3 s", "4 min 5 s", "3 h 2 min", "5 d 4 h".
[[nodiscard]] std::string human_duration(std::uint64_t milliseconds);
// One unit, for where there is no room for two: "850 ms", "12.3 s", "119 min", "47 h", "5 d".
[[nodiscard]] std::string short_duration(std::uint64_t milliseconds);
// "1,234,567".
[[nodiscard]] std::string human_count(std::uint64_t count);
// In seven columns at most: "999,999", "1.23 M", "12.3 G".
[[nodiscard]] std::string short_count(std::uint64_t count);

// Of a data server's objects no more are counted while somebody waits.
constexpr std::uint64_t kMostObjectsCounted = 100'000;
// "12 objects", "at least 100000 objects".
[[nodiscard]] std::string counted_objects(std::uint64_t count);

// How many columns a UTF-8 text takes, counting each code point as one; what stands in names and
// paths may be anything.
[[nodiscard]] std::size_t columns(std::string_view text);
// Begin and end of what takes more than `width` columns, with "…" between them. Names that begin
// alike stay different so. Precondition: `width` is not 0.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t width);
// The text with control characters (a file name may have a line feed or an escape sequence in it)
// replaced, so that it cannot disturb a terminal or a table.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace weft::mds
