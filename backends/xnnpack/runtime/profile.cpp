#include "backends/xnnpack/runtime/profile.h"

#include <algorithm>
#include <cstring>

namespace et::backends::xnnpack {
namespace {

/// What the library's name of an operator begins with, by the form of its node, in the order of NodeForm.
constexpr const char* kBeginnings[][2] = {
    {"Unary Elementwise", "Reciprocal Square Root"},  // kUnary
    {"Convert", "Unary Elementwise"},                 // kConvert
    {"Softmax"},                                      // kSoftmax
    {"Copy"},                                         // kCopy
    {"Binary Elementwise"},                           // kBinary
    {"Fully Connected", "Dynamic Fully Connected"},   // kFullyConnected
    {"Batch Matrix Multiply"},                        // kMatMul
    {"Convolution"},                                  // kConvolution
    {"Convolution"},                                  // kDepthwise
    {"Deconvolution"},                                // kDeconvolution
    {"Max Pooling"},                                  // kMaxPool
    {"Average Pooling"},                              // kAvgPool
    {"ArgMax Pooling"},                               // kArgMaxPool
    {"Mean"},                                         // kGlobalPool
    {"Copy"},                                         // kConcatenate
    {"Transpose"},                                    // kTranspose
    {"Copy"},                                         // kReshape
    {"Slice"},                                        // kSlice
    {"Constant Pad"},                                 // kPad
    {"Resize Bilinear"},                              // kResize
    {"Scaled Dot-Product Attention"},                 // kAttention
};
static_assert(sizeof(kBeginnings) / sizeof(kBeginnings[0]) == static_cast<size_t>(NodeForm::kAttention) + 1);

bool may_stand_for(const char* name, const Node& node) {
  for (const char* const beginning : kBeginnings[static_cast<size_t>(node.type->form)]) {
    if (beginning != nullptr && std::strncmp(name, beginning, std::strlen(beginning)) == 0) {
      return true;
    }
  }
  return false;
}

/// The library calls all operators of one element alike.
bool says_little(NodeForm form) {
  return form == NodeForm::kUnary || form == NodeForm::kBinary || form == NodeForm::kReshape ||
         form == NodeForm::kConcatenate;
}

Error read_info(xnn_runtime_t runtime, xnn_profile_info what, List<char>& out) {
  size_t nbytes = 0;
  xnn_status status = xnn_get_runtime_profiling_info(runtime, what, out.size(), out.data(), &nbytes);
  if (status == xnn_status_out_of_memory) {
    out.resize(nbytes);
    status = xnn_get_runtime_profiling_info(runtime, what, out.size(), out.data(), &nbytes);
  }
  ET_CHECK_OR_RETURN(status == xnn_status_success, Internal,
                     "xnnpack delegate: the library gives no profile (status %d)", static_cast<int>(status));
  return Error::Ok;
}

}  // namespace

// The library leaves out nodes (pads and copies that it fuses, results that nobody reads), and keeps the order of the
// others. An operator that no node may stand for has no handle.
Error ProfiledOperators::find(xnn_runtime_t runtime, const Model& model) {
  List<char> answer;
  ET_RETURN_IF_ERROR(read_info(runtime, xnn_profile_info_num_operators, answer));
  size_t count;
  std::memcpy(&count, answer.data(), sizeof(count));
  answer.clear();
  ET_RETURN_IF_ERROR(read_info(runtime, xnn_profile_info_operator_name, answer));
  operators_.assign(count, {});
  durations_us_.assign(count, 0);
  const char* name = answer.data();
  auto node = model.nodes.begin();
  for (Operator& op : operators_) {
    const auto found = std::find_if(node, model.nodes.end(), [&](const Node& one) { return may_stand_for(name, one); });
    op.name = name;
    name += op.name.size() + 1;
    if (found != model.nodes.end()) {
      op.debug_handle = static_cast<int32_t>(found->debug_handle);
      op.name += says_little(found->type->form) ? std::string(" ") + found->type->name : "";
      node = found + 1;
    }
  }
  return Error::Ok;
}

Error ProfiledOperators::report(xnn_runtime_t runtime, runtime::EventTracer& tracer, uint64_t start_ns) {
  size_t nbytes;
  const xnn_status status =
      xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_timing, durations_us_.size() * sizeof(uint64_t),
                                     durations_us_.data(), &nbytes);
  ET_CHECK_OR_RETURN(status == xnn_status_success, Internal, "xnnpack delegate: the library gives no times (status %d)",
                     static_cast<int>(status));
  for (size_t i = 0; i < operators_.size(); ++i) {
    const uint64_t end_ns = start_ns + durations_us_[i] * 1000;
    tracer.record_step(operators_[i].name, {operators_[i].debug_handle}, start_ns, end_ns);
    start_ns = end_ns;
  }
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
