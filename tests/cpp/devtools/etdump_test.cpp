// The ETDump writer: what is recorded comes out as well-formed FlatBuffers of the schema, and what has no room is
// refused.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "devtools/host/etdump_gen.h"
#include "schema/etdump_generated.h"

namespace et::devtools {
namespace {

namespace fb = schema::etdump;
using runtime::EValue;
using runtime::EventKind;
using runtime::EventTracerDebugLogLevel;
using runtime::Tensor;
using runtime::TensorImpl;
using runtime::TraceEvent;

struct TensorOf {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  std::vector<uint8_t> order;
  std::vector<float> data;
  TensorImpl impl;

  TensorOf(std::vector<int64_t> given, float first) : sizes(std::move(given)), strides(sizes.size()), data(1) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      order.push_back(static_cast<uint8_t>(i));
      data.resize(data.size() * static_cast<size_t>(sizes[i]));
    }
    for (float& value : data) {
      value = first++;
    }
    impl = TensorImpl(ScalarType::Float, sizes.size(), sizes.data(), strides.data(), order.data(), data.data(),
                      data.size() * sizeof(float));
  }
  EValue value() { return EValue(Tensor(&impl)); }
};

/// The tables of a file, when the verifier has nothing against them.
const fb::ETDump* verified(const std::vector<uint8_t>& bytes) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  return fb::VerifySizePrefixedETDumpBuffer(verifier) ? fb::GetSizePrefixedETDump(bytes.data()) : nullptr;
}

TraceEvent span(EventKind kind, std::string_view name, int32_t instruction = -1) {
  TraceEvent event;
  event.kind = kind;
  event.name = name;
  event.position = {instruction < 0 ? -1 : 0, instruction};
  event.start_ns = 10;
  event.end_ns = 25;
  return event;
}

/// "name@instruction" of each span, by run.
std::vector<std::pair<std::string, std::vector<std::string>>> spans(const fb::ETDump& dump) {
  std::vector<std::pair<std::string, std::vector<std::string>>> out;
  for (const fb::RunData* run : *dump.run_data()) {
    auto& names = out.emplace_back(run->name()->str(), std::vector<std::string>()).second;
    for (const fb::Event* event : *run->events()) {
      if (const fb::ProfileEvent* profile = event->profile_event()) {
        const std::string at = profile->instruction_id() < 0 ? "" : "@" + std::to_string(profile->instruction_id());
        names.push_back(profile->name()->str() + at);
      }
    }
  }
  return out;
}

TEST(EtDump, WritesThePublishedNames) {
  ETDumpGen dump;
  dump.record(span(EventKind::kProgramLoad, "model.pte"));
  dump.record(span(EventKind::kDelegateInit, "Backend"));
  dump.record(span(EventKind::kMethodInit, "forward"));
  dump.record(span(EventKind::kMethodLoad, "forward"));
  dump.begin_execution("forward");
  dump.record(span(EventKind::kKernel, "aten::add.out", 0));
  dump.record(span(EventKind::kDelegate, "Backend", 1));
  dump.record(span(EventKind::kJump, "jump_false", 2));
  dump.record(span(EventKind::kMove, "move", 3));
  dump.record(span(EventKind::kFree, "free", 4));
  dump.record(span(EventKind::kExecute, "forward"));
  dump.record(span(EventKind::kMethodLoad, "other"));
  const auto bytes = dump.to_bytes();
  ASSERT_TRUE(bytes.ok());
  const fb::ETDump* const read = verified(*bytes);
  ASSERT_NE(read, nullptr);
  using Names = std::vector<std::string>;
  const std::vector<std::pair<std::string, Names>> expected = {
      {"Default", {"Program::load", "delegate_init_Backend", "Method::init", "Program::load_method"}},
      {"Execute",
       {"native_call_add.out@0", "OPERATOR_CALL@0", "DELEGATE_CALL@1", "JF_CALL@2", "MOVE_CALL@3", "FREE_CALL@4",
        "Method::execute"}},
      {"Default", {"Program::load_method"}}};
  EXPECT_EQ(spans(*read), expected);
  EXPECT_EQ(dump.get_num_blocks(), 3u);
  const fb::ProfileEvent& event = *read->run_data()->Get(1)->events()->Get(0)->profile_event();
  EXPECT_EQ(event.start_time(), 10u);
  EXPECT_EQ(event.end_time(), 25u);
  EXPECT_EQ(event.chain_index(), 0);
}

TEST(EtDump, KeepsWhatABackendSaysOfItsSteps) {
  ETDumpGen dump;
  dump.set_bundled_input_index(3);
  dump.begin_execution("forward");
  dump.set_position({0, 7});
  const uint8_t metadata[] = {1, 2, 3};
  dump.record_step("gemm", {12}, 100, 130, metadata);
  dump.record_step("", {-1, "softmax_1"}, 130, 140);
  TensorOf inner({2}, 5);
  ASSERT_EQ(dump.record_values(64), Error::Ok);
  dump.record_step_value({12}, inner.value());
  const auto bytes = dump.to_bytes();
  ASSERT_TRUE(bytes.ok());
  const fb::ETDump* const read = verified(*bytes);
  ASSERT_NE(read, nullptr);
  const fb::RunData& run = *read->run_data()->Get(0);
  EXPECT_EQ(run.bundled_input_index(), 3);
  const fb::ProfileEvent& numbered = *run.events()->Get(0)->profile_event();
  EXPECT_EQ(numbered.name()->str(), "gemm");
  EXPECT_EQ(numbered.instruction_id(), 7);
  EXPECT_EQ(numbered.delegate_debug_id_int(), 12);
  EXPECT_EQ(numbered.delegate_debug_id_str(), nullptr);
  EXPECT_EQ(numbered.delegate_debug_metadata()->size(), 3u);
  const fb::ProfileEvent& named = *run.events()->Get(1)->profile_event();
  EXPECT_EQ(named.name(), nullptr);
  EXPECT_EQ(named.delegate_debug_id_str()->str(), "softmax_1");
  const fb::DebugEvent& value = *run.events()->Get(2)->debug_event();
  EXPECT_EQ(value.delegate_debug_id_int(), 12);
  EXPECT_EQ(value.debug_entry()->tensor()->offset(), 0);
  EXPECT_EQ(std::memcmp(dump.debug_bytes().data(), inner.data.data(), 8), 0);
}

TEST(EtDump, KeepsValuesOfAllKinds) {
  ETDumpGen dump;
  ASSERT_EQ(dump.record_values(1024), Error::Ok);
  dump.begin_execution("forward");
  TensorOf a({2, 3}, 1), b({}, 9);
  const std::vector<EValue> values = {EValue(int64_t{-4}), EValue(2.5), EValue(true), EValue(), b.value(), a.value()};
  for (size_t i = 0; i < values.size(); ++i) {
    dump.record_value({&values[i], {0, static_cast<int32_t>(i)}, {}, {}, i == 5});
  }
  dump.record_counter("pages", 77);
  const auto bytes = dump.to_bytes();
  ASSERT_TRUE(bytes.ok());
  const fb::ETDump* const read = verified(*bytes);
  ASSERT_NE(read, nullptr);
  const auto& events = *read->run_data()->Get(0)->events();
  const auto entry = [&](uint32_t i) -> const fb::Value& { return *events.Get(i)->debug_event()->debug_entry(); };
  EXPECT_EQ(entry(0).int_value()->int_val(), -4);
  EXPECT_EQ(entry(1).double_value()->double_val(), 2.5);
  EXPECT_TRUE(entry(2).bool_value()->bool_val());
  EXPECT_EQ(entry(3).val(), fb::ValueType_Null);
  EXPECT_EQ(entry(4).tensor()->sizes()->size(), 0u);
  EXPECT_EQ(entry(4).output(), nullptr);
  EXPECT_TRUE(entry(5).output()->bool_val());
  const fb::Tensor& tensor = *entry(5).tensor();
  EXPECT_EQ(tensor.scalar_type(), schema::ScalarType_Float);
  EXPECT_EQ(std::vector<int64_t>(tensor.sizes()->begin(), tensor.sizes()->end()), a.sizes);
  EXPECT_EQ(std::vector<int64_t>(tensor.strides()->begin(), tensor.strides()->end()), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(std::memcmp(dump.debug_bytes().data() + tensor.offset(), a.data.data(), 24), 0);
  EXPECT_EQ(events.Get(6)->debug_event()->name()->str(), "pages");
  EXPECT_EQ(entry(6).int_value()->int_val(), 77);
}

TEST(EtDump, KeepsAllocationsWithTheirAllocators) {
  ETDumpGen dump;
  const uint32_t first = dump.add_allocator("temporary");
  const uint32_t second = dump.add_allocator("data");
  dump.begin_execution("forward");
  dump.record_allocation(second, 4096);
  dump.clear();  // the numbers stay
  dump.begin_execution("forward");
  dump.record_allocation(first, 16);
  const auto bytes = dump.to_bytes();
  ASSERT_TRUE(bytes.ok());
  const fb::ETDump* const read = verified(*bytes);
  ASSERT_NE(read, nullptr);
  ASSERT_EQ(read->run_data()->size(), 1u);
  const fb::RunData& run = *read->run_data()->Get(0);
  ASSERT_EQ(run.events()->size(), 1u);
  const fb::AllocationEvent& event = *run.events()->Get(0)->allocation_event();
  EXPECT_EQ(event.allocation_size(), 16u);
  EXPECT_EQ(run.allocators()->Get(static_cast<uint32_t>(event.allocator_id()))->name()->str(), "temporary");
}

TEST(EtDump, AFixedBufferIsEnoughOrRefuses) {
  std::vector<uint8_t> memory(4096);
  for (size_t offset = 0; offset < 8; ++offset) {  // any address
    ETDumpGen dump({memory.data() + offset, 2048});
    EXPECT_TRUE(dump.is_static_etdump());
    dump.begin_execution("forward");
    for (int i = 0; i < 4; ++i) {
      dump.record(span(EventKind::kMove, "move", i));
    }
    const ETDumpResult result = dump.get_etdump_data();
    ASSERT_NE(result.buf, nullptr);
    const auto* const begin = static_cast<const uint8_t*>(result.buf);
    EXPECT_TRUE(begin > memory.data() && begin + result.size <= memory.data() + offset + 2048);
    EXPECT_NE(verified({begin, begin + result.size}), nullptr);
    for (int i = 0; i < 40; ++i) {
      dump.record(span(EventKind::kMove, "move", i));
    }
    EXPECT_EQ(dump.check(), Error::OutOfResources);
    EXPECT_EQ(dump.get_etdump_data().buf, nullptr);
    EXPECT_EQ(dump.to_bytes().error(), Error::OutOfResources);
    dump.clear();
    dump.begin_execution("forward");
    EXPECT_NE(dump.get_etdump_data().buf, nullptr);
  }
}

TEST(EtDump, ADebugBufferIsEnoughOrRefuses) {
  alignas(8) uint8_t events[1024];
  uint8_t debug[64 + 24];
  TensorOf a({2, 3}, 1);
  const EValue value = a.value();
  EtDump dump(events, debug);
  dump.begin_execution("forward");
  dump.record_value({&value});
  dump.record_value({&value});
  EXPECT_EQ(dump.check(), Error::Ok);
  EXPECT_EQ(dump.debug_bytes().size(), sizeof(debug));
  dump.record_value({&value});
  EXPECT_EQ(dump.check(), Error::OutOfResources);
  EXPECT_EQ(dump.nbytes().error(), Error::OutOfResources);
}

TEST(EtDump, AnErrorOfTheReceiverEndsTheWriting) {
  ETDumpGen dump;
  dump.begin_execution("forward");
  for (int i = 0; i < 100; ++i) {
    dump.record(span(EventKind::kKernel, "aten::add.out", i));
  }
  size_t room = 1000;
  const auto receive = [](void* context, const void*, size_t nbytes) {
    auto& left = *static_cast<size_t*>(context);
    if (nbytes > left) {
      return Error::AccessFailed;
    }
    left -= nbytes;
    return Error::Ok;
  };
  EXPECT_EQ(dump.write(receive, &room), Error::AccessFailed);
  EXPECT_EQ(dump.save("/no/such/folder/a.etdp"), Error::AccessFailed);
}

TEST(EtDump, RandomEventsGiveWellFormedFilesOfTheSizeThatWasSaid) {
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    ETDumpGen dump;
    ASSERT_EQ(dump.record_values(1 << 16), Error::Ok);
    const uint32_t num_allocators = below(3);
    for (uint32_t i = 0; i < num_allocators; ++i) {
      dump.add_allocator(std::string(below(9), 'a'));
    }
    const uint32_t num_events = below(30);
    for (uint32_t i = 0; i < num_events; ++i) {
      const std::string name(below(20), 'n');
      const std::string text(below(2) == 0 ? 0 : below(20), 't');
      const std::vector<uint8_t> metadata(below(12), 1);
      TensorOf tensor(std::vector<int64_t>(below(5), 2), 0);
      const EValue values[] = {tensor.value(), EValue(int64_t{4}), EValue(1.0), EValue(false), EValue()};
      switch (below(5)) {
        case 0: dump.begin_execution(name); break;
        case 1:
          dump.record({static_cast<EventKind>(below(11)),
                       name,
                       {0, 1},
                       {static_cast<int32_t>(below(3)), text},
                       metadata,
                       1,
                       2});
          break;
        case 2: dump.record_value({&values[below(5)], {0, 2}, {-1, text}, name, below(2) == 0}); break;
        case 3: dump.record_counter(name, -1); break;
        default:
          if (num_allocators > 0) {
            dump.record_allocation(below(num_allocators), below(1000));
          }
      }
    }
    const auto bytes = dump.to_bytes();
    ASSERT_TRUE(bytes.ok());
    ASSERT_EQ(*dump.nbytes(), bytes->size());
    const fb::ETDump* const read = verified(*bytes);
    ASSERT_NE(read, nullptr) << "round " << round;
    ASSERT_EQ(read->run_data()->size(), dump.num_blocks());
  }
}

}  // namespace
}  // namespace et::devtools
