#include "runtime/external_data.h"

#include "base/tensor_text.h"
#include "runtime/program_verifier.h"

namespace et::runtime {

Result<FreeableBuffer> load_external_tensor(const NamedDataMap* map, const schema::Tensor& tensor) {
  const std::string_view name = view(tensor.extra_tensor_info()->fully_qualified_name());
  const auto dtype = static_cast<ScalarType>(tensor.scalar_type());
  NamedDataEntry entry;
  ET_CHECK_OR_RETURN(map != nullptr && map->find(name, &entry), InvalidExternalData,
                     "the program takes tensor '%.*s' from a .ptd file; none that was given has it",
                     static_cast<int>(name.size()), name.data());
  ET_CHECK_OR_RETURN(
      !entry.is_tensor || (entry.layout.dtype == dtype && equal(entry.layout.sizes, span(tensor.sizes())) &&
                           equal(entry.layout.dim_order, span(tensor.dim_order()))),
      InvalidExternalData,
      "external tensor '%.*s' is %s in the .ptd and %s in the program, or differs in dim_order; the two files do not "
      "belong together",
      static_cast<int>(name.size()), name.data(), TensorText(entry.layout.dtype, entry.layout.sizes).text,
      TensorText(dtype, span(tensor.sizes())).text);
  ET_TRY(FreeableBuffer bytes, map->get(name));
  const uint64_t nbytes = tensor_nbytes(tensor);
  ET_CHECK_OR_RETURN(bytes.size() >= nbytes && reinterpret_cast<uintptr_t>(bytes.data()) % element_size(dtype) == 0,
                     InvalidExternalData,
                     "external tensor '%.*s' has %zu bytes in the .ptd (or is not aligned), the program needs %" PRIu64,
                     static_cast<int>(name.size()), name.data(), bytes.size(), nbytes);
  return bytes;
}

}  // namespace et::runtime
