// RESIZE: an image of other sizes, of its nearest pixels or, of floats, between four of them.
#include <algorithm>
#include <cstring>

#include "backends/tosa/runtime/broadcast.h"

namespace et::backends::tosa {
namespace {

/// How the places of one dimension become those of the input: place * step + offset, in parts of a pixel.
struct Scale {
  int64_t parts, step, offset, border;

  /// Of dimension i, height or width.
  static Scale of(const Operation& operation, size_t i) {
    const auto* scale = operation.in(1).constant_as<int64_t>() + 2 * i;
    return {scale[0], scale[1], operation.in(2).constant_as<int64_t>()[i], operation.in(3).constant_as<int64_t>()[i]};
  }
};

/// The pixels next to a place, and how far it is from the first to the second.
struct Place1D {
  int64_t before, behind, parts;

  Place1D(const Scale& scale, int64_t place, int64_t size) {
    const int64_t at = place * scale.step + scale.offset;
    const int64_t pixel = at >= 0 ? at / scale.parts : -((scale.parts - 1 - at) / scale.parts);
    parts = at - pixel * scale.parts;
    before = std::clamp<int64_t>(pixel, 0, size - 1);
    behind = std::clamp<int64_t>(pixel + 1, 0, size - 1);
  }
};

Error check_scale(const Scale& scale, int64_t in, int64_t out) {
  constexpr int64_t kMaxParts = 1 << 11, kMaxSize = 16384, kMaxScale = 256;
  ET_CHECK_OR_RETURN(scale.parts >= 1 && scale.parts <= kMaxParts && scale.step >= 1 && scale.step < 16 * scale.parts &&
                         scale.parts <= kMaxScale * scale.step && in < kMaxSize && out < kMaxSize &&
                         scale.offset >= -scale.parts && scale.offset < 16 * scale.parts &&
                         scale.border >= -16 * scale.parts && scale.border < scale.parts,
                     InvalidProgram, "TOSA: a scale, offset, border or size is out of range");
  const int64_t span = (in - 1) * scale.parts - scale.offset + scale.border;
  ET_CHECK_OR_RETURN(span >= 0 && span % scale.step == 0 && span / scale.step + 1 == out, InvalidProgram,
                     "TOSA: %" PRId64 " rows or columns of the output, the scale gives %" PRId64, out,
                     span / scale.step + 1);
  return Error::Ok;
}

bool is_bilinear(const Operation& operation) {
  return operation.attribute_as<payload::ResizeAttribute>()->mode() == payload::ResizeMode_BILINEAR;
}

Error check_resize(const Operation& operation) {
  const Value &in = operation.in(0), &out = operation.out();
  const payload::ResizeMode mode = operation.attribute_as<payload::ResizeAttribute>()->mode();
  ET_CHECK_OR_RETURN(mode == payload::ResizeMode_BILINEAR || mode == payload::ResizeMode_NEAREST, InvalidProgram,
                     "TOSA: RESIZE is neither of the nearest pixel nor bilinear");
  ET_CHECK_OR_RETURN(mode != payload::ResizeMode_BILINEAR || in.dtype == payload::DType_FP32, NotSupported,
                     "TOSA: bilinear RESIZE of %s, the interpreter has FP32", dtype_name(in.dtype));
  ET_RETURN_IF_ERROR(require_types(in, kInt8 | kInt16 | kFloat));
  ET_RETURN_IF_ERROR(require_dtype(out, in.dtype));
  ET_CHECK_OR_RETURN(in.rank == 4 && out.rank == 4 && in.dims[0] == out.dims[0] && in.dims[3] == out.dims[3],
                     InvalidProgram, "TOSA: images with another batch or other channels");
  ET_RETURN_IF_ERROR(require_parameter(operation.in(1), payload::DType_SHAPE, 4));
  ET_RETURN_IF_ERROR(require_parameter(operation.in(2), payload::DType_SHAPE, 2));
  ET_RETURN_IF_ERROR(require_parameter(operation.in(3), payload::DType_SHAPE, 2));
  for (size_t i = 0; i < 2; ++i) {
    ET_RETURN_IF_ERROR(check_scale(Scale::of(operation, i), in.dim(i + 1), out.dim(i + 1)));
  }
  return Error::Ok;
}

void mix(const float* const pixels[4], float down, float right, int64_t channels, float* to) {
  for (int64_t c = 0; c < channels; ++c) {
    const float above = pixels[0][c] * (1 - right) + pixels[1][c] * right;
    const float below = pixels[2][c] * (1 - right) + pixels[3][c] * right;
    to[c] = above * (1 - down) + below * down;
  }
}

Error run_resize(const Operation& operation, const Memory& memory) {
  const Value &in = operation.in(0), &out = operation.out();
  const Scale rows = Scale::of(operation, 0), columns = Scale::of(operation, 1);
  const auto pixel_nbytes = static_cast<size_t>(in.dim(3)) * element_size(in.dtype);
  const auto* image = memory.data<const uint8_t>(in);
  auto* to = memory.data<uint8_t>(out);
  for (int64_t n = 0; n < out.dim(0); ++n, image += in.dim(1) * in.dim(2) * static_cast<int64_t>(pixel_nbytes)) {
    const auto pixel = [&](int64_t y, int64_t x) {
      return image + static_cast<size_t>(y * in.dim(2) + x) * pixel_nbytes;
    };
    for (int64_t y = 0; y < out.dim(1); ++y) {
      const Place1D row(rows, y, in.dim(1));
      for (int64_t x = 0; x < out.dim(2); ++x, to += pixel_nbytes) {
        const Place1D column(columns, x, in.dim(2));
        if (!is_bilinear(operation)) {
          const int64_t nearest_row = 2 * row.parts >= rows.parts ? row.behind : row.before;
          const int64_t nearest_column = 2 * column.parts >= columns.parts ? column.behind : column.before;
          std::memcpy(to, pixel(nearest_row, nearest_column), pixel_nbytes);
          continue;
        }
        const auto floats = [&](int64_t r, int64_t c) { return reinterpret_cast<const float*>(pixel(r, c)); };
        const float* const pixels[4] = {floats(row.before, column.before), floats(row.before, column.behind),
                                        floats(row.behind, column.before), floats(row.behind, column.behind)};
        mix(pixels, static_cast<float>(row.parts) / static_cast<float>(rows.parts),
            static_cast<float>(column.parts) / static_cast<float>(columns.parts), in.dim(3),
            reinterpret_cast<float*>(to));
      }
    }
  }
  return Error::Ok;
}

constexpr OperatorRow kRows[] = {
    {payload::Op_RESIZE, 4, false, true, check_resize, run_resize},
};

}  // namespace

Span<const OperatorRow> resize_operators() { return kKept<kRows>; }

}  // namespace et::backends::tosa
