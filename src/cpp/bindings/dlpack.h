/// The DLPack ABI: how tensor libraries hand each other memory without linking each other.
///
/// For: tensor_conversion.cpp, which reads and makes torch tensors with it. Only what is used is declared, in the
/// layout of the standard, major version 1. Names of ours; the layout is the contract.
/// Source: DLPack 1.3, https://dmlc.github.io/dlpack/latest/c_api.html and the C exchange API in the same document.
#pragma once

#include <cstdint>

namespace et::bindings::dlpack {

inline constexpr uint32_t kMajorVersion = 1;
inline constexpr uint32_t kMinorVersion = 3;

struct Version {
  uint32_t major;
  uint32_t minor;
};

inline constexpr int32_t kCpu = 1;

struct Device {
  int32_t type;
  int32_t index;
};

/// `DataType::code`.
enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct DataType {
  uint8_t code;
  uint8_t bits;    // of one lane
  uint16_t lanes;  // 1 for us
};

struct Tensor {
  void* data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t* sizes;    // [rank]
  int64_t* strides;  // [rank], elements; nullptr (before 1.2): row-major
  uint64_t byte_offset;
};

inline constexpr uint64_t kReadOnly = 1;  ///< bit of ManagedTensor::flags

/// A tensor that must be given back. Travels in capsules named "dltensor_versioned".
struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor* self);  // may be nullptr
  uint64_t flags;
  Tensor tensor;
};

/// The form before version 1. Travels in capsules named "dltensor".
struct LegacyManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(LegacyManagedTensor* self);  // may be nullptr
};

/// The function table of a tensor library: attribute `__dlpack_c_exchange_api__` of its tensor type, a capsule named
/// "dlpack_exchange_api". Functions return 0, or -1 with a Python error set. Needs the GIL.
struct ExchangeApi {
  Version version;
  ExchangeApi* older;  // nullptr: there is none
  int (*allocate)(Tensor* prototype, ManagedTensor** out, void* error_context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensor** out);
  /// Takes over `tensor`; *object gets a new reference.
  int (*object_from_managed)(ManagedTensor* tensor, void** object);
  /// A view that is valid as long as the object is not changed. May be nullptr.
  int (*view_of_object)(void* object, Tensor* out);
  int (*current_stream)(int32_t device_type, int32_t device_index, void** stream);
};

}  // namespace et::bindings::dlpack
