// Which strips are read one after another, again and again: the groups of SOGP (semantic on-disk
// grouping and prefetching).
//
// Of each strip the last `recent` strips are remembered that were read next (Recent Popularity). A
// strip has an edge to every one that is at least `best` times among them: with `best` = 2 of
// `recent` = 4 what happened once is no reason, and what stopped happening is forgotten after three
// reads. The strongly connected components of two strips and more are the groups: from each strip
// of a group the reads came back to it.
//
// What comes next is told apart by client: the strip before one is what this client read last of
// the same object. When it reads the object for the first time, or the same strip again, the strip
// before is what it read last of any object. So programs on one client that read files of their own
// side by side do not mix, and a row of small files is a row.
//
// Memory: bounded by the options. What was read longest ago makes room.
//
// Threading: one thread at a time; groups_of() is pure, for any.
//
// Invariant: the same reads in the same order give the same groups.
#pragma once

#include <array>
#include <list>
#include <unordered_map>

#include "dataserver/segments/strip.h"

namespace weft::ds {

struct SuccessorOptions {
  static constexpr unsigned kMostRecent = 8;
  unsigned best = 2;                // from 1 to recent
  unsigned recent = 4;              // from 1 to kMostRecent
  std::size_t max_strips = 65'536;  // remembered; about 160 bytes each
  std::size_t max_streams = 4096;   // pairs of client and object, and clients
};

class SuccessorGraph {
 public:
  explicit SuccessorGraph(const SuccessorOptions& options);

  // Client `client` reads this strip. The same strip twice in a row counts once.
  void observe(std::uint64_t client, const Strip& strip);

  [[nodiscard]] std::size_t strips() const { return places_.size(); }
  [[nodiscard]] std::size_t streams() const { return streams_.size(); }

  // Strips with their edges, to make groups of while others are observed.
  struct Vertex {
    Strip strip;
    std::vector<std::uint32_t> next;  // places in the list of vertices; the likeliest first
  };
  [[nodiscard]] std::vector<Vertex> vertices() const;
  // The groups, ordered by their least strips. Each begins with its least strip and goes on as
  // reads would; one of more than kStripsInSegment is given in parts of that, except that a last
  // strip that would be alone is left out.
  [[nodiscard]] static std::vector<StripGroup> groups_of(const std::vector<Vertex>& vertices);
  [[nodiscard]] std::vector<StripGroup> groups() const { return groups_of(vertices()); }

 private:
  // A place in nodes_, and which of those that had it.
  struct Ref {
    std::uint32_t place = 0;
    std::uint32_t serial = 0;  // 0: none
    friend bool operator==(const Ref&, const Ref&) = default;
  };
  struct Node {
    Strip strip;
    std::uint32_t serial = 0;  // 0: empty
    std::uint8_t next_at = 0;  // where the next successor goes
    std::array<Ref, SuccessorOptions::kMostRecent> successors{};
    std::list<std::uint32_t>::iterator age;
  };
  struct StreamKey {
    std::uint64_t client = 0;
    layout::ObjectId object;  // zeros: whatever the client reads
    friend bool operator==(const StreamKey&, const StreamKey&) = default;
  };
  struct StreamHash {
    std::size_t operator()(const StreamKey& key) const noexcept {
      return std::hash<layout::ObjectId>{}(key.object) ^ key.client * 0x9E3779B97F4A7C15ULL;
    }
  };
  struct Stream {
    Ref last;
    std::list<StreamKey>::iterator age;
  };

  [[nodiscard]] std::uint32_t place_of(const Strip& strip);
  [[nodiscard]] bool stands(Ref ref) const {
    return ref.serial != 0 && nodes_[ref.place].serial == ref.serial;
  }
  // What the stream had last, which is now `next`.
  Ref exchange_last(const StreamKey& key, Ref next);

  const SuccessorOptions options_;
  std::vector<Node> nodes_;
  std::unordered_map<Strip, std::uint32_t> places_;
  std::list<std::uint32_t> by_age_;  // of nodes_, what was read last first
  std::uint32_t last_serial_ = 0;
  std::unordered_map<StreamKey, Stream, StreamHash> streams_;
  std::list<StreamKey> streams_by_age_;  // likewise
};

}  // namespace weft::ds
