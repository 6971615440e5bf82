#include "bindings/tensor_conversion.h"

#include <pybind11/numpy.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "base/checked_math.h"
#include "base/rounding.h"
#include "base/tensor_text.h"
#include "bindings/errors.h"
#include "runtime/host/pages.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

using runtime::kMaxRank;

/// DLPack's code and bits of each dtype, and numpy's name.
struct DTypeNames {
  ScalarType dtype;
  uint8_t code;
  uint8_t bits;
  const char* numpy;
};
template <typename T>
constexpr uint8_t code_of() {
  constexpr ScalarType dtype = dtype_of<T>;
  return dtype == ScalarType::Bool       ? dlpack::kBool
         : dtype == ScalarType::BFloat16 ? dlpack::kBfloat
         : is_complex(dtype)             ? dlpack::kComplex
         : is_floating(dtype)            ? dlpack::kFloat
         : std::is_unsigned_v<T>         ? dlpack::kUInt
                                         : dlpack::kInt;
}
constexpr DTypeNames kDTypes[] = {
#define ET_DTYPE(name, value, c_type, text, nbytes, word) {ScalarType::name, code_of<c_type>(), nbytes * 8, #word},
#include "base/dtype.def"
#undef ET_DTYPE
};

const DTypeNames& names_of(ScalarType dtype) {
  for (const DTypeNames& entry : kDTypes) {
    if (entry.dtype == dtype) {
      return entry;
    }
  }
  throw CoreError(Error::Internal, "a dtype outside the list");
}

/// The dtype with this code and size; false when no program has it.
bool find_dtype(uint8_t code, size_t bits, ScalarType* dtype) {
  for (const DTypeNames& entry : kDTypes) {
    if (entry.code == code && entry.bits == bits) {
      *dtype = entry.dtype;
      return true;
    }
  }
  return false;
}

/// A format of the buffer protocol (that of Python's `struct`) as a dtype; the size decides between platforms'
/// integers.
bool parse_format(const char* format, size_t itemsize, ScalarType* dtype) {
  if (format == nullptr) {
    *dtype = ScalarType::Byte;
    return itemsize == 1;
  }
  if (*format == '@' || *format == '=' || *format == '<') {
    ++format;
  }
  const bool complex = *format == 'Z';
  format += complex ? 1 : 0;
  if (format[0] == '\0' || format[1] != '\0') {
    return false;  // records, repeats, other byte order
  }
  uint8_t code = 0;
  switch (*format) {
    case 'e':
    case 'f':
    case 'd': code = complex ? dlpack::kComplex : dlpack::kFloat; break;
    case '?': code = dlpack::kBool; break;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': code = dlpack::kInt; break;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': code = dlpack::kUInt; break;
    default: return false;
  }
  return find_dtype(code, itemsize * 8, dtype);
}

/// The exchange API of a type, or nullptr. Looked up once a type; the cache keeps the types it knows alive.
const dlpack::ExchangeApi* exchange_api(PyTypeObject* type) {
  struct Known {
    PyTypeObject* type;
    const dlpack::ExchangeApi* api;
  };
  static Known known[16];  // guarded by the GIL
  static size_t count = 0;
  for (size_t i = 0; i < count; ++i) {
    if (known[i].type == type) {
      return known[i].api;
    }
  }
  const dlpack::ExchangeApi* api = nullptr;
  const py::object capsule =
      py::getattr(py::handle(reinterpret_cast<PyObject*>(type)), "__dlpack_c_exchange_api__", py::none());
  if (PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api") != 0) {
    api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (api != nullptr && api->version.major > dlpack::kMajorVersion) {
      api = api->older;
    }
    if (api != nullptr && (api->version.major != dlpack::kMajorVersion || api->view_of_object == nullptr)) {
      api = nullptr;
    }
  }
  if (count < std::size(known)) {
    Py_INCREF(type);
    known[count++] = {type, api};
  }
  return api;
}

/// Reads the pending Python error away and gives its text.
std::string take_python_error() {
  const py::error_already_set error;
  std::string text = py::str(error.value());
  return text.substr(0, text.find("\nException raised from"));  // what follows is torch's C++ stack
}

py::dtype numpy_dtype(ScalarType dtype) {
  if (dtype != ScalarType::BFloat16) {
    return py::dtype(std::string(names_of(dtype).numpy));
  }
  check_numpy_dtype(dtype);
  return py::dtype::from_args(py::module_::import("ml_dtypes").attr("bfloat16"));
}

}  // namespace

std::string describe(ScalarType dtype, Span<const int64_t> sizes) { return TensorText(dtype, sizes).text; }

TensorLibrary TensorLibrary::of_process() {
  const py::object torch = py::reinterpret_steal<py::object>(PyImport_GetModule(py::str("torch").ptr()));
  if (!torch) {
    PyErr_Clear();
    return TensorLibrary();
  }
  const py::object type = py::getattr(torch, "Tensor", py::none());
  return PyType_Check(type.ptr()) != 0 ? TensorLibrary(exchange_api(reinterpret_cast<PyTypeObject*>(type.ptr())))
                                       : TensorLibrary();
}

// BorrowedTensor

BorrowedTensor::BorrowedTensor(BorrowedTensor&& other) noexcept
    : view_(other.view_),
      object_(std::move(other.object_)),
      api_(other.api_),
      buffer_(std::exchange(other.buffer_, Py_buffer{})),
      capsule_(std::move(other.capsule_)) {}

void BorrowedTensor::release() {
  if (buffer_.obj != nullptr) {
    PyBuffer_Release(&buffer_);
    buffer_.obj = nullptr;
  }
  capsule_ = py::object();
  object_ = py::object();
  api_ = nullptr;
}

bool BorrowedTensor::borrow(py::handle object) {
  release();
  const dlpack::ExchangeApi* const api = exchange_api(Py_TYPE(object.ptr()));
  const bool found = api != nullptr ? borrow_exchange(object, api) : borrow_buffer(object) || borrow_capsule(object);
  if (found) {
    object_ = py::reinterpret_borrow<py::object>(object);
  }
  return found;
}

bool BorrowedTensor::borrow_exchange(py::handle object, const dlpack::ExchangeApi* api) {
  dlpack::Tensor tensor;
  if (api->view_of_object(object.ptr(), &tensor) != 0) {
    throw CoreError(Error::NotSupported,
                    "the tensor cannot be read (" + take_python_error() + "); pass a dense tensor on the CPU");
  }
  fill(tensor);
  api_ = api;
  return true;
}

void BorrowedTensor::fill(const dlpack::Tensor& tensor) {
  if (tensor.device.type != dlpack::kCpu) {
    throw CoreError(Error::NotSupported, "the tensor is not in the memory of the CPU; pass tensor.cpu()");
  }
  if (tensor.dtype.lanes != 1 || !find_dtype(tensor.dtype.code, tensor.dtype.bits, &view_.dtype)) {
    throw CoreError(Error::NotSupported, "the tensor has a dtype that no program has (DLPack code " +
                                             std::to_string(tensor.dtype.code) + ", " +
                                             std::to_string(tensor.dtype.bits) + " bits)");
  }
  if (tensor.rank < 0 || static_cast<size_t>(tensor.rank) > kMaxRank) {
    throw CoreError(Error::NotSupported, "the tensor has " + std::to_string(tensor.rank) + " dimensions, at most " +
                                             std::to_string(kMaxRank) + " are supported");
  }
  view_.rank = static_cast<size_t>(tensor.rank);
  view_.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  view_.read_only = false;
  const int64_t itemsize = static_cast<int64_t>(element_size(view_.dtype));
  int64_t dense = itemsize;
  for (size_t d = view_.rank; d-- > 0;) {
    view_.sizes[d] = tensor.sizes[d];
    view_.byte_strides[d] = tensor.strides == nullptr ? dense : tensor.strides[d] * itemsize;
    dense *= tensor.sizes[d];
  }
  if (tensor.data == nullptr && view_.numel() != 0) {
    throw CoreError(Error::NotSupported, "the tensor has no memory (a fake or uninitialised tensor); pass a real one");
  }
}

bool BorrowedTensor::borrow_buffer(py::handle object) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) {
    return false;
  }
  py::object source = py::reinterpret_borrow<py::object>(object);
  bool is_bfloat16 = false;
  if (PyObject_GetBuffer(source.ptr(), &buffer_, PyBUF_RECORDS_RO) != 0) {
    buffer_.obj = nullptr;
    const std::string reason = take_python_error();
    // numpy does not export the dtypes of extension packages; their bytes it does.
    is_bfloat16 = py::hasattr(source, "dtype") && py::str(source.attr("dtype")).equal(py::str("bfloat16"));
    if (is_bfloat16) {
      source = source.attr("view")("uint16");
    }
    if (!is_bfloat16 || PyObject_GetBuffer(source.ptr(), &buffer_, PyBUF_RECORDS_RO) != 0) {
      buffer_.obj = nullptr;
      PyErr_Clear();
      throw CoreError(Error::NotSupported, "the array cannot be read (" + reason + ")");
    }
  }
  const size_t itemsize = static_cast<size_t>(buffer_.itemsize);
  if (!parse_format(buffer_.format, itemsize, &view_.dtype)) {
    const std::string format = buffer_.format == nullptr ? "" : buffer_.format;
    release();
    throw CoreError(Error::NotSupported,
                    "the array has elements of format '" + format + "', which no program has; use astype() first");
  }
  if (is_bfloat16) {
    view_.dtype = ScalarType::BFloat16;
  }
  if (buffer_.ndim < 0 || static_cast<size_t>(buffer_.ndim) > kMaxRank) {
    const int rank = buffer_.ndim;
    release();
    throw CoreError(Error::NotSupported, "the array has " + std::to_string(rank) + " dimensions, at most " +
                                             std::to_string(kMaxRank) + " are supported");
  }
  view_.rank = static_cast<size_t>(buffer_.ndim);
  view_.data = buffer_.buf;
  view_.read_only = buffer_.readonly != 0;
  int64_t dense = buffer_.itemsize;  // some exporters (ctypes) give no strides, although they are requested
  for (size_t d = view_.rank; d-- > 0;) {
    view_.sizes[d] = buffer_.shape != nullptr ? buffer_.shape[d] : buffer_.len / buffer_.itemsize;
    view_.byte_strides[d] = buffer_.strides != nullptr ? buffer_.strides[d] : dense;
    dense *= view_.sizes[d];
  }
  return true;
}

bool BorrowedTensor::borrow_capsule(py::handle object) {
  if (!py::hasattr(object, "__dlpack__")) {
    return false;
  }
  try {
    const py::object method = object.attr("__dlpack__");
    try {
      capsule_ = method(py::arg("max_version") = py::make_tuple(dlpack::kMajorVersion, dlpack::kMinorVersion));
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_TypeError)) {  // written before version 1, or something is really wrong
        throw;
      }
      capsule_ = method();
    }
  } catch (py::error_already_set& error) {
    throw CoreError(Error::NotSupported, "the tensor cannot be read (" + std::string(py::str(error.value())) + ")");
  }
  // The capsule stays unconsumed: its own destructor gives the tensor back when the call is over.
  if (PyCapsule_IsValid(capsule_.ptr(), "dltensor_versioned") != 0) {
    const auto* managed =
        static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor_versioned"));
    if (managed->version.major != dlpack::kMajorVersion) {
      throw CoreError(Error::NotSupported, "the tensor speaks DLPack " + std::to_string(managed->version.major) +
                                               ", this library " + std::to_string(dlpack::kMajorVersion));
    }
    fill(managed->tensor);
    view_.read_only = (managed->flags & dlpack::kReadOnly) != 0;
    return true;
  }
  if (PyCapsule_IsValid(capsule_.ptr(), "dltensor") != 0) {
    fill(static_cast<dlpack::LegacyManagedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor"))->tensor);
    return true;
  }
  throw CoreError(Error::NotSupported, "the tensor's __dlpack__ gives no DLPack capsule");
}

void BorrowedTensor::resolve_lazy_bits() {
  if (api_ == nullptr || !py::hasattr(object_, "resolve_neg")) {
    return;
  }
  const py::object resolved = object_.attr("resolve_neg")();
  if (!resolved.is(object_)) {
    const dlpack::ExchangeApi* const api = api_;
    borrow_exchange(resolved, api);
    object_ = resolved;
  }
}

bool BorrowedTensor::is_negated() const {
  return api_ != nullptr && py::hasattr(object_, "is_neg") && py::cast<bool>(object_.attr("is_neg")());
}

// OutputBlock

/// Lies before the elements, in the same allocation.
struct OutputBlock::Header {
  dlpack::ManagedTensor managed;  // `context` is the header itself
  size_t nbytes;
  std::shared_ptr<SpareOutput> spare;  // where the memory goes in the end; may be none
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];
};

namespace {

constexpr size_t kAlignment = 64;

}  // namespace

SpareOutput::~SpareOutput() { std::free(memory_.load(std::memory_order_acquire)); }

OutputBlock OutputBlock::allocate(size_t nbytes, std::shared_ptr<SpareOutput> spare) {
  size_t total;
  void* memory = spare != nullptr ? spare->take() : nullptr;
  if (memory == nullptr &&
      !add_overflow(nbytes, round_up(sizeof(Header), kAlignment) + runtime::kReadAhead + kAlignment, &total)) {
    memory = std::aligned_alloc(kAlignment, round_up(total - kAlignment, kAlignment));
    // malloc maps such a block by itself, and its small pages take as long as a pass over it (98 MiB: 50 ms).
    constexpr size_t kMappedAlone = size_t{32} << 20;
    if (memory != nullptr && nbytes >= kMappedAlone) {
      runtime::want_huge_pages(memory, nbytes);
    }
  }
  if (memory == nullptr) {
    throw CoreError(Error::MemoryAllocationFailed, "no memory for an output of " + std::to_string(nbytes) + " bytes");
  }
  OutputBlock block;
  block.block_ = new (memory) Header;
  block.block_->nbytes = nbytes;
  block.block_->spare = std::move(spare);
  return block;
}

OutputBlock::~OutputBlock() { release(block_); }

void OutputBlock::release(Header* header) {
  if (header == nullptr) {
    return;
  }
  // The last to know of it when the method is gone: then it frees what it is given here.
  const std::shared_ptr<SpareOutput> spare = std::move(header->spare);
  header->~Header();
  if (spare == nullptr || !spare->keep(header)) {
    std::free(header);
  }
}

void* OutputBlock::data() const { return reinterpret_cast<char*>(block_) + round_up(sizeof(Header), kAlignment); }

size_t OutputBlock::nbytes() const { return block_->nbytes; }

py::object OutputBlock::to_python(TensorLibrary library, ScalarType dtype, Span<const int64_t> sizes,
                                  Span<const uint8_t> dim_order) && {
  Header* const header = block_;
  runtime::strides_from_dim_order(sizes, dim_order, header->strides);
  if (library.is_numpy()) {
    const py::dtype type = numpy_dtype(dtype);
    py::capsule owner(header, [](void* memory) { release(static_cast<Header*>(memory)); });
    void* const elements = data();
    block_ = nullptr;
    return numpy_view(elements, dtype, sizes, {header->strides, sizes.size()}, owner, true);
  }
  std::copy(sizes.begin(), sizes.end(), header->sizes);
  const DTypeNames& names = names_of(dtype);
  dlpack::ManagedTensor& managed = header->managed;
  managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  managed.context = header;
  managed.deleter = [](dlpack::ManagedTensor* self) { release(static_cast<Header*>(self->context)); };
  managed.flags = 0;
  managed.tensor = {data(),
                    {dlpack::kCpu, 0},
                    static_cast<int32_t>(sizes.size()),
                    {names.code, names.bits, 1},
                    header->sizes,
                    header->strides,
                    0};
  void* object = nullptr;
  block_ = nullptr;  // taken over, also when it fails
  if (library.api()->object_from_managed(&managed, &object) != 0) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(static_cast<PyObject*>(object));
}

void check_numpy_dtype(ScalarType dtype) {
  if (dtype != ScalarType::BFloat16) {
    return;
  }
  try {
    py::module_::import("ml_dtypes");
  } catch (py::error_already_set&) {
    throw CoreError(Error::NotSupported,
                    "numpy has no bfloat16 of its own: install ml_dtypes, or pass torch tensors to get torch tensors");
  }
}

py::object plain_to_python(const runtime::EValue& value) {
  switch (value.tag()) {
    case runtime::Tag::kInt: return py::int_(value.to_int());
    case runtime::Tag::kDouble: return py::float_(value.to_double());
    case runtime::Tag::kBool: return py::bool_(value.to_bool());
    case runtime::Tag::kString: return py::str(std::string(value.to_string_view()));
    case runtime::Tag::kNone: return py::none();
    default:
      throw CoreError(Error::NotSupported,
                      std::string("a ") + runtime::to_string(value.tag()) + " cannot be given to Python");
  }
}

namespace {

/// What a live view of another library than numpy needs as long as it lives.
struct SharedView {
  dlpack::ManagedTensor managed;  // `context` is the view itself
  py::object owner;
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];
};

}  // namespace

py::object live_view(TensorLibrary library, const runtime::Tensor& tensor, py::object owner) {
  if (library.is_numpy()) {
    return numpy_view(tensor.mutable_data_ptr(), tensor.scalar_type(), tensor.sizes(), tensor.strides(), owner, true);
  }
  auto* const view = new SharedView;
  view->owner = std::move(owner);
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), view->sizes);
  std::copy(tensor.strides().begin(), tensor.strides().end(), view->strides);
  const DTypeNames& names = names_of(tensor.scalar_type());
  view->managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  view->managed.context = view;
  view->managed.deleter = [](dlpack::ManagedTensor* self) {
    const py::gil_scoped_acquire gil;
    delete static_cast<SharedView*>(self->context);
  };
  view->managed.flags = 0;
  view->managed.tensor = {tensor.mutable_data_ptr(),
                          {dlpack::kCpu, 0},
                          static_cast<int32_t>(tensor.dim()),
                          {names.code, names.bits, 1},
                          view->sizes,
                          view->strides,
                          0};
  void* object = nullptr;
  if (library.api()->object_from_managed(&view->managed, &object) != 0) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(static_cast<PyObject*>(object));
}

py::object numpy_view(void* data, ScalarType dtype, Span<const int64_t> sizes, Span<const int64_t> strides,
                      py::handle owner, bool writable) {
  const py::ssize_t itemsize = static_cast<py::ssize_t>(element_size(dtype));
  py::array::ShapeContainer shape(sizes.begin(), sizes.end());
  py::array::StridesContainer byte_strides(strides.begin(), strides.end());
  for (py::ssize_t& stride : *byte_strides) {
    stride *= itemsize;
  }
  py::array array(numpy_dtype(dtype), std::move(shape), std::move(byte_strides), data, owner);
  if (!writable) {
    array.attr("setflags")(py::arg("write") = false);
  }
  return std::move(array);
}

}  // namespace et::bindings
