// Payloads that are damaged in thousands of ways are refused or run; nothing crashes, hangs or leaks. Run it under
// sanitizers (make sanitize). ET_MUTATIONS sets how many payloads, ET_SEED which ones.
#include <gtest/gtest.h>

#include <cstring>

#include "../../robustness/hostile_program.h"
#include "../../robustness/mutations.h"
#include "backends/xnnpack/schema/payload_generated.h"
#include "networks.h"
#include "schema/pte_header.h"

namespace et::test {
namespace {

namespace fb = schema;

/// A file with one delegate, taken apart.
struct Seed {
  const char* name;
  Bytes file;
  Bytes payload;
};

/// Where the bytes of the delegate stand in a file.
Span<const uint8_t> payload_of(const Bytes& file) {
  const auto layout = fb::parse_pte_header({file.data(), file.size()}, file.size());
  const fb::Program* const program = fb::GetProgram(file.data());
  const auto* const delegates = program->execution_plan()->Get(0)->delegates();
  EXPECT_EQ(delegates->size(), 1u);
  const auto* const segment = program->segments()->Get(delegates->Get(0)->processed()->index());
  return {file.data() + layout->segment_base_offset + segment->offset(), segment->size()};
}

/// Where the types of a payload's nodes stand, a byte each.
std::vector<size_t> node_types_at(const Bytes& payload) {
  namespace pl = backends::xnnpack::payload;
  uint32_t offset;  // of the tables, in the header
  std::memcpy(&offset, payload.data() + 10, sizeof(offset));
  std::vector<size_t> places;
  for (const pl::Node* const node : *pl::GetGraph(payload.data() + offset)->nodes()) {
    const auto* const table = reinterpret_cast<const flatbuffers::Table*>(node);
    places.push_back(static_cast<size_t>(table->GetAddressOf(pl::Node::VT_NODE_TYPE) - payload.data()));
  }
  return places;
}

/// The payload with nodes of type `to`, of as many inputs, in place of `from`; other writers' files have such nodes.
Bytes with_nodes(Bytes payload, uint8_t from, uint8_t to) {
  for (const size_t place : node_types_at(payload)) {
    payload[place] = payload[place] == from ? to : payload[place];
  }
  return payload;
}

/// The file with another payload, of any length: as inline data, so that nothing else moves.
Bytes with_payload(const Bytes& file, const Bytes& payload) {
  fb::ProgramT program;
  fb::GetProgram(file.data())->UnPackTo(&program);
  auto data = std::make_unique<fb::BackendDelegateInlineDataT>();
  data->data = payload;
  program.backend_delegate_data.push_back(std::move(data));
  fb::BackendDelegateDataReferenceT& place = *program.execution_plan[0]->delegates[0]->processed;
  place.location = fb::DataLocation_INLINE;
  place.index = static_cast<uint32_t>(program.backend_delegate_data.size() - 1);
  return with_tables(file, program);
}

const std::vector<Seed>& seeds() {
  static const auto* const made = [] {
    auto* all = new std::vector<Seed>;
    for (const Network& network : networks()) {
      SCOPED_TRACE(network.name);
      Bytes file = lowered(network.text);
      const Span<const uint8_t> payload = payload_of(file);
      all->push_back({network.name, std::move(file), Bytes(payload.begin(), payload.end())});
      if (network.name == std::string_view("clamps")) {
        using namespace backends::xnnpack::payload;
        const Seed own = all->back();
        all->push_back({"clamps behind clamps", own.file, with_nodes(own.payload, NodeUnion_Abs, NodeUnion_Clamp)});
        all->push_back({"clamps behind copies", own.file, with_nodes(own.payload, NodeUnion_Abs, NodeUnion_Copy)});
      }
    }
    return all;
  }();
  return *made;
}

Outcome run(const Bytes& file) {
  return run_hostile_program(file.data(), file.size(), {&all_kernels(), &all_backends()});
}

TEST(Payload, SeedsRunAsTheyAre) {
  for (const Seed& seed : seeds()) {
    SCOPED_TRACE(seed.name);
    EXPECT_EQ(run(seed.file), Outcome::kRan);
    EXPECT_EQ(run(with_payload(seed.file, seed.payload)), Outcome::kRan);
  }
}

TEST(Payload, CutOffAnywhere) {
  for (const Seed& seed : seeds()) {
    SCOPED_TRACE(seed.name);
    for (size_t size = 0; size + 16 <= seed.payload.size(); size += 1 + size / 40) {  // it ends in padding
      const Bytes cut(seed.payload.begin(), seed.payload.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_NE(run(with_payload(seed.file, cut)), Outcome::kRan) << size << " of " << seed.payload.size() << " bytes";
    }
  }
}

TEST(Payload, DamagedBytes) {
  run_mutations(number_from("ET_MUTATIONS", 8000), [](Random& random) {
    const Seed& seed = seeds()[random.below(seeds().size())];
    const Bytes& other = seeds()[random.below(seeds().size())].payload;
    return run(with_payload(seed.file, mutate_bytes(seed.payload, other, random)));
  });
}

/// Fields of tables are aligned to their size: words damaged in place keep most of a payload readable.
TEST(Payload, DamagedFields) {
  run_mutations(number_from("ET_MUTATIONS", 8000), [](Random& random) {
    const Seed& seed = seeds()[random.below(seeds().size())];
    Bytes payload = seed.payload;
    for (size_t n = 1 + random.below(3); n > 0; --n) {
      const size_t place = random.below(payload.size() / 4) * 4;
      uint32_t word;
      std::memcpy(&word, payload.data() + place, sizeof(word));
      word = static_cast<uint32_t>(random.awkward(word));
      std::memcpy(payload.data() + place, &word, sizeof(word));
    }
    return run(with_payload(seed.file, payload));
  });
}

/// Types of nodes exchanged: neighbours that the library would make one node of, and tables read as others.
TEST(Payload, DamagedTypes) {
  run_mutations(number_from("ET_MUTATIONS", 8000), [](Random& random) {
    const Seed& seed = seeds()[random.below(seeds().size())];
    Bytes payload = seed.payload;
    const std::vector<size_t> places = node_types_at(payload);
    for (size_t n = 1 + random.below(3); n > 0; --n) {
      payload[places[random.below(places.size())]] =
          random.below(2) == 0 ? payload[places[random.below(places.size())]]
                               : static_cast<uint8_t>(1 + random.below(backends::xnnpack::payload::NodeUnion_MAX));
    }
    for (size_t n = random.below(3); n > 0; --n) {
      const size_t place = random.below(payload.size() / 4) * 4;
      const auto word = static_cast<uint32_t>(random.below(12));  // an id, a flag, a padding
      std::memcpy(payload.data() + place, &word, sizeof(word));
    }
    return run(with_payload(seed.file, payload));
  });
}

}  // namespace
}  // namespace et::test
