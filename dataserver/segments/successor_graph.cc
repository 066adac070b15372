#include "dataserver/segments/successor_graph.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

using Vertex = SuccessorGraph::Vertex;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// Tarjan's algorithm (1972), with a stack of its own in the place of recursion.
class Components {
 public:
  explicit Components(const std::vector<Vertex>& vertices)
      : vertices_(vertices), marks_(vertices.size()) {
    for (std::uint32_t i = 0; i < vertices.size(); ++i) {
      if (marks_[i].order == kNone) visit(i);
    }
  }
  // The component of each vertex.
  [[nodiscard]] std::uint32_t of(std::uint32_t vertex) const { return marks_[vertex].component; }
  [[nodiscard]] std::vector<std::vector<std::uint32_t>>& members() { return members_; }

 private:
  struct Mark {
    std::uint32_t order = kNone;
    std::uint32_t low = kNone;
    std::uint32_t component = kNone;
  };
  struct Step {
    std::uint32_t vertex;
    std::size_t edge;
  };

  void enter(std::uint32_t vertex) {
    marks_[vertex].order = marks_[vertex].low = count_++;
    open_.push_back(vertex);
    way_.push_back({vertex, 0});
  }
  void visit(std::uint32_t root) {
    enter(root);
    while (!way_.empty()) {
      Step& step = way_.back();
      const std::uint32_t here = step.vertex;
      if (step.edge < vertices_[here].next.size()) {
        const std::uint32_t there = vertices_[here].next[step.edge++];
        if (marks_[there].order == kNone) {
          enter(there);
        } else if (marks_[there].component == kNone) {
          marks_[here].low = std::min(marks_[here].low, marks_[there].order);
        }
        continue;
      }
      way_.pop_back();
      if (!way_.empty()) {
        Mark& before = marks_[way_.back().vertex];
        before.low = std::min(before.low, marks_[here].low);
      }
      if (marks_[here].low == marks_[here].order) close(here);
    }
  }
  void close(std::uint32_t root) {
    auto& members = members_.emplace_back();
    do {
      members.push_back(open_.back());
      open_.pop_back();
      marks_[members.back()].component = static_cast<std::uint32_t>(members_.size() - 1);
    } while (members.back() != root);
  }

  const std::vector<Vertex>& vertices_;
  std::vector<Mark> marks_;
  std::uint32_t count_ = 0;
  std::vector<std::uint32_t> open_;
  std::vector<Step> way_;
  std::vector<std::vector<std::uint32_t>> members_;
};

// All of a component, from its least strip on, depth first along the likeliest edges.
StripGroup in_reading_order(const std::vector<Vertex>& vertices, const Components& components,
                            const std::vector<std::uint32_t>& members, std::vector<bool>& done) {
  const std::uint32_t first =
      *std::ranges::min_element(members, {}, [&](std::uint32_t i) { return vertices[i].strip; });
  StripGroup group;
  std::vector<std::uint32_t> todo{first};
  while (!todo.empty()) {
    const std::uint32_t here = todo.back();
    todo.pop_back();
    if (done[here]) continue;
    done[here] = true;
    group.push_back(vertices[here].strip);
    const auto& next = vertices[here].next;
    for (auto there = next.rbegin(); there != next.rend(); ++there) {
      if (!done[*there] && components.of(*there) == components.of(first)) todo.push_back(*there);
    }
  }
  return group;
}

}  // namespace

SuccessorGraph::SuccessorGraph(const SuccessorOptions& options) : options_(options) {
  WEFT_ASSERT(options.best >= 1 && options.best <= options.recent);
  WEFT_ASSERT(options.recent <= SuccessorOptions::kMostRecent);
  WEFT_ASSERT(options.max_strips >= 1 && options.max_strips < kNone && options.max_streams >= 2);
}

std::uint32_t SuccessorGraph::place_of(const Strip& strip) {
  if (const auto found = places_.find(strip); found != places_.end()) {
    by_age_.splice(by_age_.begin(), by_age_, nodes_[found->second].age);
    return found->second;
  }
  std::uint32_t place = 0;
  if (places_.size() < options_.max_strips) {
    place = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
    by_age_.push_front(place);
  } else {
    place = by_age_.back();
    places_.erase(nodes_[place].strip);
    by_age_.splice(by_age_.begin(), by_age_, std::prev(by_age_.end()));
  }
  places_.emplace(strip, place);
  if (++last_serial_ == 0) ++last_serial_;
  nodes_[place] = {.strip = strip, .serial = last_serial_, .age = by_age_.begin()};
  return place;
}

SuccessorGraph::Ref SuccessorGraph::exchange_last(const StreamKey& key, Ref next) {
  if (const auto found = streams_.find(key); found != streams_.end()) {
    streams_by_age_.splice(streams_by_age_.begin(), streams_by_age_, found->second.age);
    return std::exchange(found->second.last, next);
  }
  if (streams_.size() >= options_.max_streams) {
    streams_.erase(streams_by_age_.back());
    streams_by_age_.pop_back();
  }
  streams_by_age_.push_front(key);
  streams_.emplace(key, Stream{next, streams_by_age_.begin()});
  return {};
}

void SuccessorGraph::observe(std::uint64_t client, const Strip& strip) {
  const std::uint32_t place = place_of(strip);
  const Ref here{place, nodes_[place].serial};
  const Ref of_client = exchange_last({.client = client, .object = {}}, here);
  const Ref of_object = exchange_last({.client = client, .object = strip.object}, here);
  const bool goes_on = stands(of_object) && of_object != here;
  const Ref before = goes_on ? of_object : of_client;
  if (!stands(before) || before == here) return;
  Node& node = nodes_[before.place];
  node.successors[node.next_at] = here;
  node.next_at = static_cast<std::uint8_t>((node.next_at + 1) % options_.recent);
}

std::vector<SuccessorGraph::Vertex> SuccessorGraph::vertices() const {
  std::vector<Vertex> vertices;
  vertices.reserve(nodes_.size());
  for (const Node& node : nodes_) {
    Vertex& vertex = vertices.emplace_back(Vertex{node.strip, {}});
    const auto seen = std::span(node.successors).first(options_.recent);
    std::array<std::pair<std::ptrdiff_t, std::uint32_t>, SuccessorOptions::kMostRecent> edges;
    std::size_t count = 0;
    for (auto one = seen.begin(); one != seen.end(); ++one) {
      if (!stands(*one) || std::find(seen.begin(), one, *one) != one) continue;
      const std::ptrdiff_t times = std::ranges::count(seen, *one);
      if (times >= static_cast<std::ptrdiff_t>(options_.best)) edges[count++] = {times, one->place};
    }
    std::sort(edges.begin(), edges.begin() + static_cast<std::ptrdiff_t>(count),
              [](const auto& a, const auto& b) {
                return a.first != b.first ? a.first > b.first : a.second < b.second;
              });
    for (std::size_t i = 0; i < count; ++i) vertex.next.push_back(edges[i].second);
  }
  return vertices;
}

std::vector<StripGroup> SuccessorGraph::groups_of(const std::vector<Vertex>& vertices) {
  Components components(vertices);
  std::vector<bool> done(vertices.size());
  std::vector<StripGroup> groups;
  for (const auto& members : components.members()) {
    if (members.size() < 2) continue;
    const StripGroup whole = in_reading_order(vertices, components, members, done);
    for (std::size_t begin = 0; begin < whole.size(); begin += kStripsInSegment) {
      const std::size_t size = std::min(kStripsInSegment, whole.size() - begin);
      if (size < 2) continue;
      const auto from = whole.begin() + static_cast<std::ptrdiff_t>(begin);
      groups.emplace_back(from, from + static_cast<std::ptrdiff_t>(size));
    }
  }
  std::ranges::sort(groups);
  return groups;
}

}  // namespace weft::ds
