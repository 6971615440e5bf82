// Dtypes and shapes in messages.
#include "base/tensor_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace et {
namespace {

std::string shape(const std::vector<int64_t>& sizes) { return ShapeText(Span<const int64_t>(sizes)).text; }

TEST(TensorText, DtypesHaveTheNamesThatPyTorchPrints) {
  EXPECT_STREQ(to_string(ScalarType::Float), "torch.float32");
  EXPECT_STREQ(to_string(ScalarType::BFloat16), "torch.bfloat16");
  EXPECT_STREQ(to_string(ScalarType::Byte), "torch.uint8");
  EXPECT_STREQ(to_string(ScalarType::Long), "torch.int64");
  EXPECT_STREQ(to_string(ScalarType::Bool), "torch.bool");
  EXPECT_STREQ(to_string(ScalarType::ComplexDouble), "torch.complex128");
  EXPECT_STREQ(short_name(ScalarType::ComplexDouble), "c128");
}

TEST(TensorText, ShapesAreTuples) {
  EXPECT_EQ(shape({}), "()");
  EXPECT_EQ(shape({3}), "(3,)");
  EXPECT_EQ(shape({2, 8}), "(2, 8)");
  const std::vector<int32_t> of_a_file = {2, 8};
  EXPECT_STREQ(TensorText(ScalarType::Half, Span<const int32_t>(of_a_file)).text, "torch.float16 (2, 8)");
}

TEST(TensorText, SizesThatVaryAreRanges) {
  const std::vector<int64_t> lower = {1, 8, 0}, upper = {32, 8, INT64_MAX};
  EXPECT_STREQ(TensorText(ScalarType::Float, Span<const int64_t>(lower), Span<const int64_t>(upper)).text,
               "torch.float32 (1 to 32, 8, 0 to any)");
}

TEST(TensorText, WhatDoesNotFitIsLeftOut) {
  const std::string text = shape(std::vector<int64_t>(16, INT64_MAX - 1));
  EXPECT_LT(text.size(), sizeof(ShapeText::text));
  EXPECT_EQ(text.substr(text.size() - 6), ", ...)");
  EXPECT_EQ(shape(std::vector<int64_t>(16, 1)).find("..."), std::string::npos);
}

}  // namespace
}  // namespace et
