#include "tools/npy.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/checked_math.h"
#include "base/visit_dtype.h"

namespace et::tools {
namespace {

/// Kind and size of an element as numpy has them: "f4". BFloat16, which numpy lacks, is two bytes of no type.
std::string code_of(ScalarType dtype) {
  const char kind = visit_dtype(dtype, [&](auto zero) {
    return dtype == ScalarType::Bool            ? 'b'
           : dtype == ScalarType::BFloat16      ? 'V'
           : is_complex(dtype)                  ? 'c'
           : is_floating(dtype)                 ? 'f'
           : std::is_unsigned_v<decltype(zero)> ? 'u'
                                                : 'i';
  });
  return kind + std::to_string(element_size(dtype));
}
constexpr ScalarType kDtypes[] = {
#define ET_DTYPE(name, value, c_type, text, nbytes, word) ScalarType::name,
#include "base/dtype.def"
#undef ET_DTYPE
};

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// The text after `'key':` in the header's dictionary.
const char* after_key(const std::string& header, const char* key) {
  const size_t found = header.find("'" + std::string(key) + "'");
  if (found == std::string::npos) {
    return nullptr;
  }
  const size_t colon = header.find(':', found);
  return colon == std::string::npos ? nullptr : header.c_str() + colon + 1;
}

}  // namespace

Result<std::vector<uint8_t>> read_file(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  ET_CHECK_OR_RETURN(file != nullptr, AccessFailed, "cannot open '%s': %s", path.c_str(), std::strerror(errno));
  std::vector<uint8_t> bytes;
  uint8_t chunk[65536];
  for (size_t n; (n = std::fread(chunk, 1, sizeof(chunk), file.get())) > 0;) {
    bytes.insert(bytes.end(), chunk, chunk + n);
  }
  ET_CHECK_OR_RETURN(std::ferror(file.get()) == 0, AccessFailed, "cannot read '%s'", path.c_str());
  return bytes;
}

Result<NpyArray> read_npy(const std::string& path) {
  ET_TRY(std::vector<uint8_t> bytes, read_file(path));
  ET_CHECK_OR_RETURN(bytes.size() >= 12 && std::memcmp(bytes.data(), "\x93NUMPY", 6) == 0, InvalidArgument,
                     "'%s' is no .npy file", path.c_str());
  const bool is_long = bytes[6] >= 2;
  const size_t start = is_long ? 12 : 10;
  const size_t length = bytes[8] | bytes[9] << 8 |
                        (is_long ? static_cast<size_t>(bytes[10]) << 16 | static_cast<size_t>(bytes[11]) << 24 : 0);
  ET_CHECK_OR_RETURN(length <= bytes.size() - start, InvalidArgument, "'%s': the header is cut off", path.c_str());
  const std::string header(bytes.begin() + static_cast<std::ptrdiff_t>(start),
                           bytes.begin() + static_cast<std::ptrdiff_t>(start + length));
  const char* descr = after_key(header, "descr");
  const char* order = after_key(header, "fortran_order");
  const char* shape = after_key(header, "shape");
  ET_CHECK_OR_RETURN(descr != nullptr && order != nullptr && shape != nullptr, InvalidArgument,
                     "'%s': the header lacks descr, fortran_order or shape", path.c_str());
  NpyArray array;
  const std::string text(descr);
  const size_t quote = text.find('\'');
  const std::string code =
      quote == std::string::npos ? "" : text.substr(quote + 1, text.find('\'', quote + 1) - quote - 1);
  bool known = false;
  for (const ScalarType dtype : kDtypes) {
    if (code.size() > 1 && code[0] != '>' && code.substr(1) == code_of(dtype)) {
      array.dtype = dtype;
      known = true;
    }
  }
  ET_CHECK_OR_RETURN(known, InvalidArgument, "'%s': dtype '%s' is not supported", path.c_str(), code.c_str());
  while (*order == ' ') {
    ++order;
  }
  ET_CHECK_OR_RETURN(std::strncmp(order, "False", 5) == 0, InvalidArgument,
                     "'%s' is in Fortran order; save a C-ordered array", path.c_str());
  const char* open = std::strchr(shape, '(');
  const char* close = std::strchr(shape, ')');
  ET_CHECK_OR_RETURN(open != nullptr && close != nullptr, InvalidArgument, "'%s': bad shape", path.c_str());
  uint64_t nbytes = element_size(array.dtype);
  for (const char* p = open + 1; p < close;) {
    char* end;
    const long long size = std::strtoll(p, &end, 10);
    if (end != p) {
      ET_CHECK_OR_RETURN(size >= 0 && !mul_overflow(nbytes, static_cast<uint64_t>(size), &nbytes), InvalidArgument,
                         "'%s': bad shape", path.c_str());
      array.sizes.push_back(size);
      p = end;
    } else {
      ++p;
    }
  }
  ET_CHECK_OR_RETURN(nbytes == bytes.size() - start - length, InvalidArgument,
                     "'%s' has %zu bytes of elements, its shape needs %llu", path.c_str(),
                     bytes.size() - start - length, static_cast<unsigned long long>(nbytes));
  array.data.assign(bytes.begin() + static_cast<std::ptrdiff_t>(start + length), bytes.end());
  return array;
}

Error write_npy(const std::string& path, const NpyArray& array) {
  std::string shape;
  for (const int64_t size : array.sizes) {
    shape += std::to_string(size) + (array.sizes.size() == 1 || &size != &array.sizes.back() ? ", " : "");
  }
  const char* prefix = element_size(array.dtype) == 1 ? "|" : "<";
  std::string header = "{'descr': '" + std::string(prefix) + code_of(array.dtype) +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // the elements start at a multiple of 64
  header += '\n';
  const File file(std::fopen(path.c_str(), "wb"), &std::fclose);
  ET_CHECK_OR_RETURN(file != nullptr, AccessFailed, "cannot write '%s': %s", path.c_str(), std::strerror(errno));
  const uint8_t start[] = {0x93,
                           'N',
                           'U',
                           'M',
                           'P',
                           'Y',
                           1,
                           0,
                           static_cast<uint8_t>(header.size() & 0xff),
                           static_cast<uint8_t>(header.size() >> 8)};
  const bool written = std::fwrite(start, 1, sizeof(start), file.get()) == sizeof(start) &&
                       std::fwrite(header.data(), 1, header.size(), file.get()) == header.size() &&
                       std::fwrite(array.data.data(), 1, array.data.size(), file.get()) == array.data.size() &&
                       std::fflush(file.get()) == 0;
  ET_CHECK_OR_RETURN(written, AccessFailed, "cannot write '%s': %s", path.c_str(), std::strerror(errno));
  return Error::Ok;
}

}  // namespace et::tools
