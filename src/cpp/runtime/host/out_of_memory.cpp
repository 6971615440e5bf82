#include "runtime/host/out_of_memory.h"

#include <cstdio>

namespace et::runtime {
namespace {

class OutOfMemory final : public std::bad_alloc {
 public:
  explicit OutOfMemory(size_t nbytes) : nbytes_(nbytes) {}
  size_t nbytes() const { return nbytes_; }

 private:
  size_t nbytes_;
};

}  // namespace

void throw_out_of_memory(size_t nbytes) { throw OutOfMemory(nbytes); }

RequestText::RequestText(const std::bad_alloc& fault) {
  if (const auto* const known = dynamic_cast<const OutOfMemory*>(&fault)) {
    std::snprintf(text, sizeof(text), "%zu bytes", known->nbytes());
  }
}

}  // namespace et::runtime
