#include "backends/example/runtime/delegate.h"

#include <cstring>

#include "backends/example/runtime/operators.h"
#include "base/checked_math.h"

namespace et::backends::example {
namespace {

using runtime::EValue;
using runtime::KernelContext;
using runtime::Tensor;

/// A value during a call: a view of an input or output, or temporary memory.
struct Buffer {
  float* data = nullptr;
  int64_t sizes[4] = {};  // [rank]
  int64_t rank = 0;
  int64_t numel = 0;
};

/// Sizes along one dimension of a convolution; negative when the kernel does not fit.
int64_t conv_extent(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t span = in + 2 * padding - dilation * (kernel - 1) - 1;
  return span < 0 ? -1 : span / stride + 1;
}

class Call {
 public:
  Call(const payload::Graph& graph, KernelContext& context, Span<EValue* const> args)
      : graph_(graph), context_(context), args_(args) {}

  Error run() {
    ET_TRY(void* memory, context_.allocate_temp(graph_.num_values() * sizeof(Buffer)));
    buffers_ = static_cast<Buffer*>(memory);
    for (uint32_t i = 0; i < graph_.num_values(); ++i) {
      buffers_[i] = Buffer();
    }
    const uint32_t num_inputs = graph_.input_ids()->size();
    for (uint32_t i = 0; i < num_inputs; ++i) {
      const Tensor input = args_[i]->to_tensor();
      Buffer& buffer = buffers_[graph_.input_ids()->Get(i)];
      buffer.data = const_cast<float*>(input.const_data_ptr<float>());  // only read
      ET_RETURN_IF_ERROR(set_sizes(buffer, input.sizes().data(), input.dim()));
    }
    for (const payload::Node* node : *graph_.nodes()) {
      if (context_.cancelled()) {
        return Error::Cancelled;
      }
      ET_RETURN_IF_ERROR(run_node(*node));
    }
    for (uint32_t i = 0; i < graph_.output_ids()->size(); ++i) {
      ET_RETURN_IF_ERROR(give(buffers_[graph_.output_ids()->Get(i)], args_[num_inputs + i]->to_tensor()));
    }
    return Error::Ok;
  }

 private:
  static Error set_sizes(Buffer& buffer, const int64_t* sizes, int64_t rank) {
    buffer.rank = rank;
    buffer.numel = 1;
    for (int64_t i = 0; i < rank; ++i) {
      buffer.sizes[i] = sizes[i];
      ET_CHECK_OR_RETURN(!mul_overflow(buffer.numel, sizes[i], &buffer.numel), InvalidArgument,
                         "example backend: a tensor is too large");
    }
    return Error::Ok;
  }

  /// Temporary memory for a result. Its sizes are set.
  Error allocate(Buffer& buffer) {
    size_t nbytes;
    ET_CHECK_OR_RETURN(!mul_overflow(static_cast<size_t>(buffer.numel), sizeof(float), &nbytes), InvalidArgument,
                       "example backend: a tensor is too large");
    ET_TRY(void* memory, context_.allocate_temp(nbytes));
    buffer.data = static_cast<float*>(memory);
    return Error::Ok;
  }

  /// Copies a result to an output tensor, which gets its sizes.
  Error give(const Buffer& buffer, const Tensor& output) {
    ET_RETURN_IF_ERROR(runtime::resize_tensor(context_, output, {buffer.sizes, static_cast<size_t>(buffer.rank)}));
    if (buffer.numel > 0) {
      std::memcpy(output.mutable_data_ptr(), buffer.data, static_cast<size_t>(buffer.numel) * sizeof(float));
    }
    return Error::Ok;
  }

  Error run_node(const payload::Node& node) {
    switch (node.kind_type()) {
      case payload::Kind_Conv2d: return run_convolution(*node.kind_as_Conv2d());
      case payload::Kind_Relu: {
        const Buffer& input = buffers_[node.kind_as_Relu()->input()];
        Buffer& output = buffers_[node.kind_as_Relu()->output()];
        ET_RETURN_IF_ERROR(set_sizes(output, input.sizes, input.rank));
        ET_RETURN_IF_ERROR(allocate(output));
        relu(input.data, input.numel, output.data);
        return Error::Ok;
      }
      default: return run_add(*node.kind_as_Add());
    }
  }

  Error run_add(const payload::Add& node) {
    const Buffer& a = buffers_[node.a()];
    const Buffer& b = buffers_[node.b()];
    ET_CHECK_OR_RETURN(equal(Span<const int64_t>(a.sizes), Span<const int64_t>(b.sizes)) && a.rank == b.rank,
                       InvalidArgument, "example backend: the operands of add have different sizes");
    Buffer& output = buffers_[node.output()];
    ET_RETURN_IF_ERROR(set_sizes(output, a.sizes, a.rank));
    ET_RETURN_IF_ERROR(allocate(output));
    add(a.data, b.data, a.numel, output.data);
    return Error::Ok;
  }

  Error run_convolution(const payload::Conv2d& node) {
    const Buffer& input = buffers_[node.input()];
    const payload::Constant& filter = *graph_.constants()->Get(node.weight());
    const auto& f = *filter.sizes();
    ET_CHECK_OR_RETURN(input.rank == 4 && input.sizes[1] == f.Get(1) * node.groups(), InvalidArgument,
                       "example backend: an input of rank %" PRId64 " with %" PRId64
                       " channels, the filter takes %" PRId64,
                       input.rank, input.sizes[1], f.Get(1) * node.groups());
    ConvShape shape;
    shape.batch = input.sizes[0];
    shape.in_channels = input.sizes[1];
    shape.in_height = input.sizes[2];
    shape.in_width = input.sizes[3];
    shape.out_channels = f.Get(0);
    shape.kernel_height = f.Get(2);
    shape.kernel_width = f.Get(3);
    shape.groups = node.groups();
    for (uint32_t i = 0; i < 2; ++i) {
      shape.stride[i] = node.stride()->Get(i);
      shape.padding[i] = node.padding()->Get(i);
      shape.dilation[i] = node.dilation()->Get(i);
    }
    shape.out_height =
        conv_extent(shape.in_height, shape.kernel_height, shape.stride[0], shape.padding[0], shape.dilation[0]);
    shape.out_width =
        conv_extent(shape.in_width, shape.kernel_width, shape.stride[1], shape.padding[1], shape.dilation[1]);
    ET_CHECK_OR_RETURN(shape.out_height >= 0 && shape.out_width >= 0, InvalidArgument,
                       "example backend: the filter is larger than the padded input of %" PRId64 " x %" PRId64,
                       shape.in_height, shape.in_width);
    const int64_t sizes[] = {shape.batch, shape.out_channels, shape.out_height, shape.out_width};
    Buffer& output = buffers_[node.output()];
    ET_RETURN_IF_ERROR(set_sizes(output, sizes, 4));
    ET_RETURN_IF_ERROR(allocate(output));
    const float* bias =
        node.bias() < 0 ? nullptr : graph_.constants()->Get(static_cast<uint32_t>(node.bias()))->data()->data();
    conv2d(shape, input.data, filter.data()->data(), bias, node.relu(), output.data);
    return Error::Ok;
  }

  const payload::Graph& graph_;
  KernelContext& context_;
  Span<EValue* const> args_;   // inputs, then outputs
  Buffer* buffers_ = nullptr;  // [num_values]
};

}  // namespace

Error Delegate::check_arguments(Span<EValue* const> args) const {
  const size_t num_inputs = graph_.input_ids()->size();
  ET_CHECK_OR_RETURN(args.size() == num_inputs + graph_.output_ids()->size(), InvalidProgram,
                     "example backend: the payload has %zu inputs and %u outputs, the call %zu arguments", num_inputs,
                     graph_.output_ids()->size(), args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    ET_CHECK_OR_RETURN(args[i]->is_tensor(), InvalidProgram, "example backend: argument %zu is no tensor", i);
    const Tensor tensor = args[i]->to_tensor();
    ET_CHECK_OR_RETURN(tensor.scalar_type() == ScalarType::Float && tensor.dim() <= 4 &&
                           runtime::is_contiguous_dim_order(runtime::dim_order(tensor)),
                       InvalidProgram, "example backend: argument %zu is no row-major float32 tensor of rank up to 4",
                       i);
    ET_CHECK_OR_RETURN(i < num_inputs || !tensor.unsafe_impl()->read_only(), InvalidProgram,
                       "example backend: output %zu is a constant", i - num_inputs);
  }
  return Error::Ok;
}

Error Delegate::execute(KernelContext& context, Span<EValue* const> args) const {
  return Call(graph_, context, args).run();
}

}  // namespace et::backends::example
