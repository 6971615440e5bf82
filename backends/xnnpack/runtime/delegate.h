/// One delegated part at run time: its graph in the library, and how a call runs it.
///
/// For: register.cpp. A call looks at the sizes of its inputs; when they are those of the call before, nothing is
/// reshaped, and when the tensors lie where they lay, nothing is set up either. Inputs and outputs are used where they
/// are.
///
/// The library binds a graph to a pool of threads when it makes a runtime of it. So there are two: one on the process's
/// pool, and one for the calling thread alone. The second is made when it is first needed, for parts too small to wake
/// threads for and while another method holds the pool. They share packed weights, and a workspace with all delegates
/// of their method.
#pragma once

#include "backends/xnnpack/kernels/library.h"
#include "backends/xnnpack/runtime/profile.h"
#include "backends/xnnpack/runtime/shapes.h"
#include "backends/xnnpack/runtime/subgraph.h"
#include "backends/xnnpack/runtime/tapped_values.h"
#include "backends/xnnpack/runtime/workspace.h"
#include "runtime/backend.h"

namespace et::backends::xnnpack {

class Delegate {
 public:
  Delegate() = default;
  Delegate(const Delegate&) = delete;
  Delegate& operator=(const Delegate&) = delete;

  /// Reads the payload, checks it against the arguments of its first call, builds the graph and packs weights.
  Error init(runtime::BackendInitContext& context, const runtime::FreeableBuffer& payload);
  /// args: inputs, then outputs. Errors: InvalidArgument when sizes do not fit; MemoryAllocationFailed.
  /// With a tracer, of a delegate that was made with one, the library's operators are reported to it, and the values
  /// inside where it wanted values at that time.
  Error execute(runtime::BackendExecutionContext& context, Span<EValue* const> args);

 private:
  /// A runtime of the library and what it was last prepared for.
  struct Instance {
    Instance() = default;
    ~Instance() { reset(); }
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;
    void reset();

    xnn_runtime_t runtime = nullptr;
    pthreadpool* pool = nullptr;
    uint64_t shaped_for = 0;       ///< Delegate::shapes_version_
    List<xnn_external_value> set;  ///< [inputs, outputs, tapped values]
    ProfiledOperators operators;   ///< where there is a tracer
  };
  /// What packed weights are named by: see PackedWeightsScope.
  struct Identity {
    const void* filter;
    const void* bias;
    WeightForm form;
    size_t nbytes;      // of the filter
    SharedCache* home;  // which cache it is packed in
  };

  Error check_arguments(Span<EValue* const> args) const;
  /// The library may read a few bytes past the end of what it does not pack: such constants get that room.
  Error copy_loose_constants(runtime::MemoryAllocator& allocator);
  void identify_filters();
  void find_homes();
  const Identity* find_identity(const void* filter) const;
  static bool identify(const void* self, const void** filter, const void* bias, WeightForm* form);
  static void will_pack(void* self, const void* filter);
  static bool packed(void* self, const void* filter);
  static SharedCache* home_of(const void* self, const void* filter);
  PackedWeightsScope::Owner owner(size_t nbytes_not_in_file);
  /// Packs weights by all threads, each with a graph of its own, so that the graph of all nodes finds them. What fails
  /// here is packed, and fails, there.
  void pack_ahead(threads::ThreadPool* pool);
  /// `*failed`: the debug handle of the node that it fails at, if that is known; so below.
  Error make_runtime(Instance& instance, pthreadpool* pool, int32_t* failed);
  /// True when nodes of these sizes have enough work for several threads.
  bool is_worth_waking() const;
  /// Brings `shapes_` up to date. `args` only the inputs.
  Error update_shapes(Span<EValue* const> args, int32_t* failed);
  Error resize_outputs(KernelContext& context, Span<EValue* const> outputs) const;
  Error make_room(KernelContext& context, Span<EValue* const> args, int32_t* failed);
  Error prepare(Instance& instance, Span<EValue* const> args);
  /// Sizes that the library computes with in this call.
  const List<Shape>& computed_shapes() const { return is_empty_ ? room_ : shapes_; }

  Model model_;
  SharedCache* shared_ = nullptr;  // nullptr: weights belong to the operators, as when one has no name
  const runtime::NamedDataMap* named_data_ = nullptr;  // during init only
  UnpackedFilters* filters_ = nullptr;                 // while a runtime is made
  List<Shape> bounds_;                                 // [values], upper bounds
  List<Identity> identities_;                          // sorted by filter
  List<SharedCache*> homes_;                           // of all of them that are not shared_, sorted
  List<Shape> shapes_;                                 // [values], of the last call
  uint64_t shapes_version_ = 0;
  bool is_empty_ = false;  // a value of the last call has no elements
  List<Shape> room_;       // [values], of the last such call: sizes that the library can compute
  List<void*> spare_;      // [inputs, outputs], memory for those without elements, of such a call
  bool wakes_threads_ = false;
  bool is_profiled_ = false;
  TappedValues taps_;  // none unless a tracer wants values
  std::shared_ptr<xnn_workspace> workspace_;
  Instance threaded_;
  Instance alone_;
};

}  // namespace et::backends::xnnpack
