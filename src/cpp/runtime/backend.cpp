#include "runtime/backend.h"

namespace et::runtime {

Error BackendRegistry::add(const char* name, const BackendInterface* backend) {
  ET_CHECK_OR_RETURN(find(name) == nullptr, RegistrationAlreadyRegistered, "a backend '%s' is registered already",
                     name);
  ET_CHECK_OR_RETURN(count_ < kMaxBackends, RegistrationExceedingMaxKernels, "%zu backends are registered already",
                     count_);
  entries_[count_++] = {name, backend};
  return Error::Ok;
}

const BackendInterface* BackendRegistry::find(std::string_view name) const {
  for (size_t i = 0; i < count_; ++i) {
    if (name == entries_[i].name) {
      return entries_[i].backend;
    }
  }
  return nullptr;
}

}  // namespace et::runtime
