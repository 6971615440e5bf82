/// PackCache: packed weights in a file, which the next process maps instead of packing them again.
///
/// For: HostProgram, whose caller names a directory (HostOptions::pack_cache). Not for: microcontrollers, and what is
/// packed of constants that lie outside of the program's files (sparse ones, which are unpacked first).
///
/// A file is of one model, one build of this library, one kind of processor and one ET_MAX_ISA, with tiles or without
/// (tiles.h). A model is known by its files' stamps, else by the contents. Packed bytes are checked when they are first
/// used. What does not fit or is damaged counts as not there, is said in the log, and is replaced. Processes: a file is
/// written under a name of its own and renamed. It never changes once it is there, but for the stamps of its model.
/// Threads: safe.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include <sys/stat.h>

#include "runtime/host/mmap_loader.h"
#include "runtime/host/out_of_memory.h"
#include "runtime/host/pack_identity.h"
#include "runtime/host/packed_memory.h"

namespace et::runtime {

class PackCache {
 public:
  /// A file of the model, as it lies in memory. `stamp`: of what was mapped; zeros where it is no file.
  struct Source {
    Span<const uint8_t> bytes;
    FileStamp stamp{};
  };

  /// For the program at `path` ("": in memory), the first of `sources`, which are those of constants. Reads a file that
  /// is there. Errors: InvalidArgument, no such directory; NotSupported where a build or a processor cannot be known;
  /// MemoryAllocationFailed.
  static Result<std::unique_ptr<PackCache>> open(const std::string& directory, const std::string& path,
                                                 List<Source> sources);

  /// As PackedMemory::kept and keep.
  const void* find(const PackedName& name);
  void add(const PackedName& name, const void* packed, size_t nbytes);
  /// Writes the file if something was added. A failure is a warning in the log.
  void save();
  const std::string& path() const { return path_; }

 private:
  static constexpr size_t kMostWords = 32;
  using Name = std::array<uint64_t, kMostWords>;
  struct Pack {
    Name name;
    const uint8_t* data;
    size_t nbytes;
    uint64_t checksum;
    bool has_checksum, is_checked;
  };
  struct Head;
  struct Record;
  struct SourceRecord;
  struct StampRecord;

  explicit PackCache(List<Source> sources) : sources_(std::move(sources)) {}
  Error read(const std::string& program);
  const char* parse(Span<const uint8_t> file);
  bool is_model(const SourceRecord* records, const StampRecord* stamps, size_t stamps_offset);
  bool write(int file);
  bool name_of(const PackedName& given, Name* name) const;
  Pack* locate(const Name& name);
  uint64_t content_of(size_t source);

  std::string path_;
  mode_t mode_ = S_IRUSR | S_IWUSR;  // of the file: readable by whoever may read the program
  const List<Source> sources_;
  List<uint64_t> contents_;  // hashes of the sources, as far as known
  std::unique_ptr<MmapLoader> mapped_;
  std::mutex mutex_;  // guards all below, and contents_
  List<Pack> packs_;
  bool is_changed_ = false;
};

}  // namespace et::runtime
