/// Pages: large blocks of zeroed memory straight from the system, in huge pages where it has them.
///
/// For: blocks of a megabyte and more that are written soon after they are made (planned memory, packed weights). The
/// system gives such memory page by page when it is first written, at more than a microsecond for each 4 KiB. With huge
/// pages, 2 MiB cost about as much as a dozen small ones. That is most of the time before a first inference.
/// Not for: small or short-lived blocks (std::malloc).
///
///     void* const block = map_pages(nbytes);     // aligned to kHugePage, or nullptr
///     unmap_pages(block, nbytes);
///
/// A block takes address space at once, memory as it is written: a generous one costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace et::runtime {

inline constexpr size_t kHugePage = size_t{2} << 20;

/// `nbytes` zeroed bytes, nullptr when the system has none. The end of the block is in small pages where more than half
/// of a huge one, or a quarter of the block, would stay unused. So is what lies behind the first `written` bytes, for a
/// block of which about so many will be written.
void* map_pages(size_t nbytes, size_t written = SIZE_MAX);
/// Requests huge pages for those that lie whole in `nbytes` bytes at `at`, in memory of any allocator, and are not
/// written yet.
void want_huge_pages(void* at, size_t nbytes);
/// Gives the memory of a block back, not its addresses: what it held is lost, and it can be written again.
void drop_pages(void* block, size_t nbytes);
/// Gives a block back; `nbytes` as it was requested.
void unmap_pages(void* block, size_t nbytes);

}  // namespace et::runtime
