#include "ganesha-fsal/config/conf_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace weft::mds {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\n'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_name(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view letters_of(std::string_view text) {
  const auto end = std::ranges::find_if_not(text, is_letter);
  return {text.begin(), end};
}

// "s" of "60s"; empty: it is no number with a unit. "9P" is a protocol, "0x1F" a number.
std::string_view unit_of(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view unit = text.substr(digits);
  const bool number = digits != 0 && std::ranges::count(text.substr(0, digits), '.') < 2;
  const bool whole = same_name(text, "9P") || text.starts_with("0x") || text.starts_with("0X");
  return number && !whole && letters_of(unit) == unit ? unit : std::string_view();
}

// One file; those that it includes have readers of their own.
class Reader {
 public:
  Reader(std::string_view text, const std::string& file, const std::string& folder,
         const ConfFiles& files, std::vector<std::string>& seen)
      : rest_(text), place_{file, 1}, folder_(folder), files_(files), seen_(seen) {}

  Result<> top(ConfBlock& into) {
    for (;;) {
      skip();
      if (rest_.empty()) return {};
      if (rest_.front() == '%') {
        if (auto done = directive(into); !done) return done;
      } else if (auto done = definition(into, 0); !done) {
        return done;
      }
    }
  }

 private:
  // White space and comments.
  void skip() {
    while (!rest_.empty()) {
      if (rest_.front() == '#') {
        while (!rest_.empty() && rest_.front() != '\n') take();
      } else if (is_space(rest_.front())) {
        take();
      } else {
        return;
      }
    }
  }

  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '\n') ++place_.line;
    return c;
  }

  [[nodiscard]] bool next(char c) const { return !rest_.empty() && rest_.front() == c; }

  [[nodiscard]] std::unexpected<Error> expected(std::string_view what) const {
    if (rest_.empty()) return conf_error(place_, fmt::format("{} expected, at the end", what));
    const char c = rest_.front();
    const bool printable = c > ' ' && c < 127;
    return conf_error(place_, fmt::format("{} expected, not '{}'", what, printable ? c : '?'));
  }

  // "name = term, term;" or "name { ... }".
  Result<> definition(ConfBlock& into, int depth) {
    if (rest_.empty() || !is_letter(rest_.front())) return expected("a name");
    const ConfPlace place = place_;
    std::string name;
    while (!rest_.empty() && in_name(rest_.front())) name += take();
    skip();
    if (next('{')) {
      take();
      return block(into, std::move(name), place, depth + 1);
    }
    if (!next('=')) return expected("'=' or '{'");
    take();
    ConfStatement made{std::move(name), place, {}};
    if (auto done = terms(made); !done) return done;
    into.statements.push_back(std::move(made));
    return {};
  }

  Result<> block(ConfBlock& into, std::string name, const ConfPlace& place, int depth) {
    if (depth > kDeepestBlock) return conf_error(place, "blocks are too deep");
    ConfBlock made{std::move(name), place, {}, {}};
    for (;;) {
      skip();
      if (next('}')) break;
      if (rest_.empty()) {
        return conf_error(place, fmt::format("the block {} does not end", made.name));
      }
      if (auto done = definition(made, depth); !done) return done;
    }
    take();
    into.blocks.push_back(std::move(made));
    return {};
  }

  Result<> terms(ConfStatement& into) {
    skip();
    if (next(';')) {
      take();
      return {};
    }
    for (;;) {
      skip();
      auto one = term();
      if (!one) return pass(one);
      skip();
      if (auto plain = check_unit(into, *one); !plain) return plain;
      into.terms.push_back(std::move(*one));
      if (!next(',') && !next(';')) return expected("',' or ';'");
      if (take() == ';') return {};
    }
  }

  // Ganesha reads a number and a word then, with a comma missing between them.
  [[nodiscard]] Result<> check_unit(const ConfStatement& statement, const ConfTerm& term) const {
    if (term.quoted) return {};
    std::string said = term.text;
    if (unit_of(said).empty()) {
      if (!parse_conf_number(said)) return {};
      const std::string_view unit = letters_of(rest_);
      const std::size_t next = rest_.find_first_not_of(" \t", unit.size());
      const bool ends =
          next != std::string_view::npos && (rest_[next] == ',' || rest_[next] == ';');
      if (unit.empty() || !ends) return {};
      said += fmt::format(" {}", unit);
    }
    return conf_error(statement.place,
                      fmt::format("{} = {}: Ganesha takes a number without a unit, of time in "
                                  "seconds; FSAL WEFT takes \"{}\", in quotes",
                                  statement.name, said, said));
  }

  Result<ConfTerm> term() {
    if (next('"') || next('\'')) return quoted();
    ConfTerm made;
    while (!rest_.empty() && !is_space(rest_.front()) &&
           std::string_view(",;{}=#\"'").find(rest_.front()) == std::string_view::npos) {
      made.text += take();
    }
    if (made.text.empty()) return expected("a value");
    if (made.text == "-" || made.text == "~") {
      skip();
      auto number = term();
      if (!number) return number;
      made.text += number->text;
    }
    return made;
  }

  Result<ConfTerm> quoted() {
    const ConfPlace place = place_;
    ConfTerm made{{}, true};
    const char quote = take();
    while (!next(quote)) {
      if (quote == '"' && next('\\')) take();
      if (rest_.empty()) return conf_error(place, "the string does not end");
      made.text += take();
    }
    take();
    return made;
  }

  Result<> directive(ConfBlock& into) {
    const ConfPlace place = place_;
    std::string what;
    while (!rest_.empty() && !is_space(rest_.front())) what += take();
    skip();
    std::string name;
    if (next('"')) {
      auto text = quoted();
      if (!text) return pass(text);
      name = std::move(text->text);
    } else {
      while (!rest_.empty() && !is_space(rest_.front())) name += take();
    }
    if (what == "%dir" || what == "%url") {
      into.incomplete = true;
      return {};
    }
    if (what != "%include") return conf_error(place, fmt::format("'{}' is not known", what));
    const std::string path = name.starts_with('/') ? name : folder_ + "/" + name;
    if (std::ranges::find(seen_, path) != seen_.end()) {
      return conf_error(place, fmt::format("{} is included twice", path));
    }
    if (seen_.size() >= kMostConfFiles) return conf_error(place, "too many files are included");
    seen_.push_back(path);
    auto text = files_(path);
    if (!text) return conf_error(place, text.error().describe());
    return Reader(*text, path, folder_, files_, seen_).top(into);
  }

  std::string_view rest_;
  ConfPlace place_;
  const std::string& folder_;  // of the first file: Ganesha takes included ones from there
  const ConfFiles& files_;
  std::vector<std::string>& seen_;
};

Result<std::string> read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  if (!file) return fail_errno(errno != 0 ? errno : EIO, "open " + path);
  std::string text(kLargestConf + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail_errno(errno != 0 ? errno : EIO, "read " + path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLargestConf) return fail(Errc::kInvalid, path + " is too large");
  return text;
}

}  // namespace

std::unexpected<Error> conf_error(const ConfPlace& place, std::string_view what) {
  return fail(Errc::kInvalid, fmt::format("{}:{}: {}", place.file, place.line, what));
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::optional<std::uint64_t> parse_conf_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  } else if (text.size() > 1 && text.starts_with('0')) {
    text.remove_prefix(1);
    base = 8;
  }
  std::uint64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, base);
  if (error != std::errc{} || end != last) return std::nullopt;
  return number;
}

const ConfStatement* find_statement(const ConfBlock& block, std::string_view name) {
  const auto found = std::ranges::find_if(
      block.statements, [name](const ConfStatement& one) { return same_name(one.name, name); });
  return found == block.statements.end() ? nullptr : &*found;
}

const ConfBlock* find_block(const ConfBlock& outer, std::string_view name) {
  const auto found = std::ranges::find_if(
      outer.blocks, [name](const ConfBlock& one) { return same_name(one.name, name); });
  return found == outer.blocks.end() ? nullptr : &*found;
}

bool is_flag(const ConfStatement& statement, bool on) {
  if (statement.terms.empty()) return false;
  const auto is = [&statement](std::string_view word) {
    return same_name(statement.terms.front().text, word);
  };
  return on ? is("true") || is("yes") || is("on") : is("false") || is("no") || is("off");
}

std::string_view value_of(const ConfBlock& block, std::string_view name) {
  const ConfStatement* const found = find_statement(block, name);
  if (found == nullptr || found->terms.size() != 1) return {};
  return found->terms.front().text;
}

Result<ConfBlock> parse_conf(std::string_view text, const std::string& file,
                             const ConfFiles& files) {
  std::string folder = std::filesystem::path(file).parent_path();
  if (folder.empty()) folder = ".";
  std::vector<std::string> seen{file};
  ConfBlock whole;
  whole.place = {file, 1};
  if (auto read = Reader(text, file, folder, files, seen).top(whole); !read) return pass(read);
  return whole;
}

Result<ConfBlock> read_conf(const std::string& path) {
  auto text = read_text(path);
  if (!text) return pass(text);
  return parse_conf(*text, path, read_text);
}

}  // namespace weft::mds
