// Images of other sizes: the nearest pixels are repeated and left out, for integers and floats; between pixels RESIZE.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/tosa/compiler/emitters.h"
#include "ir/literals.h"
#include "ops/arguments.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using ir::number_of;
using passes::int_of;

constexpr const char* kTaken = "";

std::string number(int64_t value) { return std::to_string(value); }

/// Height or width (i = 0, 1) of an image and of the result.
struct Axis {
  int64_t from, to;

  Axis(const ir::Node& node, size_t i)
      : from(node.args()[0].value()->type.tensor.dims[2 + i].max), to(node.result()->type.tensor.dims[2 + i].max) {}
};

/// By how much an axis is to grow, where the model says so; 0 = it says a size.
double factor_of(const ir::Argument& factors, size_t i) {
  const auto* items = factors.as<ir::Argument::List>();
  return items == nullptr || i >= items->size() ? 0 : number_of((*items)[i]).value_or(0);
}

// ---- nearest pixels

/// How often each pixel is repeated, and every which one counts then.
struct Ratio {
  int64_t times, step;

  explicit Ratio(const Axis& axis)
      : times(axis.to / std::gcd(axis.from, axis.to)), step(axis.from / std::gcd(axis.from, axis.to)) {}
};

/// Whether torch, which multiplies in floats, takes the pixels of the exact ratio.
bool takes_exact_pixels(const Axis& axis, double factor) {
  if (axis.to == axis.from || axis.to == 2 * axis.from) {
    return true;
  }
  const auto scale =
      static_cast<float>(factor > 0 ? 1 / factor : static_cast<double>(axis.from) / static_cast<double>(axis.to));
  for (int64_t i = 0; i < axis.to; ++i) {
    const auto place = static_cast<int64_t>(std::floor(static_cast<float>(i) * scale));
    if (std::min(place, axis.from - 1) != i * axis.from / axis.to) {
      return false;
    }
  }
  return true;
}

std::string nearest(const Question& q) {
  constexpr int64_t kMostTimes = 16;  // that an axis is longer between
  for (size_t i = 0; i < 2; ++i) {
    const Axis axis(q.node, i);
    if (Ratio(axis).times * axis.from > kMostTimes * std::max(axis.from, axis.to)) {
      return "an image whose " + number(axis.from) + " pixels become " + number(axis.to) + ", which is no small ratio";
    }
    if (!takes_exact_pixels(axis, factor_of(q.arg(ops::arguments::upsample_nearest2d_vec::kScaleFactors), i))) {
      return "a factor whose pixels are not those of " + number(axis.to) + " for " + number(axis.from);
    }
  }
  return kTaken;
}

/// Each pixel of an image several times, then each row of pixels: what stands behind an axis is repeated as a whole,
/// which Vela takes as one copy each time.
Error emit_nearest(Lowering& lowering, const ir::Node& node) {
  const ir::Value* value = node.args()[0].value();
  Shape shape = Lowering::shape_of(value->type.tensor, Form::kImage);
  TensorId image = lowering.get(value, Form::kImage);
  for (const size_t d : {2, 1}) {
    const Ratio ratio(Axis(node, d - 1));
    const int32_t size = d == 2 ? shape[3] : shape[2] * shape[3];
    const int32_t count = shape[0] * shape[1] * (d == 2 ? shape[2] : 1);
    image = lowering.tile(lowering.reshape(image, {count, size}), {1, ratio.times});
    shape[d] *= static_cast<int32_t>(ratio.times);
    image = lowering.every(lowering.reshape(image, shape), d, ratio.step);
    shape = lowering.writer.shape_of(image);
  }
  lowering.set(node.result(), Form::kImage, image);
  return Error::Ok;
}

// ---- between pixels

/// RESIZE's numbers of an axis: the place of a result is (i * step + offset) / parts.
struct Scale {
  int64_t parts, step, offset, border;

  Scale(const Axis& axis, bool from_corner_to_corner) {
    if (from_corner_to_corner && axis.from > 1 && axis.to > 1) {
      parts = axis.to - 1, step = axis.from - 1, offset = 0;
    } else {
      parts = 2 * axis.to, step = 2 * axis.from, offset = axis.from - axis.to;
    }
    const int64_t common = std::gcd(std::gcd(parts, step), offset);
    parts /= common, step /= common, offset /= common;
    border = (axis.to - 1) * step + offset - (axis.from - 1) * parts;
  }
};

std::string bilinear(const Question& q) {
  using namespace ops::arguments::upsample_bilinear2d_vec;
  constexpr int64_t kMaxSize = 16384, kMaxParts = 1 << 11, kMaxScale = 256, kMaxShrinking = 16;  // TOSA's level 8K
  const bool has_corners = int_of(q.arg(kAlignCorners)).value_or(0) != 0;
  for (size_t i = 0; i < 2; ++i) {
    const Axis axis(q.node, i);
    const double factor = factor_of(q.arg(kScaleFactors), i);
    if (!has_corners && factor > 0 && factor * static_cast<double>(axis.from) != static_cast<double>(axis.to)) {
      return "a factor of " + std::to_string(factor) + ", which is not that of " + number(axis.to) + " pixels for " +
             number(axis.from);
    }
    if (has_corners && axis.to == 1 && axis.from > 1) {
      return "one pixel from corner to corner";
    }
    const Scale scale(axis, has_corners);
    if (std::max(axis.from, axis.to) >= kMaxSize || scale.parts > kMaxParts || scale.parts > kMaxScale * scale.step ||
        scale.step >= kMaxShrinking * scale.parts) {
      return "an image whose " + number(axis.from) + " pixels become " + number(axis.to) + ", beyond RESIZE's scales";
    }
  }
  return kTaken;
}

Error emit_bilinear(Lowering& lowering, const ir::Node& node) {
  PayloadWriter& writer = lowering.writer;
  const bool has_corners = int_of(node.args()[ops::arguments::upsample_bilinear2d_vec::kAlignCorners]).value_or(0) != 0;
  const Scale rows(Axis(node, 0), has_corners), columns(Axis(node, 1), has_corners);
  const TensorId image = lowering.get(node.args()[0].value(), Form::kImage);
  const TensorId out =
      writer.add_tensor(writer.type_of(image), Lowering::shape_of(node.result()->type.tensor, Form::kImage));
  const auto attribute = payload::CreateResizeAttribute(writer.builder, payload::ResizeMode_BILINEAR);
  writer.add(payload::Op_RESIZE, attribute.Union(),
             {image, writer.add_shape({rows.parts, rows.step, columns.parts, columns.step}),
              writer.add_shape({rows.offset, columns.offset}), writer.add_shape({rows.border, columns.border})},
             out);
  lowering.set(node.result(), Form::kImage, out);
  return Error::Ok;
}

constexpr OperatorRow kRows[] = {
    {op::upsample_nearest2d_vec, "RESHAPE, TILE, RESHAPE, of other than whole factors PAD, SLICE, too", &nearest,
     &emit_nearest},
    {op::upsample_bilinear2d_vec, "RESIZE", &bilinear, &emit_bilinear},
};

}  // namespace

Span<const OperatorRow> resizing_operators() { return kRows; }

}  // namespace et::backends::tosa::compiler
