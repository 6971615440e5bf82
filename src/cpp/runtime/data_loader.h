/// DataLoader: where the bytes of a file come from.
///
/// For: Program::load and FlatTensorDataMap::load. BufferLoader is here; runtime/host/ has those for files.
/// Not for: meaning. A loader knows ranges of bytes; what they say is checked by who loads them.
///
///     alignas(16) extern const unsigned char model_pte[];
///     BufferLoader loader(model_pte, model_pte_size);
///     ET_TRY(Program program, Program::load(&loader));
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace et::runtime {

/// A range of read-only bytes and how to give it back. Movable; frees when it goes.
class FreeableBuffer {
 public:
  /// Gives back what load() returned. `context` is the loader's own.
  using FreeFn = void (*)(void* context, const void* data, size_t size);

  FreeableBuffer() = default;
  /// `free` may be nullptr: then nothing is done at the end.
  FreeableBuffer(const void* data, size_t size, FreeFn free = nullptr, void* context = nullptr)
      : data_(data), size_(size), free_(free), context_(context) {}
  FreeableBuffer(FreeableBuffer&& other) noexcept { *this = std::move(other); }
  FreeableBuffer& operator=(FreeableBuffer&& other) noexcept {
    if (this != &other) {
      release();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      free_ = std::exchange(other.free_, nullptr);
      context_ = other.context_;
    }
    return *this;
  }
  FreeableBuffer(const FreeableBuffer&) = delete;
  FreeableBuffer& operator=(const FreeableBuffer&) = delete;
  ~FreeableBuffer() { release(); }

  const uint8_t* data() const { return static_cast<const uint8_t*>(data_); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// True when the bytes are not this buffer's own: they stay at their address as long as the loader.
  bool is_borrowed() const { return free_ == nullptr; }

  /// Gives the bytes back now; the buffer is empty afterwards. A backend calls it when it needs its payload no longer.
  void release() {
    if (free_ != nullptr) {
      free_(context_, data_, size_);
    }
    data_ = nullptr;
    size_ = 0;
    free_ = nullptr;
  }
  /// The published name of release().
  void Free() { release(); }

 private:
  const void* data_ = nullptr;
  size_t size_ = 0;
  FreeFn free_ = nullptr;
  void* context_ = nullptr;
};

/// Reads ranges of one file. Must outlive every buffer it gave.
/// Threads: an implementation allows load() from several threads at once.
class DataLoader {
 public:
  virtual ~DataLoader() = default;

  /// The bytes [offset, offset + nbytes). They begin at an address that is a multiple of 16 when `offset` is one, and
  /// do not change while the buffer lives. Errors: InvalidArgument when the range is not inside the file; AccessFailed
  /// when it cannot be read;
  ///         MemoryAllocationFailed.
  virtual Result<FreeableBuffer> load(size_t offset, size_t nbytes) = 0;

  /// Says that nobody will read these bytes soon, because what was to be made of them has been made. They stay valid: a
  /// loader may only free memory that it fills again at the next access. Bytes of others are ignored.
  virtual void discard(const void* data, size_t nbytes) {
    static_cast<void>(data);
    static_cast<void>(nbytes);
  }

  /// Bytes of the file.
  virtual size_t size() const = 0;
};

/// Serves ranges of memory that the caller keeps alive and unchanged. Copies nothing. The memory must start at a
/// multiple of 16 (Program::load checks it).
class BufferLoader final : public DataLoader {
 public:
  BufferLoader(const void* data, size_t size) : data_(static_cast<const uint8_t*>(data)), size_(size) {}

  Result<FreeableBuffer> load(size_t offset, size_t nbytes) override {
    ET_CHECK_OR_RETURN(offset <= size_ && nbytes <= size_ - offset, InvalidArgument,
                       "%zu bytes at %zu are not inside a buffer of %zu bytes", nbytes, offset, size_);
    return FreeableBuffer(data_ + offset, nbytes);
  }
  size_t size() const override { return size_; }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace et::runtime
