#include "ops/op_table.h"

#include <gtest/gtest.h>

#include "ops/arguments.h"
#include "ops/names.h"

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

TEST(Arguments, StandWhereTheSchemasHaveThem) {
  {
    using namespace arguments::et_convolution_clamp;
    expect_argument(op::convolution, kWeight, "weight");
    expect_argument(op::convolution, kTransposed, "transposed");
    expect_argument(op::convolution, kGroups, "groups");
    expect_argument(op::et_convolution_clamp, kMax, "max");
  }
  {
    using namespace arguments::et_quantized_convolution;
    expect_argument(op::et_quantized_convolution, kWeightScales, "weight_scales");
    expect_argument(op::et_quantized_convolution, kOutputMax, "output_max");
    EXPECT_EQ(find_op(op::et_quantized_convolution)->out_arguments[kOut].name, "out");
  }
}

TEST(Facts, SayHowElementsMove) {
  EXPECT_EQ(moves_of(op::view_copy), Moves::kReshape);
  EXPECT_EQ(moves_of(op::permute_copy), Moves::kPermute);
  EXPECT_EQ(moves_of(op::slice_copy_Tensor), Moves::kPart);
  EXPECT_EQ(moves_of(op::expand_copy), Moves::kRepeat);
  EXPECT_EQ(moves_of(op::tril), Moves::kMask);
  EXPECT_EQ(moves_of(op::add_Tensor), Moves::kNot);
  EXPECT_EQ(moves_of("aten::nothing"), Moves::kNot);
  EXPECT_EQ(find_op(op::where_self)->joins, 0b110u);
  EXPECT_EQ(find_op(op::cat)->layout, Layout::kAny);
  EXPECT_EQ(find_op(op::convolution)->layout, Layout::kChannelsLast);
  EXPECT_TRUE(has_tag(op::expand_copy, kSameType) && has_tag(op::eq_Tensor, kCheap) && !has_tag("aten::no", kCheap));
}

TEST(Facts, CompositesAreNoRows) { EXPECT_EQ(find_op("aten::flatten.using_ints"), nullptr); }

}  // namespace
}  // namespace et::ops
