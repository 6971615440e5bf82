#include "runtime/host/pack_identity.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>

#include <sys/stat.h>

#ifdef __linux__
#include <elf.h>
#include <link.h>
#endif

#include "base/content_hash.h"
#include "runtime/host/instruction_set.h"
#include "runtime/host/tiles.h"

namespace et::runtime {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint64_t nanoseconds(const timespec& time) {
  return static_cast<uint64_t>(time.tv_sec) * kSecond + static_cast<uint64_t>(time.tv_nsec);
}

#ifdef __linux__

uint64_t build_id(const dl_phdr_info& module) {
  for (size_t i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = module.dlpi_phdr[i];
    const auto* note = reinterpret_cast<const char*>(module.dlpi_addr + segment.p_vaddr);
    const auto* const end = note + segment.p_memsz;
    while (segment.p_type == PT_NOTE && static_cast<size_t>(end - note) >= sizeof(ElfW(Nhdr))) {
      const auto& head = *reinterpret_cast<const ElfW(Nhdr)*>(note);
      const size_t name_nbytes = (head.n_namesz + 3u) & ~size_t{3}, nbytes = (head.n_descsz + 3u) & ~size_t{3};
      const char* const id = note + sizeof(head) + name_nbytes;
      if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && std::memcmp(note + sizeof(head), "GNU", 4) == 0) {
        return content_hash(id, head.n_descsz);
      }
      note = id + nbytes;
    }
  }
  return 0;
}

/// Fills in the module that has the address `begin`.
int find_module(dl_phdr_info* module, size_t, void* opaque) {
  auto* const code = static_cast<PackingCode*>(opaque);
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (size_t i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = module->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD) {
      const auto from = static_cast<uintptr_t>(module->dlpi_addr + segment.p_vaddr);
      begin = std::min(begin, from);
      end = std::max(end, from + static_cast<uintptr_t>(segment.p_memsz));
    }
  }
  if (code->begin < begin || code->begin >= end) {
    return 0;
  }
  *code = {begin, end, build_id(*module)};
  return 1;
}

/// The lines of /proc/cpuinfo that say what the first processor is and has.
uint64_t hash_of_processor() {
  constexpr std::string_view kFacts[] = {"vendor_id", "cpu family", "model\t",         "flags",
                                         "Features",  "CPU part",   "CPU implementer", "CPU variant"};
  std::FILE* const file = std::fopen("/proc/cpuinfo", "r");
  uint64_t hash = 0;
  char line[8192];
  while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr && line[0] != '\n') {
    const std::string_view text(line);
    if (std::any_of(std::begin(kFacts), std::end(kFacts),
                    [text](std::string_view fact) { return text.substr(0, fact.size()) == fact; })) {
      const uint64_t pair[] = {hash, content_hash(text.data(), text.size())};
      hash = content_hash(pair, sizeof(pair));
    }
  }
  if (file != nullptr) {
    std::fclose(file);
  }
  return hash;
}

#endif

}  // namespace

FileStamp stamp_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    return {};
  }
#ifdef __APPLE__
  const timespec &changed = status.st_mtimespec, &touched = status.st_ctimespec;
#else
  const timespec &changed = status.st_mtim, &touched = status.st_ctim;
#endif
  return {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino),
          static_cast<uint64_t>(status.st_size), nanoseconds(changed), nanoseconds(touched)};
}

bool is_settled(const FileStamp& stamp) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return stamp[1] != 0 && std::max(stamp[3], stamp[4]) + 2 * kSecond < nanoseconds(now);
}

const PackingCode& packing_code() {
  static const PackingCode code = [] {
    PackingCode found;
#ifdef __linux__
    found.begin = reinterpret_cast<uintptr_t>(&packing_code);
    dl_iterate_phdr(&find_module, &found);
#endif
    return found;
  }();
  return code;
}

uint64_t processor_identity() {
#ifdef __linux__
  static const uint64_t identity = [] {
    const Tiles& tiles = granted_tiles();
    const uint64_t facts[] = {hash_of_processor(), static_cast<uint64_t>(instruction_limit()), tiles.int8,
                              tiles.bfloat16};
    return facts[0] == 0 ? 0 : content_hash(facts, sizeof(facts));
  }();
  return identity;
#else
  return 0;
#endif
}

}  // namespace et::runtime
