// Which entries of named data stand in the file without their zeros.
#include "emitted_file.h"
#include "numerics/sparse_bytes.h"

namespace et::emit {
namespace {

/// `count` bytes whose first `zeros` are zero.
std::string half_empty(size_t count, size_t zeros) {
  return std::string(zeros, '\0') + std::string(count - zeros, 'w');
}

std::shared_ptr<ir::Program> program_with(std::vector<ir::NamedData> entries, const std::string& constant = "") {
  auto program = planned(constant + "method @forward(%x: f32[2]) stage(lowered) {\n" +
                         (constant.empty() ? "  return %x\n}" : "  %w = constant @w : u8[2048]\n  return %x, %w\n}"));
  program->named_data = std::move(entries);
  return program;
}

/// Keys and sizes, in the order of the file.
std::string entries(const std::shared_ptr<ir::Program>& program, double sparse_weights = 0.4, bool compatible = false) {
  EmitOptions options;
  options.debug_info = false;
  options.sparse_weights = sparse_weights;
  options.compatible = compatible;
  Emitted emitted;
  ir::Diagnostics diagnostics;
  EXPECT_EQ(emit(program, options, emitted, diagnostics), Error::Ok);
  const std::vector<uint8_t> bytes = bytes_of(emitted.program);
  const schema::Program& tables = *schema::GetProgram(bytes.data());
  std::string out;
  for (const schema::NamedData* entry : *tables.named_data()) {
    out += (out.empty() ? "" : " ") + entry->key()->str() + "=" +
           std::to_string(tables.segments()->Get(entry->segment_index())->size());
  }
  return out;
}

TEST(NamedEntries, ThoseThatMayBeSparseAreWhereEnoughIsZero) {
  const auto program = program_with({{"a", half_empty(2048, 1024), ScalarType::Char},
                                     {"b", half_empty(2048, 1024)},
                                     {"c", half_empty(2048, 2000), ScalarType::Char},
                                     {"d", half_empty(2048, 800), ScalarType::Char},
                                     {"e", half_empty(1000, 900), ScalarType::Char},
                                     {"f", half_empty(2048, 0), ScalarType::Char}});
  // "a" is stored anyway, as "b"; "d" has 39 % zeros; "e" is small.
  EXPECT_EQ(entries(program), "a=2048 b=2048 d=2048 e=1000 f=2048 sparse:c=320");
  EXPECT_EQ(entries(program, 0.3), "a=2048 b=2048 e=1000 f=2048 sparse:c=320 sparse:d=1520");
  EXPECT_EQ(entries(program, 2), "a=2048 b=2048 c=2048 d=2048 e=1000 f=2048");
  EXPECT_EQ(entries(program, 0.4, true), "a=2048 b=2048 c=2048 d=2048 e=1000 f=2048");
}

TEST(NamedEntries, WhatDoesNotBecomeClearlySmallerStays) {
  EXPECT_EQ(entries(program_with({{"a", half_empty(4096, 410), ScalarType::Char}}), 0.1), "a=4096");
}

TEST(NamedEntries, AKeyThatIsTakenIsNotTakenAgain) {
  EXPECT_EQ(entries(program_with({{"a", half_empty(2048, 2000), ScalarType::Char}, {"sparse:a", "other"}})),
            "a=2048 sparse:a=5");
}

TEST(NamedEntries, BytesOfAConstantStayInTheFileOnce) {
  const auto program =
      program_with({{"a", std::string(2048, '\0'), ScalarType::Char}}, "constant @w : u8[2048] = splat(0)\n");
  EXPECT_EQ(entries(program), "a=2048");
}

TEST(NamedEntries, TheSparseFormStandsForTheBytes) {
  const std::string dense = half_empty(2048, 1500) + half_empty(2048, 700);
  const auto program = program_with({{"a", dense, ScalarType::Char}});
  EmitOptions options;
  options.debug_info = false;
  options.sparse_weights = 0.4;
  Emitted emitted;
  ir::Diagnostics diagnostics;
  ASSERT_EQ(emit(program, options, emitted, diagnostics), Error::Ok);
  const std::vector<uint8_t> bytes = bytes_of(emitted.program);
  // The only segment with bytes is the last of the file.
  const size_t size = 16 + 512 + 4096 - 2200;
  SparseBytes sparse;
  ASSERT_EQ(read_sparse_bytes("a", {bytes.data() + bytes.size() - size, size}, &sparse), Error::Ok);
  std::string out(sparse.nbytes(), 'x');
  unpack(sparse, out.data());
  EXPECT_EQ(out, dense);
}

}  // namespace
}  // namespace et::emit
