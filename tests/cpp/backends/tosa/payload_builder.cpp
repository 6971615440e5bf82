#include "payload_builder.h"

namespace et::test {

namespace pl = backends::tosa::payload;

void PayloadBuilder::input(const std::string& name, const Shape& shape, pl::DType dtype) {
  inputs_.push_back(name);
  tensors_.push_back(pl::CreateTosaTensorDirect(tables_, name.c_str(), &shape, dtype));
}

void PayloadBuilder::add_constant(const std::string& name, const Shape& shape, pl::DType dtype, const Bytes& data) {
  tables_.ForceVectorAlignment(data.size(), 1, 8);
  tensors_.push_back(pl::CreateTosaTensorDirect(tables_, name.c_str(), &shape, dtype, &data));
  const std::vector outputs{tables_.CreateString(name)};
  operators_.push_back(pl::CreateTosaOperatorDirect(tables_, pl::Op_CONST, pl::Attribute_ConstAttribute,
                                                    pl::CreateConstAttribute(tables_).Union(), nullptr, &outputs));
}

void PayloadBuilder::shape(const std::string& name, const std::vector<int64_t>& values) {
  const auto* first = reinterpret_cast<const uint8_t*>(values.data());
  const Bytes data(first, first + values.size() * 8);
  tables_.ForceVectorAlignment(data.size(), 1, 8);
  shapes_.push_back(pl::CreateTosaShapeDirect(tables_, name.c_str(), static_cast<uint32_t>(values.size()), &data));
  const std::vector outputs{tables_.CreateString(name)};
  operators_.push_back(pl::CreateTosaOperatorDirect(tables_, pl::Op_CONST_SHAPE, pl::Attribute_ConstShapeAttribute,
                                                    pl::CreateConstShapeAttribute(tables_).Union(), nullptr, &outputs));
}

void PayloadBuilder::add(pl::Op op, const std::vector<std::string>& inputs, const std::string& output,
                         const Shape& shape, pl::DType dtype, flatbuffers::Offset<void> attribute) {
  tensors_.push_back(pl::CreateTosaTensorDirect(tables_, output.c_str(), &shape, dtype));
  operators_.push_back(pl::CreateTosaOperator(tables_, op, static_cast<pl::Attribute>(op), attribute,
                                              tables_.CreateVectorOfStrings(inputs),
                                              tables_.CreateVectorOfStrings({output})));
}

Bytes PayloadBuilder::finish(const std::vector<std::string>& outputs, int32_t minor, bool draft) {
  const auto block = pl::CreateTosaBasicBlock(tables_, tables_.CreateString("main"), tables_.CreateVector(operators_),
                                              tables_.CreateVector(tensors_), tables_.CreateVectorOfStrings(inputs_),
                                              tables_.CreateVectorOfStrings(outputs), tables_.CreateVector(shapes_));
  const std::vector blocks{block};
  const std::vector regions{pl::CreateTosaRegionDirect(tables_, "main", &blocks)};
  const auto version = pl::CreateVersion(tables_, 1, minor, 0, draft);
  pl::FinishTosaGraphBuffer(tables_, pl::CreateTosaGraphDirect(tables_, version, &regions));
  return Bytes(tables_.GetBufferPointer(), tables_.GetBufferPointer() + tables_.GetSize());
}

namespace {

using Shape = PayloadBuilder::Shape;

/// (x - 1) · 2 + 10, halved, plus 3.
Example convolution() {
  PayloadBuilder b;
  auto& t = b.tables();
  b.input("x", {1, 2, 2, 1}, pl::DType_INT8);
  b.constant<int8_t>("weight", {1, 1, 1, 1}, pl::DType_INT8, {2});
  b.constant<int32_t>("bias", {1}, pl::DType_INT32, {10});
  b.constant<int8_t>("one", {1}, pl::DType_INT8, {1});
  b.constant<int8_t>("zero", {1}, pl::DType_INT8, {0});
  const Shape pad{0, 0, 0, 0}, ones{1, 1};
  b.add(pl::Op_CONV2D, {"x", "weight", "bias", "one", "zero"}, "sum", {1, 2, 2, 1}, pl::DType_INT32,
        pl::CreateConv2dAttributeDirect(t, &pad, &ones, &ones, false, pl::DType_INT32).Union());
  b.constant<int32_t>("multiplier", {1}, pl::DType_INT32, {1 << 30});
  b.constant<int8_t>("shift", {1}, pl::DType_INT8, {31});
  b.constant<int32_t>("wide zero", {1}, pl::DType_INT32, {0});
  b.constant<int8_t>("three", {1}, pl::DType_INT8, {3});
  b.add(pl::Op_RESCALE, {"sum", "multiplier", "shift", "wide zero", "three"}, "y", {1, 2, 2, 1}, pl::DType_INT8,
        pl::CreateRescaleAttribute(t, true, pl::RoundingMode_SINGLE_ROUND).Union());
  return {"convolution", b.finish({"y"}), {1, 2, 2, 1}, {1, 2, 2, 1}, {1, 2, 3, -128}, {8, 9, 10, -121}};
}

/// Means and maxima of the rows of an image, side by side, turned round. The definition's reciprocal of 2 is a little
/// over a half, so -4.5 becomes -5.
Example pooling() {
  PayloadBuilder b;
  auto& t = b.tables();
  b.input("x", {1, 2, 2, 1}, pl::DType_INT8);
  b.constant<int8_t>("zero", {1}, pl::DType_INT8, {0});
  const Shape kernel{1, 2}, ones{1, 1}, pad{0, 0, 0, 0}, perms{0, 2, 1, 3};
  b.add(pl::Op_AVG_POOL2D, {"x", "zero", "zero"}, "mean", {1, 2, 1, 1}, pl::DType_INT8,
        pl::CreateAvgPool2dAttributeDirect(t, &kernel, &ones, &pad, pl::DType_INT32).Union());
  b.add(pl::Op_MAX_POOL2D, {"x"}, "largest", {1, 2, 1, 1}, pl::DType_INT8,
        pl::CreateMaxPool2dAttributeDirect(t, &kernel, &ones, &pad).Union());
  b.add(pl::Op_CONCAT, {"mean", "largest"}, "both", {1, 2, 2, 1}, pl::DType_INT8,
        pl::CreateConcatAttribute(t, 2).Union());
  b.add(pl::Op_TRANSPOSE, {"both"}, "turned", {1, 2, 2, 1}, pl::DType_INT8,
        pl::CreateTransposeAttributeDirect(t, &perms).Union());
  b.add(pl::Op_REVERSE, {"turned"}, "y", {1, 2, 2, 1}, pl::DType_INT8, pl::CreateReverseAttribute(t, 1).Union());
  return {"pooling", b.finish({"y"}), {1, 2, 2, 1}, {1, 2, 2, 1}, {1, 4, -3, -6}, {4, -3, 3, -5}};
}

/// A slice, padded and tiled, through a table that negates.
Example movement() {
  PayloadBuilder b;
  auto& t = b.tables();
  b.input("x", {4}, pl::DType_INT8);
  b.shape("start", {1});
  b.shape("size", {2});
  b.add(pl::Op_SLICE, {"x", "start", "size"}, "middle", {2}, pl::DType_INT8, pl::CreateSliceAttribute(t).Union());
  b.shape("pads", {1, 0});
  b.constant<int8_t>("nine", {1}, pl::DType_INT8, {9});
  b.add(pl::Op_PAD, {"middle", "pads", "nine"}, "padded", {3}, pl::DType_INT8, pl::CreatePadAttribute(t).Union());
  b.shape("twice", {2});
  b.add(pl::Op_TILE, {"padded", "twice"}, "tiled", {6}, pl::DType_INT8, pl::CreateTileAttribute(t).Union());
  std::vector<int8_t> negated(256);
  for (int i = 0; i < 256; ++i) {
    negated[static_cast<size_t>(i)] = static_cast<int8_t>(i == 0 ? 127 : 128 - i);
  }
  b.constant<int8_t>("table", {256}, pl::DType_INT8, negated);
  b.add(pl::Op_TABLE, {"tiled", "table"}, "y", {6}, pl::DType_INT8, pl::CreateTableAttribute(t).Union());
  return {"movement", b.finish({"y"}), {4}, {6}, {5, -128, 7, 6}, {-9, 127, -7, -9, 127, -7}};
}

/// Elements that are more than their row's sum stay, others become the sum, in 32 bits and back.
Example elementwise() {
  PayloadBuilder b;
  auto& t = b.tables();
  b.input("x", {2, 2}, pl::DType_INT8);
  b.add(pl::Op_CAST, {"x"}, "wide", {2, 2}, pl::DType_INT32, pl::CreateCastAttribute(t).Union());
  b.add(pl::Op_REDUCE_SUM, {"wide"}, "sum", {2, 1}, pl::DType_INT32, pl::CreateReduceSumAttribute(t, 1).Union());
  b.add(pl::Op_GREATER, {"wide", "sum"}, "more", {2, 2}, pl::DType_BOOL, pl::CreateGreaterAttribute(t).Union());
  b.add(pl::Op_SELECT, {"more", "wide", "sum"}, "chosen", {2, 2}, pl::DType_INT32,
        pl::CreateSelectAttribute(t).Union());
  b.constant<int32_t>("index", {1, 2}, pl::DType_INT32, {1, 0});
  b.shape("rows", {1, 2, 2});
  b.add(pl::Op_RESHAPE, {"chosen", "rows"}, "row", {1, 2, 2}, pl::DType_INT32, pl::CreateReshapeAttribute(t).Union());
  b.add(pl::Op_GATHER, {"row", "index"}, "swapped", {1, 2, 2}, pl::DType_INT32, pl::CreateGatherAttribute(t).Union());
  b.add(pl::Op_CAST, {"swapped"}, "y", {1, 2, 2}, pl::DType_INT8, pl::CreateCastAttribute(t).Union());
  return {"elementwise", b.finish({"y"}), {2, 2}, {1, 2, 2}, {1, 2, -5, 3}, {-2, 3, 3, 3}};
}

/// What norms of integers are made of: squares of distances to the largest element, less half their sum, which is
/// shifted to the top and back.
Example norm() {
  PayloadBuilder b;
  auto& t = b.tables();
  const Shape row{1, 4}, one{1, 1};
  b.input("x", row, pl::DType_INT8);
  b.add(pl::Op_REDUCE_MAX, {"x"}, "largest", one, pl::DType_INT8,
        pl::CreateReduceMaxAttribute(t, 1, pl::NanPropagationMode_PROPAGATE).Union());
  b.add(pl::Op_CAST, {"x"}, "wide", row, pl::DType_INT32, pl::CreateCastAttribute(t).Union());
  b.add(pl::Op_CAST, {"largest"}, "top", one, pl::DType_INT32, pl::CreateCastAttribute(t).Union());
  b.add(pl::Op_SUB, {"wide", "top"}, "distances", row, pl::DType_INT32, pl::CreateSubAttribute(t).Union());
  b.constant<int8_t>("no shift", {1}, pl::DType_INT8, {0});
  b.add(pl::Op_MUL, {"distances", "distances", "no shift"}, "squares", row, pl::DType_INT32,
        pl::CreateMulAttribute(t).Union());
  b.add(pl::Op_REDUCE_SUM, {"squares"}, "sum", one, pl::DType_INT32, pl::CreateReduceSumAttribute(t, 1).Union());
  b.add(pl::Op_CLZ, {"sum"}, "zeros", one, pl::DType_INT32, pl::CreateClzAttribute(t).Union());
  b.constant<int32_t>("one", one, pl::DType_INT32, {1});
  b.add(pl::Op_SUB, {"zeros", "one"}, "by", one, pl::DType_INT32, pl::CreateSubAttribute(t).Union());
  b.add(pl::Op_LOGICAL_LEFT_SHIFT, {"sum", "by"}, "normal", one, pl::DType_INT32,
        pl::CreateLogicalLeftShiftAttribute(t).Union());
  b.add(pl::Op_ARITHMETIC_RIGHT_SHIFT, {"normal", "zeros"}, "half", one, pl::DType_INT32,
        pl::CreateArithmeticRightShiftAttribute(t, true).Union());
  b.add(pl::Op_SUB, {"squares", "half"}, "result", row, pl::DType_INT32, pl::CreateSubAttribute(t).Union());
  b.add(pl::Op_CAST, {"result"}, "y", row, pl::DType_INT8, pl::CreateCastAttribute(t).Union());
  return {"norm", b.finish({"y"}), {1, 4}, {1, 4}, {1, 5, 3, -3}, {-26, -42, -38, 22}};
}

/// 2 x + 0.5 in [0, 5], averaged by rows; more than 3 is doubled; without the fraction.
Example floats() {
  PayloadBuilder b;
  auto& t = b.tables();
  const Shape image{1, 2, 2, 1}, column{1, 2, 1, 1}, pad{0, 0, 0, 0}, ones{1, 1}, kernel{1, 2};
  b.input("x", image, pl::DType_INT8);
  b.add(pl::Op_CAST, {"x"}, "real", image, pl::DType_FP32, pl::CreateCastAttribute(t).Union());
  b.constant<float>("weight", {1, 1, 1, 1}, pl::DType_FP32, {2});
  b.constant<float>("bias", {1}, pl::DType_FP32, {0.5f});
  b.constant<float>("zero", {1}, pl::DType_FP32, {0});
  b.add(pl::Op_CONV2D, {"real", "weight", "bias", "zero", "zero"}, "sum", image, pl::DType_FP32,
        pl::CreateConv2dAttributeDirect(t, &pad, &ones, &ones, false, pl::DType_FP32).Union());
  const Bytes low{0, 0, 0, 0}, high{0, 0, 0xa0, 0x40};  // 5.0f
  b.add(pl::Op_CLAMP, {"sum"}, "clamped", image, pl::DType_FP32,
        pl::CreateClampAttributeDirect(t, &low, &high, pl::NanPropagationMode_PROPAGATE).Union());
  b.add(pl::Op_AVG_POOL2D, {"clamped", "zero", "zero"}, "mean", column, pl::DType_FP32,
        pl::CreateAvgPool2dAttributeDirect(t, &kernel, &ones, &pad, pl::DType_FP32).Union());
  b.constant<float>("three", {1, 1, 1, 1}, pl::DType_FP32, {3});
  b.constant<float>("half", {1, 1, 1, 1}, pl::DType_FP32, {0.5f});
  b.constant<int8_t>("no shift", {1}, pl::DType_INT8, {0});
  b.add(pl::Op_RECIPROCAL, {"half"}, "two", {1, 1, 1, 1}, pl::DType_FP32, pl::CreateReciprocalAttribute(t).Union());
  b.add(pl::Op_MUL, {"mean", "two", "no shift"}, "twice", column, pl::DType_FP32, pl::CreateMulAttribute(t).Union());
  b.add(pl::Op_GREATER, {"mean", "three"}, "more", column, pl::DType_BOOL, pl::CreateGreaterAttribute(t).Union());
  b.add(pl::Op_SELECT, {"more", "twice", "mean"}, "chosen", column, pl::DType_FP32,
        pl::CreateSelectAttribute(t).Union());
  b.add(pl::Op_FLOOR, {"chosen"}, "whole", column, pl::DType_FP32, pl::CreateFloorAttribute(t).Union());
  b.add(pl::Op_CAST, {"whole"}, "y", column, pl::DType_INT8, pl::CreateCastAttribute(t).Union());
  return {"floats", b.finish({"y"}), {1, 2, 2, 1}, {1, 2, 1, 1}, {1, 2, -3, 4}, {7, 2}};
}

}  // namespace

const std::vector<Example>& examples() {
  static const std::vector<Example> all{convolution(), pooling(), movement(), elementwise(), norm(), floats()};
  return all;
}

}  // namespace et::test
