// The text form: what is printed parses to a program that prints the same; what is wrong is refused with its place.
#include <gtest/gtest.h>

#include <limits>

#include "ir/parser.h"
#include "ir/printer.h"

namespace et::ir {
namespace {

std::string reprint(const std::string& text) {
  ParseError error;
  Result<std::unique_ptr<Program>> program = parse(text, &error);
  return program.ok() ? to_text(**program) : "error " + error.to_string();
}

std::string error_of(const std::string& text) {
  ParseError error;
  Result<std::unique_ptr<Program>> program = parse(text, &error);
  return program.ok() ? "parsed" : error.to_string();
}

#define EXPECT_ROUND_TRIP(text) EXPECT_EQ(reprint(text), text)

TEST(Text, TheExampleOfTheHeader) {
  EXPECT_ROUND_TRIP(R"(method @forward(%x: f32[2, s0:{1..64}, 8]) {
  %w = constant @linear.weight : f32[4, 8]
  %b = buffer @counter : i64[]
  %y = aten::linear(%x, %w, none) : f32[2, s0, 4]  // fx: linear, in layers.0, model.py:12 forward
  return %y, writes {buffer @counter = %b}
}
)");
}

TEST(Text, EveryKindOfArgumentAndType) {
  EXPECT_ROUND_TRIP(
      R"(method @m(%a: int, %b: int(s0 + 1:{2..65}), %c: double, %d: bool, %e: string, %f: none, %g: u8[0]) {
  my::op.Overload(%a, -3, 1.0, -2.5e-07, inf, -inf, nan, true, false, "a \"b\" \\ \n \x00\xff", none)
  %r, %s = op([1, %a, [none, %g]], [], double[1e+100], bool[true, false], bool[], bool[]) : c64[1], bool[2, 2]<1, 0>
  %t = "odd op"(%r) : f32[2*s0:{2..128}, s0 + 1, min(s0, 7):{0..7}, u0:{0..}, (s0 - 1)//2:{0..31}, u0:{0..9}]
  return
}
)");
}

TEST(Text, ExpressionsOfNumbersFirst) {
  EXPECT_ROUND_TRIP("method @m(%a: f32[2*s0:{2..8}, 2*s0, 64 - s0:{56..63}]) {\n  return\n}\n");
}

TEST(Text, ConstantsOfEveryType) {
  EXPECT_ROUND_TRIP(R"(constant @bf16 : bf16[3] = [1.0, -0.0078125, 0x7fc0]
constant @bool : bool[3] = [true, false, 2]
constant @c64 : c64[2] = [1.0, -2.0, 0.5, inf]
constant @empty : f32[0] = []
constant @f16 : f16[3] = [65504.0, 5.9604645e-08, -inf]
constant @f32 : f32[2, 3] = [0.1, 1e-45, 3.4028235e+38, -0.0, 0x7fc00001, inf]
constant @f64 : f64[1] = [0.1]
constant @i64 : i64[2] = [-9223372036854775808, 9223372036854775807]
constant @i8 : i8[2] = [-128, 127]
constant @scalar : f32[] = [1.5]
constant @splat : f32[1000] derived = splat(2.0)
constant @u64 : u64[1] = [18446744073709551615]
constant @"with blank" : u8[2] external("key of \"it\"", "weights")
buffer @state : f32[2] name("cache.k") shared = splat(0.0)
)");
}

TEST(Text, ProgramLevelItems) {
  EXPECT_ROUND_TRIP(R"(delegate "Example" spec("precision", "f16") spec("k", "") = "pay\x00load"
constant_method @get_dim = (3, 2.5, true, "text", none, [1, 2])
named_data "key" = "bytes"
named_data "weight" sparse(f16) = "bytes"
named_data "outside" external("base") = "bytes"
next_debug_handle 40

method @a(%x: f32[2]) {
  %y = delegate @0(%x) : f32[2] handle(7, 1, 2)
  return %y
}

method @b(%x: f32[2]) input_spec("[1]") output_spec("[2]") {
  %y = aten::relu(%x) : f32[2] tag("Example:0")
  return %x, writes {input 0 = %y}
}
)");
}

TEST(Text, LoweredAndPlannedGraphs) {
  EXPECT_ROUND_TRIP(R"(method @m(%x: f32[2, 2] at(1, 0)) stage(planned) arenas(0, 64, 128) {
  %v = alias(%x) : f32[4] alias(%x) at(1, 0)
  %y = aten::relu.out(%v) : f32[4] at(2, 64)
  return %y
}
)");
}

TEST(Text, RegionsInRegions) {
  EXPECT_ROUND_TRIP(R"(method @m(%p: bool, %x: f32[s0:{1..4}]) {
  %y = cond(%p, [%x]) : f32[s0] handle(1) {  // fx: cond
    region @true(%a: f32[s0]) {
      %b = cond(%p, [%a]) : f32[s0] {
        region @true(%c: f32[s0]) {
          return %c
        }
        region @false(%d: f32[s0]) {
          return %x
        }
      }
      return %b
    }
    region @false(%e: f32[s0]) {
      return %e
    }
  }
  return %y
}
)");
}

TEST(Text, SourcesWithOddCharacters) {
  EXPECT_ROUND_TRIP(R"(method @m(%x: f32[1]) {
  %a = op(%x) : f32[1]  // fx: a, in "my module", "my file.py":3 <lambda>
  %b = op(%x) : f32[1]  // fx: "", in L__self___0
  %c = op(%x) : f32[1]  // fx: c, "C:\\m.py":7 forward
  return %c
}
)");
}

TEST(Text, CommentsAndBlanksDoNotMatter) {
  EXPECT_EQ(
      reprint("// a comment\nmethod @m(%x:f32[1,2]){%y=op(%x,1):f32[ 2 ]// fx: y\n// fx: not this\nreturn %y}// end"),
      "method @m(%x: f32[1, 2]) {\n  %y = op(%x, 1) : f32[2]  // fx: y\n  return %y\n}\n");
}

TEST(Text, LargeConstantsCanBeLeftOut) {
  ParseError error;
  auto program =
      parse("constant @w : f32[3] = [1.0, 2.0, 3.0]\nmethod @m() {\n %w = constant @w : f32[3]\n return %w\n}", &error);
  ASSERT_TRUE(program.ok());
  PrintOptions options;
  options.max_data_elements = 2;
  EXPECT_EQ(to_text(**program, options), "method @m() {\n  %w = constant @w : f32[3]\n  return %w\n}\n");
}

TEST(ParseErrors, NamePlaceAndExpectation) {
  const std::pair<const char*, const char*> cases[] = {
      {"methods",
       "1:1: expected method, constant, buffer, delegate, constant_method, named_data or next_debug_handle, found "
       "\"methods\""},
      {"method forward", "1:8: expected '@' before a symbol, found \"forward\""},
      {"method @m(%x)", "1:13: expected ':' after the input, found \")\""},
      {"method @m(%x: f33[1])",
       "1:15: 'f33' is no type; types are f32[2, 3] and the like, int, double, bool, string, none"},
      {"method @m(%x: f32[1 2])",
       "1:19: expected a size: a number, or an expression of symbols with + - * // % and parentheses, found \"1\""},
      {"method @m(%x: f32[-1])", "1:19: a size must not be negative"},
      {"method @m(%x: f32[s0])",
       "1:19: 's0' stands here first in this method, so its bounds are needed: s0:{1..64}, or {1..} when there is no "
       "upper bound"},
      {"method @m(%x: f32[1]) {\n  return %y\n}", "2:10: %y is not defined before this use"},
      {"method @m(%x: f32[1]) {\n  %x = op() : f32[1]\n  return\n}", "2:3: %x is defined twice in this method"},
      {"method @m() {\n  %a = op(%a) : f32[1]\n return\n}", "2:11: %a is not defined before this use"},
      {"method @m() {\n  %a, %b = op() : f32[1]\n return\n}",
       "3:2: expected ',' before the next type, found \"return\""},
      {"method @m() {\n  op(99999999999999999999)\n return\n}",
       "2:6: '99999999999999999999' is neither an integer of 64 bits nor a number with a point"},
      {"method @m() {\n  op(\"abc)\n return\n}",
       "2:6: the string that begins here does not end on its line, found \"\\\"abc\""},
      {"method @m() {\n  op(1", "2:7: expected ',' or ')', found the end of the text"},
      {"method @m() {\n  return writes {input 0 = %x}", "2:26: the method has no input 0, before this, found \"=\""},
      {"method @m() {\n return\n}\nmethod @m() {\n return\n}", "4:8: method @m is defined twice"},
      {"constant @w : f32[2] = [1.0]", "1:28: expected ',' between elements, found \"]\""},
      {"constant @w : i8[1] = [128]", "1:24: '128' is no i8"},
      {"constant @w : f32[9999999999] = splat(0.0)", "1:33: the constants of this text are too large, found \"splat\""},
      {"constant @w : int",
       "1:18: a constant or buffer must be a tensor with constant sizes; this is not one, before this, found the end "
       "of the text"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(error_of(text), expected) << text;
  }
}

TEST(ParseErrors, DepthIsLimited) {
  std::string lists = "method @m() {\n op(";
  lists += std::string(100000, '[');
  EXPECT_NE(error_of(lists).find("nested too deep"), std::string::npos);
  std::string regions = "method @m() {\n";
  for (int i = 0; i < 1000; ++i) {
    regions += "cond() {\nregion @r() {\n";
  }
  EXPECT_NE(error_of(regions).find("nested too deep"), std::string::npos);
}

}  // namespace
}  // namespace et::ir
