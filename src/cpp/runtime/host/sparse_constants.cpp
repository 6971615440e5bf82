#include "runtime/host/sparse_constants.h"

#include <algorithm>

#include "runtime/host/pages.h"

namespace et::runtime {

SparseConstants::~SparseConstants() {
  for (const auto& [key, constant] : constants_) {
    unmap_pages(constant->pages, constant->sparse.nbytes() + kReadAhead);
  }
}

bool SparseConstants::find(std::string_view key, NamedDataEntry* entry) const {
  if (!program_.find(std::string(kSparseConstantPrefix).append(key), entry)) {
    return others_.find(key, entry);
  }
  if (entry != nullptr) {
    entry->key = entry->key.substr(kSparseConstantPrefix.size());
  }
  return true;
}

Result<SparseConstants::Constant*> SparseConstants::constant_of(std::string_view key) const {
  if (const auto found = constants_.find(key); found != constants_.end()) {
    return found->second.get();
  }
  const std::string sparse_key = std::string(kSparseConstantPrefix).append(key);
  auto made = std::make_unique<Constant>();
  made->owner = this;
  ET_TRY(made->entry, program_.get(sparse_key));
  ET_RETURN_IF_ERROR(read_sparse_bytes(sparse_key, {made->entry.data(), made->entry.size()}, &made->sparse));
  const size_t nbytes = made->sparse.nbytes();  // at most 32 times those of the entry: no overflow
  made->pages = map_pages(nbytes + kReadAhead);
  ET_CHECK_OR_RETURN(made->pages != nullptr, MemoryAllocationFailed, "no memory to unpack '%.*s' to %zu bytes",
                     static_cast<int>(std::min<size_t>(key.size(), 200)), key.data(), nbytes);
  by_address_.emplace(made->pages, made.get());
  return constants_.emplace(std::string(key), std::move(made)).first->second.get();
}

Result<FreeableBuffer> SparseConstants::get(std::string_view key) const {
  if (!program_.find(std::string(kSparseConstantPrefix).append(key), nullptr)) {
    return others_.get(key);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  ET_TRY(Constant* const constant, constant_of(key));
  if (constant->num_holding == 0) {
    unpack(constant->sparse, constant->pages);
    program_.discard(constant->entry.data(), constant->entry.size());  // the file's pages
  }
  ++constant->num_holding;
  User& user = constant->users.emplace_back(User{constant, true});
  return FreeableBuffer(constant->pages, constant->sparse.nbytes(), &SparseConstants::free_user, &user);
}

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
    nbytes += constant->sparse.nbytes() - std::min(constant->sparse.nbytes(), constant->entry.size());
  }
  return nbytes;
}

}  // namespace et::runtime
