#include "runtime/host/pack_cache.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/content_hash.h"

namespace et::runtime {

// A file: Head, SourceRecords, Records, StampRecords, then packed bytes, each at a multiple of 64. Little-endian words,
// since no other processor reads it.

struct PackCache::Head {
  char magic[8];      // with the version of this layout
  uint64_t checksum;  // of all that follows, up to the end of the records
  uint64_t file_nbytes, code, processor, num_sources, num_packs, zero;
};

struct PackCache::SourceRecord {
  uint64_t nbytes, content;
};

struct PackCache::Record {
  Name name;
  uint64_t offset, nbytes, checksum;
};

struct PackCache::StampRecord {
  FileStamp stamp;
  uint64_t check;

  static StampRecord of(const FileStamp& stamp, uint64_t content) {
    StampRecord made{stamp, content};
    made.check = content_hash(&made, sizeof(made));
    return made;
  }
};

namespace {

constexpr char kMagic[8] = {'E', 'T', 'P', 'A', 'C', 'K', '0', '1'};
constexpr size_t kAlignment = 64, kPage = 4096;
constexpr uint64_t kMostSources = 1u << 16, kMostPacks = 1u << 20;
constexpr unsigned kFileShift = 56;  // above it in an address of a name: 1 and more a source, kCode the library
constexpr uint64_t kCode = 0xff;

size_t rounded_up(size_t nbytes, size_t to) { return (nbytes + to - 1) / to * to; }

std::string hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, number);
  return text;
}

/// Whether only this user, root, or who made the program can have written the file.
bool is_trusted(const struct stat& status, const struct stat& program) {
  return (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
         (status.st_uid == ::geteuid() || status.st_uid == 0 || status.st_uid == program.st_uid);
}

bool write_all(int file, const void* data, size_t nbytes) {
  for (size_t done = 0; done < nbytes;) {
    const ssize_t count = ::write(file, static_cast<const char*>(data) + done, nbytes - done);
    if (count < 0 && errno != EINTR) {
      return false;
    }
    done += static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<PackCache>> PackCache::open(const std::string& directory, const std::string& path,
                                                   List<Source> sources) try {
  struct stat status{};
  ET_CHECK_OR_RETURN(::stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode), InvalidArgument,
                     "pack_cache is '%s', which is no directory", directory.c_str());
  ET_CHECK_OR_RETURN(packing_code().identity != 0 && processor_identity() != 0, NotSupported,
                     "packed weights cannot be kept: this system does not say what build or processor it is");
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  struct stat beside{};
  const bool is_beside = !path.empty() && ::stat(folder.c_str(), &beside) == 0 && beside.st_dev == status.st_dev &&
                         beside.st_ino == status.st_ino;
  std::unique_ptr<PackCache> cache(new PackCache(std::move(sources)));
  cache->contents_.assign(cache->sources_.size(), 0);
  // Elsewhere two programs may have one name.
  uint64_t of_program = 0;
  if (path.empty()) {
    of_program = cache->content_of(0);
  } else if (!is_beside) {
    const std::unique_ptr<char, decltype(&std::free)> whole(::realpath(path.c_str(), nullptr), &std::free);
    const char* const text = whole == nullptr ? path.c_str() : whole.get();
    of_program = content_hash(text, std::strlen(text));
  }
  const std::string name = path.empty() ? "program" : path.substr(slash == std::string::npos ? 0 : slash + 1);
  cache->path_ = directory + "/" + name + "." + hex(of_program ^ processor_identity()) + ".packed";
  ET_RETURN_IF_ERROR(cache->read(path));
  return cache;
}
ET_NO_MEMORY("the table of packed weights in '%s'", directory.c_str())

Error PackCache::read(const std::string& program) {
  struct stat status{}, of_program{};
  of_program.st_uid = ::geteuid();
  if (!program.empty()) {
    static_cast<void>(::stat(program.c_str(), &of_program));
    mode_ |= of_program.st_mode & (S_IRUSR | S_IRGRP | S_IROTH);
  }
  if (::stat(path_.c_str(), &status) != 0) {
    return Error::Ok;  // not written yet
  }
  const char* fault = is_trusted(status, of_program) ? nullptr : "others may have written it";
  if (fault == nullptr) {
    Result<std::unique_ptr<MmapLoader>> mapped = MmapLoader::open(path_);
    if (!mapped.ok()) {
      return mapped.error() == Error::MemoryAllocationFailed ? mapped.error() : Error::Ok;
    }
    mapped_ = std::move(mapped.get());
    ET_TRY(const FreeableBuffer whole, mapped_->load(0, mapped_->size()));
    fault = parse({whole.data(), whole.size()});
  }
  if (fault != nullptr) {
    packs_.clear();
    mapped_.reset();
    ET_LOG(kWarning, "packed weights in '%s' are not used: %s; they are packed anew", path_.c_str(), fault);
  }
  return Error::Ok;
}

/// Takes the packs of a file; otherwise says what is wrong with it.
const char* PackCache::parse(Span<const uint8_t> file) {
  Head head{};
  if (file.size() < sizeof(head)) {
    return "the file is cut off";
  }
  std::memcpy(&head, file.data(), sizeof(head));
  if (std::memcmp(head.magic, kMagic, sizeof(kMagic)) != 0) {
    return "the file is no such file, or of another version";
  }
  if (head.file_nbytes != file.size()) {
    return "the file is cut off";
  }
  const bool is_counted = head.num_sources <= kMostSources && head.num_packs <= kMostPacks;
  const size_t records_end =
      sizeof(head) + (is_counted ? head.num_sources * sizeof(SourceRecord) + head.num_packs * sizeof(Record) : 0);
  constexpr size_t kSummed = offsetof(Head, file_nbytes);
  if (!is_counted || records_end + head.num_sources * sizeof(StampRecord) > file.size() ||
      head.checksum != content_hash(file.data() + kSummed, records_end - kSummed)) {
    return "its table is damaged";
  }
  if (head.code != packing_code().identity || head.processor != processor_identity()) {
    return "another build or processor made them";
  }
  const auto* const sources = reinterpret_cast<const SourceRecord*>(file.data() + sizeof(head));
  const auto* const records = reinterpret_cast<const Record*>(sources + head.num_sources);
  if (head.num_sources != sources_.size() ||
      !is_model(sources, reinterpret_cast<const StampRecord*>(file.data() + records_end), records_end)) {
    return "they are another model's";
  }
  for (size_t i = 0; i < head.num_packs; ++i) {
    const Record& record = records[i];
    if (record.offset % kAlignment != 0 || record.offset > file.size() || record.nbytes > file.size() - record.offset) {
      return "its table is damaged";
    }
    packs_.push_back(
        {record.name, file.data() + record.offset, static_cast<size_t>(record.nbytes), record.checksum, true, false});
  }
  return nullptr;
}

bool PackCache::is_model(const SourceRecord* records, const StampRecord* stamps, size_t stamps_offset) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (records[i].nbytes != source.bytes.size()) {
      return false;
    }
    const StampRecord known = StampRecord::of(source.stamp, records[i].content);
    if (source.stamp[1] != 0 && std::memcmp(&known, &stamps[i], sizeof(known)) == 0) {
      contents_[i] = records[i].content;
      continue;
    }
    if (content_of(i) != records[i].content) {
      return false;
    }
    if (is_settled(source.stamp)) {  // the same contents in another file: the next load need not read them
      const int file = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
      if (file >= 0) {
        static_cast<void>(::pwrite(file, &known, sizeof(known), static_cast<off_t>(stamps_offset + i * sizeof(known))) <
                          0);
        ::close(file);
      }
    }
  }
  return true;
}

/// Reads all of a source, a few pages at a time.
uint64_t PackCache::content_of(size_t source) {
  constexpr size_t kPiece = size_t{16} << 20;
  const Span<const uint8_t> bytes = sources_[source].bytes;
  uint64_t& content = contents_[source];
  for (size_t at = 0; content == 0 && at < bytes.size(); at += kPiece) {
    const size_t nbytes = std::min(kPiece, bytes.size() - at);
    const uint64_t pair[] = {at == 0 ? 0 : content, content_hash(bytes.data() + at, nbytes)};
    content = content_hash(pair, sizeof(pair));
  }
  return content;
}

bool PackCache::name_of(const PackedName& given, Name* name) const {
  if (given.addresses.empty() || given.addresses.size() + given.numbers.size() >= kMostWords) {
    return false;
  }
  *name = {};
  const PackingCode& code = packing_code();
  const auto maker = reinterpret_cast<uintptr_t>(given.addresses[0]);
  if (maker < code.begin || maker >= code.end) {
    return false;  // a plug-in's
  }
  auto word = name->begin();
  *word++ = given.addresses.size();
  *word++ = kCode << kFileShift | (maker - code.begin);
  for (const void* const address : given.addresses.subspan(1, given.addresses.size() - 1)) {
    size_t i = 0;
    const auto offset_in = [address](const Source& source) {
      return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(source.bytes.data());
    };
    while (address != nullptr && i < sources_.size() && offset_in(sources_[i]) >= sources_[i].bytes.size()) {
      ++i;
    }
    if (i == sources_.size()) {
      return false;
    }
    *word++ = address == nullptr ? 0 : uint64_t{i + 1} << kFileShift | offset_in(sources_[i]);
  }
  std::copy(given.numbers.begin(), given.numbers.end(), word);
  return true;
}

PackCache::Pack* PackCache::locate(const Name& name) {
  const auto found = std::find_if(packs_.begin(), packs_.end(), [&](const Pack& pack) { return pack.name == name; });
  return found == packs_.end() ? nullptr : &*found;
}

const void* PackCache::find(const PackedName& given) {
  Name name;
  if (!name_of(given, &name)) {
    return nullptr;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  Pack* found = locate(name);
  if (found == nullptr || found->is_checked) {
    return found == nullptr ? nullptr : found->data;
  }
  const Pack pack = *found;
  lock.unlock();
  const bool is_right = content_hash(pack.data, pack.nbytes) == pack.checksum;
  lock.lock();
  found = locate(name);
  if (found != nullptr && is_right) {
    found->is_checked = true;
  } else if (found != nullptr) {
    packs_.erase(packs_.begin() + (found - packs_.data()));
    is_changed_ = true;
    ET_LOG(kWarning, "%zu bytes of packed weights in '%s' are damaged; they are packed anew", pack.nbytes,
           path_.c_str());
  }
  return is_right ? pack.data : nullptr;
}

void PackCache::add(const PackedName& given, const void* packed, size_t nbytes) try {
  Name name;
  if (nbytes == 0 || !name_of(given, &name)) {
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (locate(name) == nullptr && packs_.size() < kMostPacks) {
    packs_.push_back({name, static_cast<const uint8_t*>(packed), nbytes, 0, false, true});
    is_changed_ = true;
  }
} catch (const std::bad_alloc&) {  // the next process packs it again
}

void PackCache::save() try {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_changed_) {
    return;
  }
  is_changed_ = false;  // what fails once is not tried at each load of a method
  std::string temporary = path_ + std::string(1, '.') + std::string(6, 'X');  // mkostemp puts a name in place of them
  const int file = ::mkostemp(temporary.data(), O_CLOEXEC);
  bool is_written = file >= 0 && ::fchmod(file, mode_) == 0 && write(file);
  is_written = file >= 0 && ::close(file) == 0 && is_written;
  if (!is_written || ::rename(temporary.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    if (file >= 0) {
      ::unlink(temporary.c_str());
    }
    ET_LOG(kWarning, "packed weights are not kept: '%s' cannot be written: %s; the next load packs them again",
           path_.c_str(), std::strerror(error));
  }
} catch (const std::bad_alloc&) {
  ET_LOG(kWarning, "packed weights are not kept in '%s': no memory for their table", path_.c_str());
}

/// All packs, those of the file that is there, too. False with errno set.
bool PackCache::write(int file) {
  const size_t num_sources = sources_.size();
  List<SourceRecord> sources;
  List<StampRecord> stamps;
  for (size_t i = 0; i < num_sources; ++i) {
    sources.push_back({sources_[i].bytes.size(), content_of(i)});
    stamps.push_back(StampRecord::of(is_settled(sources_[i].stamp) ? sources_[i].stamp : FileStamp{}, contents_[i]));
  }
  const size_t table_nbytes =
      sizeof(Head) + num_sources * (sizeof(SourceRecord) + sizeof(StampRecord)) + packs_.size() * sizeof(Record);
  size_t at = rounded_up(table_nbytes, kPage);
  List<uint8_t> table(at);
  List<Record> records;
  for (Pack& pack : packs_) {
    pack.checksum = pack.has_checksum ? pack.checksum : content_hash(pack.data, pack.nbytes);
    pack.has_checksum = true;
    records.push_back({pack.name, at, pack.nbytes, pack.checksum});
    at = rounded_up(at + pack.nbytes, kAlignment);
  }
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  head.file_nbytes = at;
  head.code = packing_code().identity;
  head.processor = processor_identity();
  head.num_sources = num_sources;
  head.num_packs = packs_.size();
  uint8_t* to = table.data();
  const auto put = [&to](const void* data, size_t nbytes) {
    std::memcpy(to, data, nbytes);
    to += nbytes;
  };
  put(&head, sizeof(head));
  put(sources.data(), num_sources * sizeof(SourceRecord));
  put(records.data(), records.size() * sizeof(Record));
  constexpr size_t kSummed = offsetof(Head, file_nbytes);
  head.checksum = content_hash(table.data() + kSummed, static_cast<size_t>(to - table.data()) - kSummed);
  std::memcpy(table.data(), &head, sizeof(head));
  put(stamps.data(), num_sources * sizeof(StampRecord));
  bool is_written = write_all(file, table.data(), table.size());
  constexpr uint8_t kZeros[kAlignment] = {};
  for (size_t i = 0; is_written && i < packs_.size(); ++i) {
    const size_t nbytes = packs_[i].nbytes;
    is_written =
        write_all(file, packs_[i].data, nbytes) && write_all(file, kZeros, rounded_up(nbytes, kAlignment) - nbytes);
  }
  return is_written;
}

}  // namespace et::runtime
