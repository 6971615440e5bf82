#include "kernels/portable/op_unfold.h"

#include <algorithm>

#include "base/checked_math.h"
#include "kernels/portable/convolution_extents.h"
#include "kernels/portable/dispatch.h"

namespace et::kernels::portable {
namespace {

// What im2col and col2im share: windows that slide over an image. Index 0 is the height, 1 the width.
struct Sliding {
  int64_t kernel[2];
  int64_t dilation[2];
  int64_t padding[2];
  int64_t stride[2];
  int64_t image[2];
  int64_t blocks[2];
  int64_t kernel_numel, block_numel;

  Error init(const char* op, IntArrayRef image_size, IntArrayRef kernel_size, IntArrayRef dilations,
             IntArrayRef paddings, IntArrayRef strides) {
    for (size_t d = 0; d < 2; ++d) {
      image[d] = list_item(image_size, d, -1);
      kernel[d] = list_item(kernel_size, d, 1);
      dilation[d] = list_item(dilations, d, 1);
      padding[d] = list_item(paddings, d, 0);
      stride[d] = list_item(strides, d, 1);
      ET_RETURN_IF_ERROR(check_window(op, image[d], kernel[d], stride[d], padding[d], dilation[d]));
      const int64_t covered = image[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
      ET_CHECK_OR_RETURN(covered >= 0, InvalidArgument,
                         "%s: a kernel of %" PRId64 " (dilation %" PRId64 ") does not fit an image of %" PRId64
                         " with padding %" PRId64,
                         op, kernel[d], dilation[d], image[d], padding[d]);
      blocks[d] = covered / stride[d] + 1;
    }
    const bool overflows =
        mul_overflow(kernel[0], kernel[1], &kernel_numel) || mul_overflow(blocks[0], blocks[1], &block_numel);
    ET_CHECK_OR_RETURN(!overflows, InvalidArgument, "%s: the number of blocks does not fit 63 bits", op);
    return Error::Ok;
  }
  int64_t image_numel() const { return image[0] * image[1]; }

  // Calls visit(row of the columns [kernel_numel], column [block_numel], count, pixel) for one channel: `count` columns
  // side by side whose pixels are stride[1] apart from `pixel` on, or outside of the image where it is -1.
  template <typename Visit>
  void for_each_run(const KernelContext& context, Visit visit) const {
    for (int64_t k = 0; k < kernel_numel; ++k) {
      const int64_t left = k % kernel[1] * dilation[1] - padding[1];  // where the first block looks
      const int64_t first = std::min(left >= 0 ? 0 : (-left + stride[1] - 1) / stride[1], blocks[1]);
      const int64_t last = left >= image[1] ? 0 : (image[1] - 1 - left) / stride[1] + 1;
      const int64_t end = std::max(first, std::min(last, blocks[1]));
      for (int64_t b = 0; b < blocks[0] && !context.cancelled(); ++b) {
        const int64_t y = b * stride[0] - padding[0] + k / kernel[1] * dilation[0];
        const int64_t column = b * blocks[1];
        if (y < 0 || y >= image[0]) {
          visit(k, column, blocks[1], int64_t{-1});
          continue;
        }
        visit(k, column, first, int64_t{-1});
        visit(k, column + first, end - first, y * image[1] + left + first * stride[1]);
        visit(k, column + end, blocks[1] - end, int64_t{-1});
      }
    }
  }
};

}  // namespace

Error im2col_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef dilation,
                 IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  const char* op = "aten::im2col";
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, 3, 4));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  const size_t first = static_cast<size_t>(self.dim()) - 3;
  Sliding sliding;
  ET_RETURN_IF_ERROR(
      sliding.init(op, IntArrayRef(self.sizes()).subspan(first + 1, 2), kernel_size, dilation, padding, stride));
  int64_t rows;
  ET_CHECK_OR_RETURN(!mul_overflow(self.size(-3), sliding.kernel_numel, &rows), InvalidArgument,
                     "%s: the number of rows does not fit 63 bits", op);
  Sizes sizes(IntArrayRef(self.sizes()).subspan(0, first));
  sizes.push_back(rows);
  sizes.push_back(sliding.block_numel);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&self, &out}));
  return dispatch_by_size(self.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = static_cast<const T*>(self.const_data_ptr());
    T* to = static_cast<T*>(out.mutable_data_ptr());
    const int64_t planes = product(self.sizes(), 0, first + 1);
    for (int64_t p = 0; p < planes; ++p) {
      sliding.for_each_run(context, [&, step = sliding.stride[1]](int64_t k, int64_t b, int64_t count, int64_t pixel) {
        T* const line = to + k * sliding.block_numel + b;
        if (pixel < 0) {
          std::fill_n(line, count, T{});
        } else if (step == 1) {
          std::copy_n(from + pixel, count, line);
        } else {
          for (int64_t i = 0; i < count; ++i) {
            line[i] = from[pixel + i * step];
          }
        }
      });
      from += sliding.image_numel();
      to += sliding.kernel_numel * sliding.block_numel;
    }
    return Error::Ok;
  });
}

Error col2im_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, IntArrayRef kernel_size,
                 IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  const char* op = "aten::col2im";
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, 2, 3));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_CHECK_OR_RETURN(output_size.size() == 2, InvalidArgument, "%s: output_size has %zu numbers, takes 2", op,
                     output_size.size());
  Sliding sliding;
  ET_RETURN_IF_ERROR(sliding.init(op, output_size, kernel_size, dilation, padding, stride));
  ET_CHECK_OR_RETURN(self.size(-2) % sliding.kernel_numel == 0 && self.size(-1) == sliding.block_numel, InvalidArgument,
                     "%s: self is %s; %" PRId64 " elements a kernel and %" PRId64 " blocks do not fit it", op,
                     ShapeText(self.sizes()).text, sliding.kernel_numel, sliding.block_numel);
  Sizes sizes(IntArrayRef(self.sizes()).subspan(0, static_cast<size_t>(self.dim()) - 2));
  sizes.push_back(self.size(-2) / sliding.kernel_numel);
  sizes.push_back(sliding.image[0]);
  sizes.push_back(sliding.image[1]);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&self, &out}));
  return dispatch<FloatTypes>(self.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const int64_t pixels = sliding.image_numel();
    ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(pixels) * sizeof(A)));
    A* const sums = static_cast<A*>(memory);
    const T* from = self.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    const int64_t planes = product(sizes, 0, sizes.size() - 2);
    for (int64_t p = 0; p < planes; ++p) {
      for (int64_t i = 0; i < pixels; ++i) {
        sums[i] = A(0);
      }
      sliding.for_each_run(context, [&, step = sliding.stride[1]](int64_t k, int64_t b, int64_t count, int64_t pixel) {
        const T* const line = from + k * sliding.block_numel + b;
        for (int64_t i = 0; pixel >= 0 && i < count; ++i) {
          sums[pixel + i * step] += static_cast<A>(line[i]);
        }
      });
      for (int64_t i = 0; i < pixels; ++i) {
        to[i] = T(sums[i]);
      }
      from += sliding.kernel_numel * sliding.block_numel;
      to += pixels;
    }
    return Error::Ok;
  });
}

}  // namespace et::kernels::portable
