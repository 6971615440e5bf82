/// MethodLoader: from a verified plan to a Method. Internal to runtime.
///
/// The steps, in this order, are: planned buffers, the value table, instructions with the kernels that may run them,
/// and what follows for values (which are computed, written, bound late). Then come inputs and outputs, delegates,
/// kernels, and initial values. All memory is the method allocator's; what an error leaves behind is undone by the
/// Method's destructor.
/// Cost: linear in the plan.
#pragma once

#include <new>

#include "runtime/kernel_offer.h"
#include "runtime/method_state.h"

namespace et::runtime {

class MethodLoader {
 public:
  static Result<Method> load(const Program& program, std::string_view name, const MemoryManager& memory,
                             const MethodOptions& options);

 private:
  /// Most kernels of one name. More are refused: the last to be tried is the one that always fits.
  static constexpr size_t kMaxCandidates = 32;

  /// The kernels registered for an operator of the plan, best first.
  struct Candidates {
    Span<const Kernel*> kernels;
    bool is_missing = false;  // called, and there is no kernel
  };

  MethodLoader(const Program& program, Method::State& state) : program_(program), state_(state) {}
  Error run();

  // method_loader.cpp: values, inputs and outputs
  Error check_planned_buffers();
  Error make_values();
  Error make_value(const schema::EValue& source, EValue* value);
  Error make_tensor(const schema::Tensor& source, EValue* value);
  const TensorImpl* find_same_shape(const schema::Tensor& source, const EValue* value) const;
  Error bind_tensor(const schema::Tensor& source, TensorImpl* impl);
  Error make_inputs();
  Error finish_values();
  bool has_own_place(size_t index) const;
  Error make_outputs();
  Error make_restore_lists();
  /// PrepareContext::IsConstant of a MethodLoader.
  static bool is_constant(const void* loader, const EValue& value);

  // method_binder.cpp: instructions, kernels, delegates
  Error find_candidates();
  Error make_instructions();
  Error make_instruction(const schema::Instruction& source, Instruction* out, size_t index);
  Error make_arguments(Span<const int32_t> indices, Instruction* out);
  Error classify_kernel_call(const Instruction& call, const Candidates& candidates, size_t index);
  Error report_missing();
  void mark_checked_instructions();
  Error init_delegates();
  Error init_delegate(const schema::BackendDelegate& source, DelegateState* delegate, uint32_t index);
  Error prepare_kernels();
  /// What is found out while a kernel is chosen for a call.
  struct Choice {
    Instruction* call;
    Overlap overlap = {};
    const Kernel* in_the_way = nullptr;  // of a kernel that cannot work in place
  };
  Error choose_kernel(PrepareContext& context, Span<const Kernel* const> kernels, Choice* choice);
  /// Makes a kernel the call's. With an `offer`, NotSupported and a cost is the answer of one that fits.
  Error try_kernel(PrepareContext& context, const Kernel& kernel, KernelOffer* offer, Choice* choice);
  void discard_constants(Span<EValue* const> args);
  void discard_gathered();
  /// PrepareContext::Discard of a MethodLoader.
  static void discard(const void* loader, const void* data, size_t nbytes);

  /// Room for `count` objects, no further apart than they must be: small ones are many. nullptr: there is none.
  void* allocate_bytes(size_t count, size_t size, size_t alignment);
  /// `count` objects made with T().
  template <typename T>
  Error allocate(size_t count, Span<T>* out) {
    auto* const list = static_cast<T*>(allocate_bytes(count, sizeof(T), alignof(T)));
    if (list == nullptr) {
      return Error::MemoryAllocationFailed;
    }
    for (size_t i = 0; i < count; ++i) {
      new (&list[i]) T();
    }
    *out = {list, count};
    return Error::Ok;
  }
  template <typename T>
  Error allocate_one(T** out) {
    Span<T> list;
    ET_RETURN_IF_ERROR(allocate(1, &list));
    *out = list.data();
    return Error::Ok;
  }
  /// A boxed list of the values with these indices; -1 = none.
  template <typename Item, typename Index>
  Error make_list(Span<const Index> indices, EValue* value) {
    BoxedList<Item>* list;
    Span<EValue*> items;
    Span<Item> cache;
    ET_RETURN_IF_ERROR(allocate_one(&list));
    ET_RETURN_IF_ERROR(allocate(indices.size(), &items));
    ET_RETURN_IF_ERROR(allocate(indices.size(), &cache));
    for (size_t i = 0; i < indices.size(); ++i) {
      items[i] = indices[i] < 0 ? nullptr : &state_.values[static_cast<size_t>(indices[i])];
    }
    list->items = items.data();
    list->cache = cache.data();
    list->size = static_cast<uint32_t>(indices.size());
    *value = EValue(list);
    return Error::Ok;
  }
  /// Calls `visit` with the flags of each item of a list value; does nothing for other values.
  template <typename Visit>
  void for_each_item(const EValue& value, Visit visit) {
    const auto items_of = [](const auto& list) { return Span<EValue* const>(list.items, list.size); };
    const Span<EValue* const> items = value.is_int_list()               ? items_of(value.int_list_items())
                                      : value.is_tensor_list()          ? items_of(value.tensor_list_items())
                                      : value.is_optional_tensor_list() ? items_of(value.optional_tensor_list_items())
                                                                        : Span<EValue* const>();
    for (EValue* const item : items) {
      if (item != nullptr) {
        visit(flags_of(item));
      }
    }
  }

  const schema::ExecutionPlan& plan() const { return *state_.plan; }
  const char* name() const { return state_.plan->name()->c_str(); }
  uint16_t& flags_of(const EValue* value) { return value_flags_[static_cast<size_t>(value - state_.values.data())]; }

  const Program& program_;
  Method::State& state_;
  Span<uint16_t> value_flags_;           // [values]; bits of ValueFlag
  Span<Candidates> candidates_;          // [operators]
  Span<const Instruction*> first_call_;  // [delegates]; nullptr: never called
  size_t num_external_ = 0;
  uintptr_t discarded_ = 0;  // address of constants that are packed, but not given back yet
  size_t discarded_nbytes_ = 0;
};

}  // namespace et::runtime
