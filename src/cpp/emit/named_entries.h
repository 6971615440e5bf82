/// The named data of a `.pte`: keys and the bytes that are written, in the program's form or in a sparse one. Entries
/// of the program that go to a `.ptd` (flat_tensor.h) are none of them.
///
/// For: emit.cpp. The program's entries are borrowed, what is made here is kept for the file.
///
///     NamedEntries entries(program, constants);
///     entries.add(kDebugKey, debug_table(program, origins, handles));
///     entries.make_sparse(0.4);
///     for (const auto& [key, bytes] : entries.sorted()) { … }
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "emit/data_pool.h"
#include "ir/graph.h"

namespace et::emit {

class NamedEntries {
 public:
  /// `constants` are all in the file: their bytes are stored as they are. Both outlive this object.
  NamedEntries(const ir::Program& program, const DataPool& constants);

  /// Adds an entry of ours. The program has none with this key.
  void add(std::string_view key, std::string bytes);

  /// Adds the sparse form of what is called `name`. The program has neither form of it.
  void add_sparse(std::string_view name, std::string bytes);

  /// Replaces entries that may be sparse, have at least this part of zeros and become clearly smaller by their sparse
  /// form (numerics/sparse_bytes.h). Bytes that the file holds anyway stay: those of a constant, or of an entry that
  /// stays dense.
  void make_sparse(double least_zeros);

  /// Key and bytes, in order of the keys.
  const std::map<std::string_view, std::string_view>& sorted() const { return entries_; }
  /// What has to live as long as the entries, beside the program.
  std::shared_ptr<const void> own_bytes() const { return own_; }

 private:
  bool is_dense(const ir::NamedData& entry) const;
  std::string_view keep(std::string text) { return own_->emplace_back(std::move(text)); }

  const ir::Program& program_;
  const DataPool& constants_;
  ContentIndex dense_;  // entries that have no sparse form
  std::map<std::string_view, std::string_view> entries_;
  std::shared_ptr<std::deque<std::string>> own_ =
      std::make_shared<std::deque<std::string>>();  // its elements never move
};

}  // namespace et::emit
