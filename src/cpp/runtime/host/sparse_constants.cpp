#include "runtime/host/sparse_constants.h"

#include <algorithm>

#include "runtime/host/out_of_memory.h"
#include "runtime/host/pages.h"

namespace et::runtime {

SparseConstants::SparseConstants(const NamedDataMap& program, const NamedDataMap& others)
    : program_(program), others_(others) {
  for (size_t i = 0; i < program.num_entries(); ++i) {
    const std::string_view key = program.entry(i).key;
    if (key.substr(0, kSparseConstantPrefix.size()) == kSparseConstantPrefix) {
      constants_.try_emplace(key.substr(kSparseConstantPrefix.size()), Constant{this, i, {}, {}});
    }
  }
}

SparseConstants::~SparseConstants() {
  for (const auto& [key, constant] : constants_) {
    unmap_pages(constant.pages, constant.sparse.nbytes() + kReadAhead);
  }
}

bool SparseConstants::find(std::string_view key, NamedDataEntry* entry) const {
  const auto found = constants_.find(key);
  if (found == constants_.end()) {
    return others_.find(key, entry);
  }
  if (entry != nullptr) {
    *entry = program_.entry(found->second.position);
    entry->key = found->first;
  }
  return true;
}

/// Reads the sparse form and gives it pages to be unpacked to, once.
Error SparseConstants::load(Constant& constant) const {
  if (constant.pages != nullptr) {
    return Error::Ok;
  }
  const std::string_view key = program_.entry(constant.position).key;
  ET_TRY(FreeableBuffer entry, program_.get(key));
  SparseBytes sparse;
  ET_RETURN_IF_ERROR(read_sparse_bytes(key, {entry.data(), entry.size()}, &sparse));
  const size_t nbytes = sparse.nbytes();  // at most 32 times those of the entry: no overflow
  void* const pages = map_pages(nbytes + kReadAhead);
  ET_CHECK_OR_RETURN(pages != nullptr, MemoryAllocationFailed, "no memory to unpack '%.*s' to %zu bytes",
                     static_cast<int>(std::min<size_t>(key.size(), 200)), key.data(), nbytes);
  constant.pages = pages;
  constant.sparse = sparse;
  constant.entry = std::move(entry);
  return Error::Ok;
}

Result<FreeableBuffer> SparseConstants::get(std::string_view key) const try {
  const auto found = constants_.find(key);
  if (found == constants_.end()) {
    return others_.get(key);
  }
  Constant& constant = found->second;
  const std::lock_guard<std::mutex> lock(mutex_);
  ET_RETURN_IF_ERROR(load(constant));
  by_address_.emplace(constant.pages, &constant);
  User& user = constant.users.emplace_back(User{&constant, true});
  if (constant.num_holding == 0) {
    unpack(constant.sparse, constant.pages);
    program_.discard(constant.entry.data(), constant.entry.size());  // the file's pages
  }
  ++constant.num_holding;
  return FreeableBuffer(constant.pages, constant.sparse.nbytes(), &SparseConstants::free_user, &user);
}
ET_NO_MEMORY("the tables of constant '%.*s'", static_cast<int>(std::min<size_t>(key.size(), 200)), key.data())

void SparseConstants::stop(User& user) {
  if (user.holds) {
    user.holds = false;
    if (--user.constant->num_holding == 0) {
      drop_pages(user.constant->pages, user.constant->sparse.nbytes() + kReadAhead);
    }
  }
}

void SparseConstants::free_user(void* opaque, const void* /*data*/, size_t /*nbytes*/) {
  auto* const user = static_cast<User*>(opaque);
  Constant& constant = *user->constant;
  const std::lock_guard<std::mutex> lock(constant.owner->mutex_);
  stop(*user);
  constant.users.remove_if([user](const User& other) { return &other == user; });
}

void SparseConstants::release(const void* data) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_address_.find(data);
  if (found == by_address_.end() || found->second->num_holding != 1) {
    return;  // whose hold ends could not be told: it ends with its method
  }
  std::list<User>& users = found->second->users;
  stop(*std::find_if(users.begin(), users.end(), [](const User& user) { return user.holds; }));
}

size_t SparseConstants::nbytes_not_in_file() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t nbytes = 0;
  for (const auto& [key, constant] : constants_) {
    nbytes += constant.sparse.nbytes() - std::min(constant.sparse.nbytes(), constant.entry.size());
  }
  return nbytes;
}

}  // namespace et::runtime
