// Tensor, EValue, allocators, registries, unboxing.
#include <algorithm>
#include <limits>
#include <typeinfo>
#include <vector>

#include <sys/mman.h>

#include "../base/needs.h"
#include "method_fixture.h"
#include "runtime/host/pages.h"
#include "runtime/named_data_map.h"

namespace et::test {
namespace {

TEST(TensorImplTest, ResizesWithinItsBound) {
  int64_t sizes[] = {4, 3};
  int64_t strides[2];
  const uint8_t order[] = {0, 1};
  TensorImpl impl(ScalarType::Float, 2, sizes, strides, order, nullptr, 48, TensorShapeDynamism::kDynamicBound);
  EXPECT_EQ(impl.numel(), 12);
  EXPECT_EQ(impl.strides()[0], 3);
  EXPECT_EQ(impl.resize({2, 6}), Error::Ok);
  EXPECT_EQ(impl.strides()[0], 6);
  EXPECT_EQ(impl.resize({2, 7}), Error::OutOfResources);
  EXPECT_EQ(impl.resize({-1, 2}), Error::InvalidArgument);
  EXPECT_EQ(impl.resize({12}), Error::NotSupported);
  EXPECT_EQ(impl.resize({INT64_MAX, 2}), Error::OutOfResources);
  EXPECT_EQ(impl.sizes()[1], 6) << "unchanged after an error";
  EXPECT_EQ(impl.resize({0, 5}), Error::Ok);
  EXPECT_EQ(impl.strides()[0], 5);
  TensorImpl fixed(ScalarType::Float, 2, sizes, strides, order, nullptr, 48);
  EXPECT_EQ(fixed.resize({1, 1}), Error::NotSupported);
}

TEST(TensorImplTest, StridesFollowDimOrder) {
  const int64_t sizes[] = {2, 3, 4, 5};
  const uint8_t channels_last[] = {0, 2, 3, 1};
  int64_t strides[4];
  strides_from_dim_order(sizes, channels_last, strides);
  EXPECT_EQ(strides[0], 60);
  EXPECT_EQ(strides[1], 1);
  EXPECT_EQ(strides[2], 15);
  EXPECT_EQ(strides[3], 3);
  EXPECT_TRUE(is_channels_last_dim_order(channels_last));
  EXPECT_FALSE(is_contiguous_dim_order(channels_last));
}

TEST(EValueTest, NumbersConvertWithoutUndefinedBehaviour) {
  EXPECT_EQ(EValue(1e300).number_as_int(), INT64_MAX);
  EXPECT_EQ(EValue(-1e300).number_as_int(), INT64_MIN);
  EXPECT_EQ(EValue(__builtin_nan("")).number_as_int(), 0);
  EXPECT_EQ(EValue(-2.9).number_as_int(), -2);
  for (double value = 0x1p-1022; value < 0x1p63; value *= 1.37) {
    EXPECT_EQ(EValue(value).number_as_int(), static_cast<int64_t>(value)) << value;
    EXPECT_EQ(EValue(-value).number_as_int(), static_cast<int64_t>(-value)) << value;
  }
  for (const double value : {0.0, -0.0, 1.0, 0x1p52, 0x1p53 - 1, 0x1p53 + 2, 0x1.fffffffffffffp62, -0x1p63}) {
    EXPECT_EQ(EValue(value).number_as_int(), static_cast<int64_t>(value)) << value;
  }
  EXPECT_EQ(EValue(0x1p63).number_as_int(), INT64_MAX);
  EXPECT_EQ(EValue(__builtin_inf()).number_as_int(), INT64_MAX);
  EXPECT_EQ(EValue(-__builtin_inf()).number_as_int(), INT64_MIN);
  EXPECT_EQ(EValue(true).number_as_int(), 1);
  EXPECT_TRUE(EValue(0.5).number_as_bool());
  EXPECT_STREQ(to_string(Tag::kTensorList), "TensorList");
  EXPECT_STREQ(to_string(static_cast<Tag>(77)), "?");
}

TEST(EValueTest, ListsSeeComputedItems) {
  EValue items[] = {EValue(int64_t{1}), EValue(int64_t{2})};
  EValue* pointers[] = {&items[0], &items[1]};
  int64_t cache[2];
  BoxedList<int64_t> list{pointers, cache, 2, false};
  EValue value(&list);
  EXPECT_EQ(value.to_int_list()[1], 2);
  items[1] = EValue(int64_t{7});
  EXPECT_EQ(value.to_int_list()[1], 7);
}

TEST(MemoryAllocatorTest, HandsOutAlignedPieces) {
  alignas(64) uint8_t pool[256];
  MemoryAllocator allocator(pool + 1, 255);
  void* a = allocator.allocate(10, 32);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 32, 0u);
  EXPECT_NE(allocator.allocate(100, 64), nullptr);
  EXPECT_EQ(allocator.allocate(200), nullptr);
  EXPECT_EQ(allocator.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(allocator.allocate_list<int64_t>(SIZE_MAX / 4).error(), Error::MemoryAllocationFailed);
  allocator.reset();
  EXPECT_EQ(allocator.used(), 0u);
  EXPECT_EQ(allocator.allocate(10, 32), a);
  MemoryAllocator empty;
  EXPECT_EQ(empty.allocate(1), nullptr);
}

TEST(HeapAllocatorTest, GrowsAndReusesItsBlocks) {
  HeapAllocator allocator(1024);
  void* first = allocator.allocate(100);
  for (int i = 0; i < 50; ++i) {
    void* memory = allocator.allocate(700, 64);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    std::memset(memory, 1, 700);
  }
  ASSERT_NE(allocator.allocate(100000), nullptr);
  EXPECT_EQ(allocator.allocate(SIZE_MAX - 8), nullptr);
  allocator.reset();
  EXPECT_EQ(allocator.allocate(100), first);
}

TEST(HeapAllocatorTest, KeepsNoBlockThatIsTooSmall) {
  HeapAllocator allocator(1024);
  const auto round = [&](std::initializer_list<size_t> requests) {
    const void* last = nullptr;
    for (const size_t nbytes : requests) {
      last = allocator.allocate(nbytes, 64);
      EXPECT_NE(last, nullptr);
    }
    allocator.reset();
    return last;
  };
  // Ever larger requests, one a round, as of a network's operators at its first call: the largest block serves all of
  // them later.
  for (const size_t nbytes : {1000, 20000, 100000, 1000000}) {
    round({nbytes});
  }
  const void* const block = round({1000});
  for (const size_t nbytes : {20000, 1000000, 50000}) {
    EXPECT_EQ(round({nbytes}), block);
  }
  // Two at a time that do not fit it: from the second such round on there is a block that stays, whatever comes
  // between.
  round({700000, 700000});
  round({1000000});
  round({700000, 700000});
  const void* const second = round({700000, 700000});
  for (int i = 0; i < 3; ++i) {
    const void* const whole = round({1000000});
    EXPECT_EQ(round({700000, 700000}), second);
    EXPECT_EQ(round({1000}), whole);
  }
}

TEST(HeapAllocatorTest, RequestsThatGrowALittleStayInOneBlock) {
  HeapAllocator allocator;
  const void* const block = allocator.allocate(202816, 64);
  for (const size_t nbytes : {225856, 152192, 308992}) {
    allocator.reset();
    EXPECT_EQ(allocator.allocate(nbytes, 64), block);
  }
}

TEST(HeapAllocatorTest, LargeBlocksComeInPages) {
  HeapAllocator allocator;
  for (const size_t nbytes : {kHugePage / 2, kHugePage, 2 * kHugePage + kHugePage / 4, 3 * kHugePage - 100}) {
    auto* const bytes = static_cast<uint8_t*>(allocator.allocate(nbytes, 64));
    ASSERT_NE(bytes, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 64, 0u);
    EXPECT_TRUE(bytes[0] == 0 && bytes[nbytes - 1] == 0);
    std::memset(bytes, 1, nbytes);
  }
}

/// Resident bytes of a block that starts at a huge page.
size_t resident(void* block, size_t nbytes) {
  std::vector<unsigned char> pages((nbytes + 4095) / 4096);
  EXPECT_EQ(::mincore(block, nbytes, pages.data()), 0);
  return 4096 * static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](auto page) { return page & 1; }));
}

TEST(PagesTest, TakeNoMemoryThatIsHardlyWritten) {
  ET_NEEDS_PAGES();
  void* const tailed = map_pages(kHugePage + kHugePage / 2);
  ASSERT_NE(tailed, nullptr);
  std::memset(tailed, 1, kHugePage + 1);
  EXPECT_EQ(resident(tailed, kHugePage + kHugePage / 2), kHugePage + 4096);
  unmap_pages(tailed, kHugePage + kHugePage / 2);
  void* const generous = map_pages(32 * kHugePage, kHugePage / 2);
  ASSERT_NE(generous, nullptr);
  std::memset(generous, 1, kHugePage / 2);
  EXPECT_EQ(resident(generous, 32 * kHugePage), kHugePage / 2);
  unmap_pages(generous, 32 * kHugePage);
}

TEST(PagesTest, AreAlignedZeroedAndRefused) {
  void* blocks[3];
  const size_t sizes[] = {1, kHugePage + 1, 5 * kHugePage};
  for (size_t i = 0; i < 3; ++i) {
    blocks[i] = map_pages(sizes[i]);
    ASSERT_NE(blocks[i], nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks[i]) % kHugePage, 0u);
    auto* const bytes = static_cast<uint8_t*>(blocks[i]);
    EXPECT_TRUE(bytes[0] == 0 && bytes[sizes[i] - 1] == 0);
    std::memset(bytes, 1, sizes[i]);
  }
  for (size_t i = 0; i < 3; ++i) {
    unmap_pages(blocks[i], sizes[i]);
  }
  EXPECT_EQ(map_pages(0), nullptr);
#if SIZE_MAX > UINT32_MAX
  EXPECT_EQ(map_pages(size_t{1} << 46), nullptr) << "64 TiB: more than the machine has";
#endif
  EXPECT_EQ(map_pages(SIZE_MAX), nullptr);
  EXPECT_EQ(map_pages(SIZE_MAX - 3 * kHugePage), nullptr);
  unmap_pages(nullptr, 1);
}

Error seven_out(KernelContext&, const Tensor&, Tensor&) { return Error::Ok; }

TEST(KernelRegistryTest, FindsByPriority) {
  const Kernel low[] = {make_kernel<&seven_out>("a::b.out"), make_kernel<&seven_out>("a::c.out")};
  const Kernel high[] = {make_kernel<&seven_out>("a::b.out", kPriorityLibrary)};
  const Kernel same[] = {make_kernel<&seven_out>("a::b.out")};
  KernelRegistry registry;
  ASSERT_EQ(registry.add(low), Error::Ok);
  ASSERT_EQ(registry.add(high), Error::Ok);
  ASSERT_EQ(registry.add(same), Error::Ok);
  const Kernel* found[4] = {};
  EXPECT_EQ(registry.find("a::b.out", found), 3u);
  EXPECT_EQ(found[0], &high[0]);
  EXPECT_EQ(found[1], &same[0]) << "the later of two equals comes first";
  EXPECT_EQ(found[2], &low[0]);
  const Kernel* one[1] = {};
  EXPECT_EQ(registry.find("a::b.out", one), 3u);
  EXPECT_EQ(one[0], &high[0]);
  EXPECT_FALSE(registry.has("a::b"));
  EXPECT_FALSE(registry.has("a::b.out2"));
  EXPECT_FALSE(registry.has(std::string_view("a::b.out\0\0\0", 11))) << "a NUL inside";
  EXPECT_TRUE(registry.has("a::c.out"));
  while (registry.tables().size() < KernelRegistry::kMaxTables) {
    ASSERT_EQ(registry.add(low), Error::Ok);
  }
  EXPECT_EQ(registry.add(low), Error::RegistrationExceedingMaxKernels);
}

TEST(KernelTest, SignaturesComeFromTheFunction) {
  EXPECT_STREQ(make_kernel<&seven_out>("a").signature, "To");
  EXPECT_STREQ((make_kernel<&seven_out, 0b1>("a").signature), "eo");
  EXPECT_TRUE(signature_writes("To", 1));
  EXPECT_FALSE(signature_writes("To", 0));
  EXPECT_TRUE(signature_writes("Tlv", 2)) << "the outs of split";
  EXPECT_FALSE(signature_writes("vo", 0)) << "the inputs of cat";
  EXPECT_TRUE(signature_accepts('t', EValue()));
  EXPECT_FALSE(signature_accepts('T', EValue()));
  EXPECT_TRUE(signature_accepts('E', EValue()));
  EXPECT_FALSE(signature_accepts('e', EValue()));
  EXPECT_TRUE(signature_accepts('d', EValue(int64_t{1})));
  EXPECT_FALSE(signature_accepts('i', EValue(1.0)));
  EXPECT_FALSE(signature_accepts('?', EValue()));
}

TEST(BackendRegistryTest, NamesAreUnique) {
  AddBackend backend;
  BackendRegistry registry;
  ASSERT_EQ(registry.add("a", &backend), Error::Ok);
  EXPECT_EQ(registry.add("a", &backend), Error::RegistrationAlreadyRegistered);
  EXPECT_EQ(registry.find("a"), &backend);
  EXPECT_EQ(registry.find("b"), nullptr);
}

TEST(SharedCacheTest, MakesAnObjectOnce) {
  static int live = 0;
  int made = 0;
  {
    HeapSharedCache cache;
    const auto create = [](void* argument) -> Result<void*> {
      ++*static_cast<int*>(argument);
      ++live;
      return static_cast<void*>(new int(3));
    };
    const auto destroy = [](void* object) {
      --live;
      delete static_cast<int*>(object);
    };
    auto a = cache.get_or_create({&made, nullptr, nullptr, 1}, create, &made, destroy);
    auto b = cache.get_or_create({&made, nullptr, nullptr, 1}, create, &made, destroy);
    auto c = cache.get_or_create({&made, nullptr, nullptr, 2}, create, &made, destroy);
    ASSERT_TRUE(a.ok() && b.ok() && c.ok());
    EXPECT_EQ(*a, *b);
    EXPECT_NE(*a, *c);
    EXPECT_EQ(made, 2);
  }
  EXPECT_EQ(live, 0);
}

TEST(PackedMemoryTest, BlocksOfAnySizeStandApart) {
  HeapSharedCache cache;
  PackedMemory& memory = cache.memory();
  struct Block {
    uint8_t* data;
    size_t nbytes;
  };
  std::vector<Block> blocks;
  size_t total = 0;
  for (const size_t nbytes : {1ul, 63ul, 64ul, 100'000ul, 300'000ul, 5'000'000ul, 7ul, 70'000'000ul, 3'000'000ul}) {
    const Result<void*> made = memory.allocate(nbytes);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*made) % 64, 0u);
    blocks.push_back({static_cast<uint8_t*>(*made), nbytes});
    std::memset(*made, static_cast<int>(blocks.size()), nbytes);
    total += (nbytes + 63) / 64 * 64;
  }
  EXPECT_EQ(memory.nbytes(), total);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].data[0], i + 1);
    EXPECT_EQ(blocks[i].data[blocks[i].nbytes - 1], i + 1);
  }
}

TEST(PackedMemoryTest, TakesBackTheLastBlockOnly) {
  HeapSharedCache cache;
  PackedMemory& memory = cache.memory();
  void* const first = *memory.allocate(100);
  void* const second = *memory.allocate(100);
  memory.undo(first);
  EXPECT_NE(*memory.allocate(100), first);
  void* const third = *memory.allocate(100);
  memory.undo(second);
  memory.undo(third);
  memory.undo(third);
  EXPECT_EQ(*memory.allocate(64), third);
  EXPECT_EQ(memory.nbytes(), 128u * 3 + 64);
}

TEST(PackedMemoryTest, SaysWhatThereIsNoMemoryFor) {
  HeapSharedCache cache;
  EXPECT_EQ(cache.memory().allocate(SIZE_MAX).error(), Error::MemoryAllocationFailed);
  EXPECT_EQ(cache.memory().allocate(std::numeric_limits<size_t>::max() / 2).error(), Error::MemoryAllocationFailed);
  EXPECT_TRUE(cache.memory().allocate(64).ok());
}

TEST(FreeableBufferTest, FreesOnce) {
  int freed = 0;
  {
    FreeableBuffer a(&freed, 4, [](void* context, const void*, size_t) { ++*static_cast<int*>(context); }, &freed);
    FreeableBuffer b = std::move(a);
    EXPECT_EQ(a.size(), 0u);
    b.release();
    b.release();
  }
  EXPECT_EQ(freed, 1);
}

/// A map of the user's, in a file with type information, which the library has none of.
class NumberedMap : public NamedDataMap {
 public:
  Result<FreeableBuffer> get(std::string_view) const override { return Error::NotFound; }
  size_t num_entries() const override { return 3; }
  NamedDataEntry entry(size_t i) const override {
    static constexpr const char* kKeys[] = {"a", "b", "c"};
    return {kKeys[i], i, false, {}};
  }
};

TEST(NamedDataMapTest, IsDerivedFromByAUser) {
  const NumberedMap map;
  const NamedDataMap* const base = &map;
  EXPECT_EQ(typeid(*base), typeid(NumberedMap));
  NamedDataEntry entry;
  EXPECT_TRUE(base->find("c", &entry));
  EXPECT_EQ(entry.nbytes, 2u);
  EXPECT_FALSE(base->find("d", nullptr));
}

TEST(UnboundTest, ResizeTakesMemoryFromTheDataAllocator) {
  alignas(64) uint8_t pool[256];
  MemoryAllocator data(pool, sizeof(pool));
  KernelContext context(nullptr, &data, nullptr, nullptr, nullptr);
  int64_t sizes[] = {0};
  int64_t strides[1];
  const uint8_t order[] = {0};
  TensorImpl impl(ScalarType::Float, 1, sizes, strides, order, nullptr, 0, TensorShapeDynamism::kDynamicUnbound);
  EXPECT_EQ(resize_tensor(context, Tensor(&impl), {16}), Error::Ok);
  EXPECT_NE(impl.data(), nullptr);
  EXPECT_EQ(resize_tensor(context, Tensor(&impl), {1000}), Error::MemoryAllocationFailed);
  EXPECT_EQ(resize_tensor(context, Tensor(&impl), {INT64_MAX}), Error::OutOfResources);
  EXPECT_EQ(context.allocate_temp(1).error(), Error::MemoryAllocationFailed);
}

}  // namespace
}  // namespace et::test
