#include "backends/xnnpack/runtime/delegate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/checked_math.h"
#include "runtime/memory_allocator.h"
#include "runtime/platform.h"
#include "runtime/shared_cache.h"
#include "threads/native_pool.h"
#include "threads/parallel.h"

namespace et::backends::xnnpack {
namespace {

/// Average multiplications of a node from which threads are woken: some 5 us of one core.
constexpr double kWorthWaking = 1 << 18;

/// What stands in memory: sizes in the order of the dims in it.
bool physical_sizes(const Tensor& tensor, Shape* out) {
  const auto order = runtime::dim_order(tensor);
  if (tensor.dim() > XNN_MAX_TENSOR_DIMS) {
    return false;
  }
  out->rank = static_cast<size_t>(tensor.dim());
  for (size_t i = 0; i < out->rank; ++i) {
    out->dims[i] = static_cast<size_t>(tensor.sizes()[order[i]]);
  }
  return true;
}

bool holds(ScalarType dtype, xnn_datatype datatype) {
  switch (datatype) {
    case xnn_datatype_fp32: return dtype == ScalarType::Float;
    case xnn_datatype_fp16: return dtype == ScalarType::Half;
    case xnn_datatype_qint8: return dtype == ScalarType::Char;
    case xnn_datatype_quint8: return dtype == ScalarType::Byte;
    case xnn_datatype_int32: return dtype == ScalarType::Int;
    default: return false;
  }
}

/// Writes a form, number after number.
class FormWriter {
 public:
  explicit FormWriter(WeightForm* form) : form_(form) {}
  void add(uint64_t number) {
    ET_DCHECK(num_numbers_ < form_->numbers.size());
    form_->numbers[num_numbers_++] = number;
  }
  void add_address(const void* address) {
    ET_DCHECK(num_addresses_ < form_->addresses.size());
    form_->addresses[num_addresses_++] = address;
  }
  void add(const Value& value) {
    uint32_t scale;
    std::memcpy(&scale, &value.quantization.scale, sizeof(scale));
    add(static_cast<uint64_t>(value.datatype) | (value.sparse == kDense ? 0 : uint64_t{1} << 32));
    add((uint64_t{scale} << 32) | static_cast<uint32_t>(value.quantization.zero_point));
    add_address(value.quantization.channel_scales.data());
    add_address(value.quantization.group_scales.data());
  }

 private:
  WeightForm* form_;
  size_t num_numbers_ = 0, num_addresses_ = 0;
};

/// Whether the library packs its filter.
bool is_packed_product(const Node& node) {
  const NodeForm form = node.type->form;
  return form == NodeForm::kFullyConnected || form == NodeForm::kConvolution || form == NodeForm::kDepthwise ||
         form == NodeForm::kDeconvolution;
}

bool is_empty(const Shape& shape) {
  size_t count;
  return !num_elements(shape, &count) || count == 0;
}

}  // namespace

void Delegate::Instance::reset() {
  if (runtime != nullptr) {
    xnn_delete_runtime(runtime);
    runtime = nullptr;
  }
  shaped_for = 0;
  set.clear();
}

Error Delegate::init(runtime::BackendInitContext& context, const runtime::FreeableBuffer& payload) {
  ET_CHECK_OR_RETURN(start_library() == Error::Ok, NotSupported,
                     "xnnpack delegate: the library cannot run on this processor");
  ET_TRY(const Payload read, read_payload({payload.data(), payload.size()}));
  ET_RETURN_IF_ERROR(read_model(read, context.named_data, model_));
  ET_RETURN_IF_ERROR(copy_loose_constants(*context.allocator));
  shapes_.reserve(model_.values.size());
  for (const Value& value : model_.values) {
    shapes_.push_back(value.declared);
  }
  if (!context.args.empty()) {
    ET_RETURN_IF_ERROR(check_arguments(context.args));
    for (size_t i = 0; i < model_.inputs.size(); ++i) {
      physical_sizes(context.args[i]->to_tensor(), &shapes_[model_.inputs[i]]);
    }
  }
  const Span<Shape> shapes(shapes_.data(), shapes_.size());
  ET_RETURN_IF_ERROR(infer_shapes(model_, shapes, &context.failed_step));
  wakes_threads_ = is_worth_waking();
  is_profiled_ = context.tracer != nullptr;
  if (is_profiled_ && context.tracer->wants_values()) {
    taps_.mark(model_);
  }
  workspace_ = workspace_of(context.method);
  ET_CHECK_OR_RETURN(workspace_ != nullptr, MemoryAllocationFailed,
                     "xnnpack delegate: no memory for %zu bytes of a "
                     "workspace",
                     failed_nbytes());
  shared_ = context.shared;
  identify_filters();
  find_homes();
  bounds_ = shapes_;
  shapes_version_ = 1;
  // The upper bounds are no sizes of a call: the first one shapes anew.
  for (const uint32_t input : model_.inputs) {
    shapes_[input].rank = SIZE_MAX;
  }
  named_data_ = context.named_data;
  pack_ahead(context.pool);
  const threads::NativePool pool(wakes_threads_ ? context.pool : nullptr);
  const Error error = make_runtime(pool.get() != nullptr ? threaded_ : alone_, pool.get(), &context.failed_step);
  named_data_ = nullptr;
  return error;
}

bool Delegate::is_worth_waking() const {
  const double total = num_multiplications(model_, {shapes_.data(), shapes_.size()});
  return total >= kWorthWaking * static_cast<double>(model_.nodes.size());
}

Error Delegate::check_arguments(Span<EValue* const> args) const {
  const size_t num_inputs = model_.inputs.size();
  ET_CHECK_OR_RETURN(args.size() == num_inputs + model_.outputs.size(), InvalidProgram,
                     "xnnpack delegate: the payload has %zu inputs and %zu outputs, the call %zu arguments", num_inputs,
                     model_.outputs.size(), args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const bool is_input = i < num_inputs;
    const Value& value = model_.values[is_input ? model_.inputs[i] : model_.outputs[i - num_inputs]];
    ET_CHECK_OR_RETURN(args[i]->is_tensor(), InvalidProgram, "xnnpack delegate: argument %zu is no tensor", i);
    const Tensor tensor = args[i]->to_tensor();
    ET_CHECK_OR_RETURN(holds(tensor.scalar_type(), value.datatype) && tensor.dim() <= XNN_MAX_TENSOR_DIMS,
                       InvalidProgram,
                       "xnnpack delegate: argument %zu is of another type or rank than the payload says", i);
    ET_CHECK_OR_RETURN(is_input || !tensor.unsafe_impl()->read_only(), InvalidProgram,
                       "xnnpack delegate: output %zu is a constant", i - num_inputs);
  }
  return Error::Ok;
}

// What several values share is copied once, so that a file takes no more memory than it has bytes, some times over.
Error Delegate::copy_loose_constants(runtime::MemoryAllocator& allocator) {
  struct Copy {
    size_t nbytes = 0;
    void* memory = nullptr;
  };
  std::map<std::pair<const void*, uint32_t>, Copy> copies;  // by the address in the file, and its sparse form
  const auto is_loose = [](const Value& value) { return value.data != nullptr && !value.is_packed_only; };
  const auto sparse_of = [this](const Value& value) {
    return value.sparse == kDense ? nullptr : &model_.sparse[value.sparse].bytes;
  };
  for (const Value& value : model_.values) {
    if (is_loose(value)) {
      const SparseBytes* const sparse = sparse_of(value);
      size_t& nbytes = copies[{value.data, value.sparse}].nbytes;
      nbytes = std::max(nbytes, sparse == nullptr ? value.nbytes : sparse->nbytes());
    }
  }
  for (Value& value : model_.values) {
    if (!is_loose(value)) {
      continue;
    }
    Copy& copy = copies[{value.data, value.sparse}];
    if (copy.memory == nullptr) {
      copy.memory = allocator.allocate(copy.nbytes + XNN_EXTRA_BYTES, 64);
      ET_CHECK_OR_RETURN(copy.memory != nullptr, MemoryAllocationFailed,
                         "xnnpack delegate: no memory for a constant of %zu bytes", copy.nbytes);
      if (const SparseBytes* const sparse = sparse_of(value)) {
        unpack(*sparse, copy.memory);
      } else {
        std::memcpy(copy.memory, value.data, copy.nbytes);
      }
      std::memset(static_cast<char*>(copy.memory) + copy.nbytes, 0, XNN_EXTRA_BYTES);
    }
    value.data = copy.memory;
    value.sparse = kDense;
    value.is_shared = false;
  }
  return Error::Ok;
}

// ---------------------------------------------------------------------------------------------------------- packed
// weights

// What the library packs depends on more than the bytes of filter and bias: on their dims and on the scales of input
// and output, which it multiplies in. All of that is the form under which packed weights are found again.
void Delegate::identify_filters() {
  for (const Node& node : model_.nodes) {
    const NodeForm form = node.type->form;
    const bool packs = is_packed_product(node);
    const Value* const bias = node.num_inputs == 3 ? &model_.values[node.inputs[2]] : nullptr;
    const Value& filter = model_.values[node.inputs[packs ? 1 : 0]];
    if (!packs) {
      continue;
    }
    if (!filter.is_shared || (bias != nullptr && !bias->is_shared)) {
      shared_ = nullptr;  // bytes that may move have no name
      return;
    }
    const auto scales = [this](uint32_t value) {
      const Quantization& quantization = model_.values[value].quantization;
      return std::array<const void*, 2>{quantization.channel_scales.data(), quantization.group_scales.data()};
    };
    const void* const bias_data = bias == nullptr ? nullptr : bias->data;
    const auto of_filter = scales(node.inputs[1]), of_input = scales(node.inputs[0]),
               of_output = scales(node.outputs[0]);
    SharedCache* const home = shared_ == nullptr
                                  ? nullptr
                                  : shared_->cache_of({filter.data, bias_data, of_filter[0], of_filter[1], of_input[0],
                                                       of_input[1], of_output[0], of_output[1]});
    identities_.push_back({filter.data, bias_data, {}, filter.nbytes, home});
    FormWriter writer(&identities_.back().form);
    writer.add(PackedWeightsScope::kGraph | static_cast<uint64_t>(form));
    writer.add(node.flags);
    writer.add_address(bias_data);
    writer.add(filter);
    writer.add(model_.values[node.inputs[0]]);
    writer.add(model_.values[node.outputs[0]]);
    for (size_t d = 0; d < XNN_MAX_TENSOR_DIMS; ++d) {
      writer.add(d < filter.declared.rank ? filter.declared.dims[d] : 0);
    }
    if (form != NodeForm::kFullyConnected) {
      const auto& c = node.as<payload::Convolution>();
      writer.add(c.groups());
      writer.add(c.group_input_channels());
      writer.add(c.group_output_channels());
      writer.add(c.subsampling_height());
      writer.add(c.subsampling_width());
    }
  }
  std::sort(identities_.begin(), identities_.end(),
            [](const Identity& a, const Identity& b) { return a.filter < b.filter; });
  for (size_t i = 1; i < identities_.size(); ++i) {
    Identity &a = identities_[i - 1], &b = identities_[i];
    if (a.filter == b.filter && (a.bias != b.bias || !(a.form == b.form))) {
      shared_ = nullptr;  // one filter used in two ways: the library does not say which it packs
      return;
    }
  }
}

/// Files that filters are shared in with other programs; where there are too many, all filters are the program's.
void Delegate::find_homes() {
  std::set<SharedCache*> homes;
  for (const Identity& identity : identities_) {
    homes.insert(identity.home);
  }
  homes.erase(shared_);
  if (shared_ != nullptr && homes.size() <= PackedWeightsScope::kMaxHomes) {
    homes_.assign(homes.begin(), homes.end());
  }
}

SharedCache* Delegate::home_of(const void* opaque, const void* filter) {
  const auto& self = *static_cast<const Delegate*>(opaque);
  SharedCache* const home = self.find_identity(filter)->home;
  return std::binary_search(self.homes_.begin(), self.homes_.end(), home) ? home : nullptr;
}

bool Delegate::identify(const void* opaque, const void** filter, const void* bias, WeightForm* form) {
  const auto& self = *static_cast<const Delegate*>(opaque);
  *filter = self.filters_->name_of(*filter);
  const Identity* const found = self.find_identity(*filter);
  // Products of inputs quantized at run time hand no bias to the look-up; the form has it.
  if (found == nullptr || (bias != nullptr && found->bias != bias)) {
    return false;
  }
  *form = found->form;
  return true;
}

void Delegate::will_pack(void* opaque, const void* filter) {
  const auto& self = *static_cast<const Delegate*>(opaque);
  self.filters_->write(filter);
}

/// Gives the file's pages behind a filter back, so that a model is in memory once when it has been packed, not twice.
bool Delegate::packed(void* opaque, const void* filter) {
  const auto& self = *static_cast<const Delegate*>(opaque);
  const Identity* const dense = self.find_identity(filter);
  if (dense != nullptr && self.named_data_ != nullptr) {
    self.named_data_->discard(filter, dense->nbytes);
  }
  return self.filters_->packed(filter);
}

PackedWeightsScope::Owner Delegate::owner(size_t nbytes_not_in_file) {
  return {&Delegate::identify,
          &Delegate::will_pack,
          &Delegate::packed,
          this,
          nbytes_not_in_file,
          &Delegate::home_of,
          Span<SharedCache* const>(homes_.data(), homes_.size())};
}

const Delegate::Identity* Delegate::find_identity(const void* filter) const {
  const auto found = std::lower_bound(identities_.begin(), identities_.end(), filter,
                                      [](const Identity& a, const void* b) { return a.filter < b; });
  return found == identities_.end() || found->filter != filter ? nullptr : &*found;
}

void Delegate::pack_ahead(threads::ThreadPool* pool) {
  constexpr size_t kWorthSharing = 1 << 20;  // bytes
  List<const Node*> products;
  size_t nbytes = 0;
  for (const Node& node : model_.nodes) {
    if (is_packed_product(node)) {
      products.push_back(&node);
      nbytes += model_.values[node.inputs[1]].nbytes;
    }
  }
  const auto filter_of = [](const Node* node) { return node->inputs[1]; };
  std::sort(products.begin(), products.end(),
            [&](const Node* a, const Node* b) { return filter_of(a) < filter_of(b); });
  products.erase(std::unique(products.begin(), products.end(),
                             [&](const Node* a, const Node* b) { return filter_of(a) == filter_of(b); }),
                 products.end());
  const bool has_threads = pool != nullptr && pool->num_threads() > 1;
  if (!has_threads || shared_ == nullptr || !model_.sparse.empty() || nbytes < kWorthSharing) {
    return;
  }
  UnpackedFilters filters(model_, named_data_);
  if (filters.prepare(true) != Error::Ok) {
    return;
  }
  const PackedWeightsScope scope(shared_, owner(0));
  if (scope.cache() == nullptr) {
    return;
  }
  filters_ = &filters;
  threads::parallel_tasks(pool, products.size(), [&](size_t i) {
    const PackedWeightsScope::Branch branch(scope);
    Subgraph subgraph;
    xnn_runtime_t made = nullptr;
    if (branch.cache() != nullptr &&
        subgraph.build_product(model_, *products[i], {bounds_.data(), bounds_.size()}) == Error::Ok &&
        xnn_create_runtime_v3(subgraph.get(), branch.cache(), nullptr, 0, &made) == xnn_status_success) {
      xnn_delete_runtime(made);
    }
  });
  filters_ = nullptr;
}

Error Delegate::make_runtime(Instance& instance, pthreadpool* pool, int32_t* failed) {
  instance.reset();
  // Making a runtime changes the graph (the library fuses nodes), so each gets one of its own.
  Subgraph subgraph;
  size_t nbytes_not_in_file = 0;
  for (const SparseConstant& sparse : model_.sparse) {
    nbytes_not_in_file += sparse.bytes.nbytes() - std::min(sparse.buffer.size(), sparse.bytes.nbytes());
  }
  const PackedWeightsScope scope(shared_, owner(nbytes_not_in_file));
  UnpackedFilters filters(model_, named_data_);
  ET_RETURN_IF_ERROR(filters.prepare(scope.cache() != nullptr));
  ET_RETURN_IF_ERROR(subgraph.build(model_, {bounds_.data(), bounds_.size()}, filters, failed));
  for (const uint32_t id : model_.inputs) {
    instance.set.push_back({id, nullptr});
  }
  for (const uint32_t id : model_.outputs) {
    instance.set.push_back({id, nullptr});
  }
  taps_.add_to(instance.set);
  filters_ = &filters;
  xnn_runtime_t made = nullptr;
  const xnn_status status = xnn_create_runtime_v4(subgraph.get(), scope.cache(), workspace_.get(), pool,
                                                  is_profiled_ ? XNN_FLAG_BASIC_PROFILING : 0, &made);
  filters_ = nullptr;
  ET_CHECK_OR_RETURN(status != xnn_status_out_of_memory, MemoryAllocationFailed,
                     "xnnpack delegate: no memory for %zu bytes of a runtime with %zu values and %zu nodes",
                     failed_nbytes(), model_.values.size(), model_.nodes.size());
  ET_CHECK_OR_RETURN(status == xnn_status_success, NotSupported,
                     "xnnpack delegate: the library cannot make a runtime (status %d)", static_cast<int>(status));
  std::unique_ptr<xnn_runtime, decltype(&xnn_delete_runtime)> owner(made, &xnn_delete_runtime);
  ET_CHECK_OR_RETURN(!filters.was_missed(), Internal,
                     "xnnpack delegate: the library packed a sparse filter without looking for it first");
  if (is_profiled_) {
    ET_RETURN_IF_ERROR(instance.operators.find(made, model_));
  }
  instance.runtime = owner.release();
  instance.pool = pool;
  return Error::Ok;
}

// -------------------------------------------------------------------------------------------------------------------
// calls

Error Delegate::update_shapes(Span<EValue* const> args, int32_t* failed) {
  bool same = true;
  for (size_t i = 0; i < model_.inputs.size(); ++i) {
    Shape sizes;
    ET_CHECK_OR_RETURN(physical_sizes(args[i]->to_tensor(), &sizes), InvalidArgument,
                       "xnnpack delegate: input %zu has too many dims", i);
    ET_CHECK_OR_RETURN(sizes.rank == bounds_[model_.inputs[i]].rank, InvalidArgument,
                       "xnnpack delegate: input %zu has another rank than at load", i);
    Shape& known = shapes_[model_.inputs[i]];
    if (!(sizes == known)) {
      known = sizes;
      same = false;
    }
  }
  if (same && shapes_version_ > 1) {
    return Error::Ok;
  }
  const Error error = infer_shapes(model_, {shapes_.data(), shapes_.size()}, failed);
  if (error != Error::Ok) {
    for (const uint32_t input : model_.inputs) {
      shapes_[input].rank = SIZE_MAX;  // the next call looks again
    }
    return error;
  }
  ++shapes_version_;
  wakes_threads_ = is_worth_waking();
  is_empty_ = false;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    is_empty_ = is_empty_ || is_empty(shapes_[i]);
  }
  return Error::Ok;
}

Error Delegate::resize_outputs(KernelContext& context, Span<EValue* const> outputs) const {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor tensor = outputs[i]->to_tensor();
    const Shape& shape = shapes_[model_.outputs[i]];
    const auto order = runtime::dim_order(tensor);
    ET_CHECK_OR_RETURN(order.size() == shape.rank, InvalidProgram,
                       "xnnpack delegate: output %zu has rank %zu, its tensor %zu", i, shape.rank, order.size());
    int64_t sizes[XNN_MAX_TENSOR_DIMS];
    bool same = true;
    for (size_t d = 0; d < shape.rank; ++d) {
      sizes[order[d]] = static_cast<int64_t>(shape.dims[d]);
      same = same && tensor.sizes()[order[d]] == sizes[order[d]];
    }
    if (!same) {
      ET_RETURN_IF_ERROR(runtime::resize_tensor(context, tensor, {sizes, shape.rank}));
    }
  }
  return Error::Ok;
}

/// The library computes nothing without elements. Where an input has none and some output has elements that do not come
/// from it, the sizes of 0 become 1. The arguments without elements get memory for that; nothing reads what is computed
/// there.
Error Delegate::make_room(KernelContext& context, Span<EValue* const> args, int32_t* failed) {
  for (const Node& node : model_.nodes) {
    bool from_nothing = false;
    for (uint32_t i = 0; i < node.num_inputs; ++i) {
      from_nothing = from_nothing || is_empty(shapes_[node.inputs[i]]);
    }
    for (uint32_t i = 0; i < node.num_outputs; ++i) {
      *failed = static_cast<int32_t>(node.debug_handle);
      ET_CHECK_OR_RETURN(!from_nothing || is_empty(shapes_[node.outputs[i]]), InvalidArgument,
                         "xnnpack delegate: a %s node: a tensor without elements leads to one with some",
                         node.type->name);
    }
  }
  room_ = shapes_;
  for (const uint32_t input : model_.inputs) {
    Shape& sizes = room_[input];
    std::replace(sizes.dims, sizes.dims + sizes.rank, size_t{0}, size_t{1});
  }
  ET_RETURN_IF_ERROR(infer_shapes(model_, {room_.data(), room_.size()}, failed));
  spare_.assign(args.size(), nullptr);
  const size_t num_inputs = model_.inputs.size();
  for (size_t i = 0; i < args.size(); ++i) {
    const uint32_t id = i < num_inputs ? model_.inputs[i] : model_.outputs[i - num_inputs];
    if (!is_empty(shapes_[id])) {
      ET_CHECK_OR_RETURN(room_[id] == shapes_[id], InvalidProgram, "xnnpack delegate: value %u follows an empty one",
                         id);
      continue;
    }
    size_t count = 0;
    ET_CHECK_OR_RETURN(num_elements(room_[id], &count), InvalidProgram, "xnnpack delegate: value %u is too large", id);
    const size_t nbytes = count * element_size(args[i]->to_tensor().scalar_type()) + XNN_EXTRA_BYTES;
    ET_TRY(spare_[i], context.allocate_temp(nbytes));
    std::memset(spare_[i], 0, nbytes);
  }
  return Error::Ok;
}

Error Delegate::prepare(Instance& instance, Span<EValue* const> args) {
  const List<Shape>& sizes = computed_shapes();
  ET_TRY(bool moved, taps_.place({sizes.data(), sizes.size()}, instance.set));
  for (size_t i = 0; i < args.size(); ++i) {
    void* const spare = is_empty_ ? spare_[i] : nullptr;
    void* const data = spare != nullptr ? spare : args[i]->to_tensor().mutable_data_ptr();
    moved = moved || instance.set[i].data != data;
    instance.set[i].data = data;
  }
  xnn_status status = xnn_status_success;
  if (instance.shaped_for != shapes_version_) {
    instance.shaped_for = 0;
    for (const uint32_t id : model_.inputs) {
      ET_RETURN_IF_ERROR(check(xnn_reshape_external_value(instance.runtime, id, sizes[id].rank, sizes[id].dims),
                               "xnn_reshape_external_value"));
    }
    // Reshaping alone keeps its plan of the workspace while no value outgrows the largest size that it ever had,
    // although a plan made for smaller ones in between has less room. Setting up the old way always plans anew.
    ET_RETURN_IF_ERROR(check(xnn_reshape_runtime(instance.runtime), "xnn_reshape_runtime"));
    status = xnn_setup_runtime(instance.runtime, instance.set.size(), instance.set.data());
    instance.shaped_for = status == xnn_status_success ? shapes_version_ : 0;
  } else if (moved) {
    status = xnn_setup_runtime_v2(instance.runtime, instance.set.size(), instance.set.data());
    instance.shaped_for = status == xnn_status_success ? shapes_version_ : 0;
  }
  return check(status, "xnn_setup_runtime");
}

Error Delegate::execute(runtime::BackendExecutionContext& context, Span<EValue* const> args) {
  ET_RETURN_IF_ERROR(check_arguments(args));
  const size_t num_inputs = model_.inputs.size();
  ET_RETURN_IF_ERROR(update_shapes(args, &context.failed_step));
  ET_RETURN_IF_ERROR(resize_outputs(context.kernel, args.subspan(num_inputs, args.size() - num_inputs)));
  if (is_empty_) {
    bool anything = false;
    for (size_t i = num_inputs; i < args.size(); ++i) {
      anything = anything || args[i]->to_tensor().numel() > 0;
    }
    if (!anything) {
      return Error::Ok;
    }
    ET_RETURN_IF_ERROR(make_room(context.kernel, args, &context.failed_step));
  }
  const threads::NativePool pool(wakes_threads_ ? context.kernel.pool() : nullptr);
  Instance& instance = pool.get() != nullptr ? threaded_ : alone_;
  if (instance.runtime == nullptr || instance.pool != pool.get()) {
    ET_RETURN_IF_ERROR(make_runtime(instance, pool.get(), &context.failed_step));
  }
  const auto stops = [](const void* kernel) { return static_cast<const KernelContext*>(kernel)->cancelled(); };
  const threads::StopScope scope(stops, &context.kernel);
  const Error error = prepare(instance, args);
  if (error != Error::Ok || context.kernel.cancelled()) {
    instance.reset();  // what the library has half done it does not undo: the next call makes it anew
    ET_RETURN_IF_ERROR(error);
    return ET_ERROR_WITH_MESSAGE(Cancelled, "the delegate was cancelled");
  }
  const uint64_t start_ns = is_profiled_ && context.tracer != nullptr ? runtime::platform_now_ns() : 0;
  ET_RETURN_IF_ERROR(check(xnn_invoke_runtime(instance.runtime), "xnn_invoke_runtime"));
  ET_CHECK_OR_RETURN(!context.kernel.cancelled(), Cancelled, "the delegate was cancelled");
  if (start_ns == 0) {
    return Error::Ok;
  }
  ET_RETURN_IF_ERROR(instance.operators.report(instance.runtime, *context.tracer, start_ns));
  if (!is_empty_) {
    taps_.report({shapes_.data(), shapes_.size()}, *context.tracer);
  }
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
