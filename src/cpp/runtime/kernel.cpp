#include "runtime/kernel.h"

#include <cstring>

#include "base/tensor_text.h"
#include "runtime/features.h"
#include "runtime/memory_allocator.h"
#include "runtime/overlapped_kernel.h"
#include "runtime/tensor_lists.h"

namespace et::runtime {
namespace {

Result<void*> allocate_from(MemoryAllocator* allocator, const char* which, size_t nbytes, size_t alignment) {
  ET_CHECK_OR_RETURN(allocator != nullptr, MemoryAllocationFailed,
                     "%zu bytes are needed, but the MemoryManager has no %s", nbytes, which);
  void* memory = allocator->allocate(nbytes, alignment);
  ET_CHECK_OR_RETURN(memory != nullptr, MemoryAllocationFailed,
                     "the %s has no room for %zu bytes (%zu bytes are used); give it more memory", which, nbytes,
                     allocator->used());
  return memory;
}

}  // namespace

Result<void*> KernelContext::allocate_temp(size_t nbytes, size_t alignment) {
  temp_used_ = true;
  return allocate_from(temp_allocator_, "temp_allocator", nbytes, alignment);
}

Result<void*> KernelContext::allocate_data(size_t nbytes, size_t alignment) {
  return allocate_from(data_allocator_, "data_allocator", nbytes, alignment);
}

void KernelContext::release_temp() {
  if (temp_allocator_ != nullptr) {
    temp_allocator_->reset();
  }
  temp_used_ = false;
}

Result<void*> PrepareContext::allocate(size_t nbytes, size_t alignment) {
  return allocate_from(method_allocator_, "method_allocator", nbytes, alignment);
}

bool PrepareContext::is_constant(const EValue& value) const { return query_ != nullptr && query_(method_, value); }

Error KernelRegistry::add(const KernelTable& table) {
  ET_CHECK_OR_RETURN(count_ < kMaxTables, RegistrationExceedingMaxKernels,
                     "%zu tables of kernels are registered already", count_);
  KernelTable& added = tables_[count_++];
  added = table;
  added.library = table.library == nullptr ? "" : table.library;
  return Error::Ok;
}

size_t KernelRegistry::find(std::string_view name, Span<const Kernel*> out) const {
  size_t found = 0;
  for (size_t t = 0; t < count_; ++t) {
    for (const Kernel& kernel : tables_[t].kernels) {
      if (name != kernel.name) {
        continue;
      }
      // Insertion by priority; a later one goes before an earlier one of equal priority.
      size_t place = 0;
      const size_t kept = found < out.size() ? found : out.size();
      while (place < kept && out[place]->priority > kernel.priority) {
        ++place;
      }
      if (place < out.size()) {
        for (size_t i = kept < out.size() ? kept : out.size() - 1; i > place; --i) {
          out[i] = out[i - 1];
        }
        out[place] = &kernel;
      }
      ++found;
    }
  }
  return found;
}

bool KernelRegistry::has(std::string_view name) const { return find(name, {}) > 0; }

bool signature_accepts(char letter, const EValue& value) {
  switch (letter) {
    case 'T':
    case 'e':
    case 'x':
    case 'o':
    case 'p': return value.is_tensor();
    case 't':
    case 'E': return value.is_tensor() || value.is_none();
    case 'I':
    case 'B':
    case 'Y': return value.is_int() || value.is_bool() || value.is_none();
    case 'i':
    case 'b':
    case 'y': return value.is_int() || value.is_bool();
    case 'D':
    case 'N': return value.is_number() || value.is_none();
    case 'd':
    case 'n':
    case 'r': return value.is_number();
    case 'S': return value.is_string() || value.is_none();
    case 's': return value.is_string();
    case 'L': return value.is_int_list() || value.is_none();
    case 'l': return value.is_int_list();
    case 'F': return value.is_double_list() || value.is_none();
    case 'f': return value.is_double_list();
    case 'm': return value.is_bool_list();
    case 'v': return value.is_tensor_list();
    case 'w': return value.is_optional_tensor_list();
    default: return false;
  }
}

bool signature_writes(const char* signature, size_t i) {
  // std::strchr is made for speed: 200 bytes on a microcontroller.
  const auto has = [](const char* letters, char letter) {
    while (*letters != '\0' && *letters != letter) {
      ++letters;
    }
    return *letters != '\0';
  };
  return signature[i] == 'o' || (signature[i] == 'v' && !has(signature, 'o') && !has(signature + i + 1, 'v'));
}

namespace {

/// True when a kernel that writes `written` may have `other` as it is. What is written may grow to its capacity. One
/// tensor is itself even before it has memory, and takes the output's sizes while it is read, unless they are fixed; of
/// two, one without memory gets its own, the caller's or the allocator's.
bool is_apart(const TensorImpl& written, const TensorImpl& other, bool other_is_written, bool may_be_in_place) {
  if (&written == &other) {
    return written.dynamism() == TensorShapeDynamism::kStatic && (may_be_in_place || written.numel() == 0);
  }
  const auto begin = reinterpret_cast<uintptr_t>(written.data());
  const auto other_begin = reinterpret_cast<uintptr_t>(other.data());
  const size_t nbytes = written.capacity();
  const size_t other_nbytes = other_is_written ? other.capacity() : other.nbytes();
  const bool is_empty = begin == 0 || other_begin == 0 || nbytes == 0 || other_nbytes == 0;
  return is_empty ||
         (other_begin - begin >= nbytes && begin - other_begin >= other_nbytes) ||  // unsigned: wraps around
         (may_be_in_place && begin == other_begin);
}

/// Two tensors that stay as `prepare` saw them.
bool are_fixed(const TensorImpl& a, const TensorImpl& b) {
  return &a != &b && a.dynamism() == TensorShapeDynamism::kStatic && b.dynamism() == TensorShapeDynamism::kStatic;
}

bool search_overlap(const char* signature, Span<EValue* const> args, bool is_before_prepare, Overlap* found) {
  for (size_t i = 0; signature[i] != '\0'; ++i) {
    if (!signature_writes(signature, i)) {
      continue;
    }
    for (size_t j = 0; signature[j] != '\0'; ++j) {
      const bool other_is_written = signature_writes(signature, j);
      if (signature[j] == 'p' || (other_is_written && j >= i)) {
        continue;  // gets its memory from the kernel; or looked at from its side
      }
      const bool may_be_in_place = signature[j] == 'e' || signature[j] == 'E';
      const bool all_apart = all_tensors(*args[i], [&](const Tensor& written) {
        return all_tensors(*args[j], [&](const Tensor& other) {
          return (is_before_prepare && signature[j] == 'x' &&
                  are_fixed(*written.unsafe_impl(), *other.unsafe_impl())) ||
                 is_apart(*written.unsafe_impl(), *other.unsafe_impl(), other_is_written, may_be_in_place);
        });
      });
      if (!all_apart) {
        *found = {i, j, other_is_written};
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool find_overlap(const char* signature, Span<EValue* const> args, Overlap* found) {
  return search_overlap(signature, args, false, found);
}

bool find_overlap_before_prepare(const char* signature, Span<EValue* const> args, Overlap* found) {
  return search_overlap(signature, args, true, found);
}

void report(const Overlap& overlap) {
  ET_LOG_ERROR("what argument %zu is written to lies over argument %zu, which the operator %s", overlap.written,
               overlap.other, overlap.both_are_written ? "writes, too" : "still reads then");
}

Error check_written_apart(const char* signature, Span<EValue* const> args, Error error) {
  Overlap overlap;
  if (!find_overlap(signature, args, &overlap)) {
    return Error::Ok;
  }
  report(overlap);
  return error;
}

Error resize_tensor(KernelContext& context, const Tensor& out, IntArrayRef sizes) {
  TensorImpl* impl = out.unsafe_impl();
  if (equal(sizes, impl->sizes())) {
    return Error::Ok;
  }
  if (has(Feature::kDynamicShapes) && impl->dynamism() == TensorShapeDynamism::kDynamicUnbound &&
      sizes.size() == impl->dim()) {
    size_t nbytes = element_size(impl->dtype());
    bool overflows = false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      overflows = overflows || sizes[d] < 0 || mul_overflow(nbytes, static_cast<size_t>(sizes[d]), &nbytes);
    }
    ET_CHECK_OR_RETURN(!overflows, OutOfResources, "the size of a data-dependent tensor, %s, does not fit memory",
                       ShapeText(sizes).text);
    if (nbytes > impl->capacity()) {
      ET_TRY(void* const memory, context.allocate_data(nbytes));
      impl->set_data(memory, nbytes);
    }
  }
  const Error error = impl->resize(sizes);
  if (error != Error::Ok) {
    ET_LOG_ERROR("an output of sizes %s is needed, the program has set aside %s", ShapeText(sizes).text,
                 TensorText(impl->dtype(), impl->sizes()).text);
    return error == Error::NotSupported ? Error::InvalidArgument : error;
  }
  return Error::Ok;
}

}  // namespace et::runtime
