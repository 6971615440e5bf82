#include "ops/op_table.h"

#include "ops/convolution_arguments.h"

#include <gtest/gtest.h>

namespace et::ops {
namespace {

TEST(OpTable, FindsByFunctionalName) {
  const OpInfo* op = find_op("aten::add.Tensor");
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->out_name, "aten::add.out");
  EXPECT_TRUE(op->has_tag(kPointwise));
  EXPECT_TRUE(op->is_published);
  ASSERT_EQ(op->out_arguments.size(), 4u);
  EXPECT_EQ(op->out_arguments[2].name, "alpha");
  EXPECT_EQ(op->out_arguments[2].letter, 'n');
  EXPECT_EQ(op->out_arguments[2].default_text, "1");
  EXPECT_TRUE(op->out_arguments[3].is_out);
  EXPECT_EQ(op->in_place, 3u);
  EXPECT_TRUE(op->supports(ScalarType::BFloat16));
  EXPECT_EQ(find_op("aten::add"), nullptr);
  EXPECT_EQ(find_op(""), nullptr);
  EXPECT_EQ(find_op("zzz"), nullptr);
}

TEST(OpTable, ViewsLeadToCopies) {
  for (const char* name : {"aten::view", "aten::view_copy"}) {
    const OpInfo* op = find_op(name);
    ASSERT_NE(op, nullptr) << name;
    EXPECT_EQ(op->out_name, "aten::view_copy.out");
  }
  EXPECT_TRUE(find_op("aten::permute")->has_tag(kView));
  EXPECT_FALSE(find_op("aten::permute_copy")->has_tag(kView));
}

TEST(OpTable, FindsByKernelName) {
  ASSERT_NE(find_out("aten::max.dim_max"), nullptr);
  EXPECT_EQ(find_out("aten::max.dim_max")->num_returns, 2);
  EXPECT_EQ(find_out("aten::copy_")->name, "aten::copy_");
  EXPECT_EQ(find_out("aten::nothing"), nullptr);
}

TEST(OpTable, EachEntryIsFoundUnderItsNames) {
  for (const OpInfo& op : all_ops()) {
    EXPECT_EQ(find_op(op.name), &op);
    ASSERT_NE(find_out(op.out_name), nullptr);
    EXPECT_EQ(find_out(op.out_name)->out_name, op.out_name);
  }
}

void expect_argument(const char* op, size_t position, const char* name) {
  const OpInfo* const info = find_op(op);
  ASSERT_NE(info, nullptr) << op;
  for (const Span<const Argument> arguments : {info->arguments, info->out_arguments}) {
    ASSERT_LT(position, arguments.size()) << op;
    EXPECT_EQ(arguments[position].name, name) << op;
  }
}

TEST(ConvolutionArguments, StandWhereTheSchemasHaveThem) {
  {
    using namespace convolution_arguments;
    expect_argument("aten::convolution", kWeight, "weight");
    expect_argument("aten::convolution", kTransposed, "transposed");
    expect_argument("aten::convolution", kGroups, "groups");
    expect_argument("et::convolution_clamp", kGroups, "groups");
    expect_argument("et::convolution_clamp", kMax, "max");
  }
  {
    using namespace weight_only_convolution_arguments;
    expect_argument("et::weight_only_convolution", kZeroPoints, "weight_zero_points");
    expect_argument("et::weight_only_convolution", kTransposed, "transposed");
    expect_argument("et::weight_only_convolution", kMax, "max");
    EXPECT_EQ(find_op("et::weight_only_convolution")->out_arguments[kOut].name, "out");
  }
  {
    using namespace quantized_convolution_arguments;
    expect_argument("et::quantized_convolution", kWeightScales, "weight_scales");
    expect_argument("et::quantized_convolution", kTransposed, "transposed");
    expect_argument("et::quantized_convolution", kOutputMax, "output_max");
    EXPECT_EQ(find_op("et::quantized_convolution")->out_arguments[kOut].name, "out");
  }
}

}  // namespace
}  // namespace et::ops
