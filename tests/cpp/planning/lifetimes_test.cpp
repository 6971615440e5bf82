// Lifetimes and plans of whole graphs, written in the text form.
#include "planning/lifetimes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "ir/parser.h"
#include "ir/verifier.h"
#include "planning/plan_memory.h"

namespace et::planning {
namespace {

std::unique_ptr<ir::Program> parsed(const std::string& text) {
  ir::ParseError error;
  Result<std::unique_ptr<ir::Program>> program = ir::parse(text, &error);
  if (!program.ok()) {
    ADD_FAILURE() << error.to_string();
    return std::make_unique<ir::Program>();
  }
  return std::move(*program);
}

/// "x,v 0-2 64": the values that share memory, when they live, their bytes. One line a lifetime.
std::string lifetimes_of(const std::string& text, const LifetimeOptions& options = {}) {
  const std::unique_ptr<ir::Program> program = parsed(text);
  const Result<Lifetimes> lifetimes = compute_lifetimes(*program->methods.at(0), options);
  if (!lifetimes.ok()) {
    return to_string(lifetimes.error());
  }
  std::string out;
  for (const Lifetime& life : lifetimes.get().planned) {
    for (const ir::Value* value : life.values) {
      out += (value == life.values.front() ? "" : ",") + value->name;
    }
    out +=
        " " + std::to_string(life.first) + "-" + std::to_string(life.last) + " " + std::to_string(life.nbytes) + "\n";
  }
  return out;
}

TEST(Lifetimes, AChain) {
  EXPECT_EQ(lifetimes_of(R"(method @m(%x: f32[4]) stage(lowered) {
    %a = aten::neg.out(%x) : f32[4]
    %b = aten::neg.out(%a) : f32[4]
    %unused = aten::neg.out(%b) : f32[2]
    return %b
  })"),
            "x 0-1 16\na 1-2 16\nb 2-4 16\nunused 3-3 8\n");
}

TEST(Lifetimes, AnInputThatNothingReadsHasNoPlace) {
  EXPECT_EQ(lifetimes_of(R"(method @m(%x: f32[4], %shape: f32[8], %returned: f32[2]) stage(lowered) {
    %a = aten::neg.out(%x) : f32[4]
    return %a, %returned
  })"),
            "x 0-1 16\nreturned 0-2 8\na 1-2 16\n");
}

TEST(Lifetimes, AliasesCountOnceAndLiveTogether) {
  EXPECT_EQ(lifetimes_of(R"(method @m(%x: f32[4]) stage(lowered) {
    %a = aten::neg.out(%x) : f32[4]
    %v = alias(%a) : f32[2, 2] alias(%a)
    %r = aten::relu.out(%v) : f32[2, 2] alias(%v)
    %c = aten::neg.out(%r) : f32[2, 2]
    return %c
  })"),
            "x 0-1 16\na,v,r 1-4 16\nc 4-5 16\n");
}

TEST(Lifetimes, ConstantsNeedNoneAndBuffersLiveAlways) {
  EXPECT_EQ(lifetimes_of(R"(
  constant @w : f32[4] = [1.0, 2.0, 3.0, 4.0]
  buffer @b : f32[4] = [0.0, 0.0, 0.0, 0.0]
  method @m(%x: f32[4]) stage(lowered) {
    %w = constant @w : f32[4]
    %b = buffer @b : f32[4]
    %a = aten::add.out(%x, %w, 1) : f32[4]
    %n = aten::copy_(%b, %a, false) : f32[4] alias(%b)
    return %w, writes {buffer @b = %n}
  })"),
            "x 0-3 16\nb,n 0-5 16\na 3-4 16\n");
}

TEST(Lifetimes, DynamicTensorsCountAtTheirBoundAndUnboundedOnesNot) {
  EXPECT_EQ(lifetimes_of(R"(method @m(%x: f32[s0:{1..8}]) stage(lowered) {
    %a = aten::neg.out(%x) : f32[s0:{1..8}]
    %u = aten::nonzero.out(%a) : i64[u0:{0..}, 1]
    return %u
  })"),
            "x 0-1 32\na 1-2 32\n");
}

TEST(Lifetimes, WhatTheCallerGivesIsLeftOut) {
  const std::string text = R"(method @m(%x: f32[4]) stage(lowered) {
    %a = aten::neg.out(%x) : f32[4]
    %b = aten::neg.out(%a) : f32[4]
    return %b
  })";
  LifetimeOptions options;
  options.plan_inputs = false;
  options.plan_outputs = false;
  EXPECT_EQ(lifetimes_of(text, options), "a 1-2 16\n");
}

TEST(Lifetimes, AnUnplannedOutputSharesWithNothing) {
  LifetimeOptions options;
  options.plan_outputs = false;
  EXPECT_EQ(lifetimes_of(R"(method @m(%x: f32[4]) stage(lowered) {
    %a = aten::neg.out(%x) : f32[4]
    %v = alias(%a) : f32[2, 2] alias(%a)
    return %v
  })",
                         options),
            "InvalidArgument");
}

/// Only one branch runs: both results share memory, which lives until the last use of the node's result.
TEST(Lifetimes, BranchesShareMemory) {
  EXPECT_EQ(lifetimes_of(R"(method @m(%p: bool, %x: f32[4]) stage(lowered) {
    %r = cond(%p) : f32[4] {
      region @true() {
        %t = aten::neg.out(%x) : f32[4]
        return %t
      }
      region @false() {
        %f = aten::relu.out(%x) : f32[4]
        return %f
      }
    }
    %a = aten::neg.out(%r) : f32[4]
    return %a
  })"),
            "x 0-5 16\nt,f 2-7 16\na 7-8 16\n");
}

/// A branch that returns what it captured: a move binds it, so it lives on, and the result owns nothing.
TEST(Lifetimes, AMoveKeepsItsSourceAlive) {
  const std::string text = R"(method @m(%p: bool, %x: f32[4]) stage(lowered) {
    %r = cond(%p) : f32[4] {
      region @true() {
        return %x
      }
      region @false() {
        %f = aten::relu.out(%x) : f32[4]
        return %f
      }
    }
    %b = aten::neg.out(%p) : f32[4]
    %a = aten::neg.out(%r) : f32[4]
    return %a
  })";
  EXPECT_EQ(lifetimes_of(text), "x 0-7 16\nf 4-7 16\nb 6-6 16\na 7-8 16\n");
}

/// Defined before the loop and used in it: the next turn reads it again.
TEST(Lifetimes, LoopsKeepWhatTheyRead) {
  EXPECT_EQ(lifetimes_of(R"(method @m(%x: f32[4]) stage(lowered) {
    %k = aten::neg.out(%x) : f32[4]
    %c = aten::clone.out(%x, none) : f32[4]
    %i, %y = while_loop(0, %c) : int(u0:{0..}), f32[4] {
      region @condition(%ci: int(u1:{0..}), %cx: f32[4]) {
        %p = executorch_prim::lt.Scalar(%ci, 5) : bool
        return %p
      }
      region @body(%bi: int(u2:{0..}), %bx: f32[4]) {
        %t = aten::add.out(%bx, %k, 1) : f32[4]
        %n = executorch_prim::add.Scalar(%bi, 1) : int(u2 + 1:{0..})
        %u = aten::copy_(%bx, %t, false) : f32[4] alias(%bx)
        return %n, %u
      }
    }
    %z = aten::neg.out(%y) : f32[4]
    return %z
  })"),
            "x 0-2 16\nk 1-10 16\nc,u,cx,bx,y 2-11 16\nt 6-8 16\nz 11-12 16\n");
}

/// "b over a 72 72": the results that may overlap their inputs, and how far off they begin. `body` reads %x and makes
/// %y; both are images of eight channels.
std::string overlaps_of(const std::string& body, const char* inputs = "%x: i8[1, 8, 5, 5]<0, 2, 3, 1>") {
  const std::unique_ptr<ir::Program> program = parsed(R"(
  constant @w : i8[8, 1, 3, 3] = splat(1)
  constant @s : f32[1] = [1.0]
  method @m()" + std::string(inputs) + R"() stage(lowered) {
    %w = constant @w : i8[8, 1, 3, 3]
    %s = constant @s : f32[1]
)" + body + "}");
  LifetimeOptions options;
  options.overlap_inputs = true;
  const Result<Lifetimes> lifetimes = compute_lifetimes(*program->methods.at(0), options);
  std::string out;
  for (const Lifetime& life : lifetimes.get().planned) {
    if (life.over.input != Overlap::kNone) {
      out += life.values.front()->name + " over " + lifetimes.get().planned[life.over.input].values.front()->name +
             " " + std::to_string(life.over.in_front) + " " + std::to_string(life.over.behind) + "\n";
    }
  }
  return out;
}

/// A depthwise convolution of 3 x 3 windows.
std::string convolved(const std::string& from, const std::string& to,
                      const std::string& type = "i8[1, 8, 5, 5]<0, 2, 3, 1>", const std::string& groups = "8") {
  return to + " = et::quantized_convolution.out(" + from +
         ", 0.5, 0, %w, %s, none, [1, 1], [1, 1], [1, 1], false, [0, 0], " + groups + ", 0.5, 0, -128, 127) : " + type +
         "\n";
}

TEST(Lifetimes, ResultsMayOverlapInputsThatNothingReadsLater) {
  EXPECT_EQ(overlaps_of(convolved("%x", "%a") + convolved("%a", "%b") + "return %b"),
            "a over x 56 56\nb over a 56 56\n");
}

/// Each of these would be overwritten while it is needed, or is no call that the kernel works in place for.
TEST(Lifetimes, OtherResultsLieApart) {
  const std::string image = "i8[1, 8, 5, 5]<0, 2, 3, 1>";
  EXPECT_EQ(
      overlaps_of(convolved("%x", "%a") +
                  "%b = et::quantized_add.out(%a, 1.0, 0, %x, 1.0, 0, 1.0, 0, -128, 127) : " + image + "\nreturn %b"),
      "")
      << "the input is read once more";
  EXPECT_EQ(overlaps_of(convolved("%x", "%a") + "return %a, %x"), "") << "the input is returned";
  EXPECT_EQ(overlaps_of("%v = alias(%x) : " + image + " alias(%x)\n" + convolved("%x", "%a") +
                        "%b = aten::neg.out(%v) : " + image + "\nreturn %a, %b"),
            "")
      << "a view of the input is read later";
  EXPECT_EQ(overlaps_of(convolved("%x", "%a", "i8[1, 8, 5, 5]") + "return %a"), "") << "row-major";
  EXPECT_EQ(overlaps_of(convolved("%x", "%a") + "return %a", "%x: i8[s0:{1..1}, 8, 5, 5]<0, 2, 3, 1>"), "")
      << "a size is known at run time";
  EXPECT_EQ(
      overlaps_of(convolved("%x", "%a", "i8[2, 8, 5, 5]<0, 2, 3, 1>") + "return %a", "%x: i8[2, 8, 5, 5]<0, 2, 3, 1>"),
      "")
      << "two images";
  EXPECT_EQ(overlaps_of(convolved("%x", "%a", image, "2") + "return %a"), "") << "groups";
  EXPECT_EQ(overlaps_of("%r = cond(%p) : " + image + " {\nregion @true() {\n" + convolved("%x", "%t") +
                            "return %t\n}\nregion @false() {\n%f = aten::neg.out(%x) : " + image +
                            "\nreturn %f\n}\n}\n" + convolved("%r", "%a") + "return %a",
                        "%p: bool, %x: i8[1, 8, 5, 5]<0, 2, 3, 1>"),
            "")
      << "control flow";
}

TEST(PlanMemory, OverlappingResultsTakeOneBufferAndADistance) {
  const std::unique_ptr<ir::Program> program = parsed(R"(
  constant @w : i8[8, 1, 3, 3] = splat(1)
  constant @s : f32[1] = [1.0]
  method @m(%x: i8[1, 8, 5, 5]<0, 2, 3, 1>) stage(lowered) {
    %w = constant @w : i8[8, 1, 3, 3]
    %s = constant @s : f32[1]
)" + convolved("%x", "%a") + convolved("%a", "%b") + convolved("%b", "%c") +
                                                      "return %c }");
  MemoryPlans plans;
  plans.common.lifetimes.overlap_inputs = true;
  PlanReport report;
  ASSERT_EQ(plan_memory(*program, plans, &report), Error::Ok);
  EXPECT_EQ(report[0].planned_nbytes, 208u + 64u);  // 200 and 56, each in whole lines
  EXPECT_EQ(report[0].max_live_nbytes, 256u);
  EXPECT_EQ(check_allocations(*program->methods[0], plans.common), Error::Ok);
  MemoryPlan apart = plans.common;
  apart.lifetimes.overlap_inputs = false;
  EXPECT_EQ(check_allocations(*program->methods[0], apart), Error::InvalidArgument);
}

TEST(PlanMemory, PlacesEverythingAndChecksIt) {
  const auto program = parsed(R"(
  buffer @b : f32[4] = [1.0, 0.0, 0.0, 0.0]
  method @one(%x: f32[100]) stage(lowered) {
    %a = aten::neg.out(%x) : f32[100]
    %v = alias(%a) : f32[10, 10] alias(%a)
    %c = aten::neg.out(%v) : f32[10, 10]
    return %c
  }
  method @two(%x: f32[4]) stage(lowered) {
    %b = buffer @b : f32[4]
    %n = aten::copy_(%b, %x, false) : f32[4] alias(%b)
    return %n, writes {buffer @b = %n}
  })");
  MemoryPlans plans;
  plans.common.alignment = 64;
  PlanReport report;
  ASSERT_EQ(plan_memory(*program, plans, &report), Error::Ok);
  ir::Diagnostics diagnostics;
  EXPECT_EQ(ir::verify(*program, &diagnostics), Error::Ok) << (diagnostics.empty() ? "" : diagnostics[0].message);
  ASSERT_EQ(report.size(), 2u);
  EXPECT_EQ(report[0].arena_sizes, (std::vector<uint64_t>{0, 896}));
  EXPECT_EQ(report[0].max_live_nbytes, 800u);
  EXPECT_EQ(report[1].arena_sizes, (std::vector<uint64_t>{0, 64, 64})) << "state has an arena of its own";
  for (const auto& method : program->methods) {
    EXPECT_EQ(check_allocations(*method, plans.common), Error::Ok);
  }
  EXPECT_EQ(plan_memory(*program, plans), Error::InvalidState) << "planned already";
  // The checker sees a plan that was changed behind its back.
  program->methods[0]->inputs()[0]->allocation.offset =
      program->methods[0]->nodes().front()->result()->allocation.offset;
  EXPECT_EQ(check_allocations(*program->methods[0], plans.common), Error::InvalidArgument);
}

/// True where no other value has a byte of the place of `name`, in a plan with `floats` numbers in the middle.
bool lies_apart(const std::string& name, int64_t floats, uint64_t capacity = 0) {
  const std::string middle = "f32[" + std::to_string(floats) + "]";
  const auto program = parsed("method @m(%x: f32[524288]) stage(lowered) {\n  %a = aten::neg.out(%x) : " + middle +
                              "\n  %b = aten::neg.out(%a) : " + middle + "\n  %c = aten::neg.out(%b) : " + middle +
                              "\n  %y = aten::neg.out(%c) : f32[524288]\n  return %y\n}");
  MemoryPlans plans;
  plans.common.arenas.front().capacity = capacity;
  EXPECT_EQ(plan_memory(*program, plans), Error::Ok);
  EXPECT_EQ(check_allocations(*program->methods[0], plans.common), Error::Ok);
  std::vector<const ir::Value*> values = {program->methods[0]->inputs()[0].get()};
  for (const auto& node : program->methods[0]->nodes()) {
    values.push_back(node->result());
  }
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto* value) { return value->name == name; });
  const auto begin = [](const ir::Value* value) { return value->allocation.offset; };
  const auto end = [&](const ir::Value* value) {
    return begin(value) + static_cast<uint64_t>(value->type.tensor.max_nbytes());
  };
  return std::none_of(values.begin(), values.end(), [&](const ir::Value* other) {
    return other != *found && begin(other) < end(*found) && begin(*found) < end(other);
  });
}

TEST(PlanMemory, LargeInputsAndOutputsLieApartWhereThatIsCheap) {
  constexpr int64_t kEnd = 524288;
  for (const char* end : {"x", "y"}) {
    EXPECT_FALSE(lies_apart(end, 1000)) << "two pieces in place of one";
    EXPECT_FALSE(lies_apart(end, kEnd)) << "three in place of two";
    EXPECT_TRUE(lies_apart(end, 4 * kEnd)) << "both are a quarter";
    EXPECT_FALSE(lies_apart(end, 4 * kEnd, uint64_t{1} << 30)) << "the arena has a limit";
  }
  EXPECT_FALSE(lies_apart("x", 3 * kEnd)) << "both are a third";
  EXPECT_TRUE(lies_apart("y", 3 * kEnd)) << "one is a sixth";
}

TEST(PlanMemory, SharedBuffersLieAtEqualOffsets) {
  const auto program = parsed(R"(
  buffer @a : f32[4] = [1.0, 0.0, 0.0, 0.0]
  buffer @z : f32[8] shared = splat(0.0)
  method @one() stage(lowered) {
    %a = buffer @a : f32[4]
    %z = buffer @z : f32[8]
    return %a, %z
  }
  method @two() stage(lowered) {
    %z = buffer @z : f32[8]
    return %z
  })");
  ASSERT_EQ(plan_memory(*program, {}), Error::Ok);
  const auto place = [&](size_t method, const char* symbol) {
    for (const auto& node : program->methods.at(method)->nodes()) {
      if (node->symbol == symbol) {
        return node->result()->allocation;
      }
    }
    return ir::Allocation();
  };
  EXPECT_EQ(place(0, "z").offset, place(1, "z").offset);
  EXPECT_EQ(place(0, "z").memory_id, 2u);
  EXPECT_EQ(place(0, "a").offset, 32u) << "behind the shared one";
  EXPECT_EQ(program->methods[1]->arena_sizes, (std::vector<uint64_t>{0, 0, 32}));
}

TEST(PlanMemory, FastMemoryFirst) {
  const std::string text = R"(method @m(%x: f32[64]) stage(lowered) {
    %a = aten::neg.out(%x) : f32[64]
    %b = aten::neg.out(%a) : f32[64]
    %c = aten::add.out(%b, %a, 1) : f32[64]
    return %c
  })";
  MemoryPlans plans;
  plans.common.arenas = {{"SRAM", 512}, {"DRAM", 0}};
  auto program = parsed(text);
  PlanReport report;
  ASSERT_EQ(plan_memory(*program, plans, &report), Error::Ok);
  EXPECT_LE(report[0].arena_sizes[1], 512u);
  EXPECT_EQ(report[0].arena_sizes[2], 256u);

  plans.common.arenas = {{"SRAM", 512}};
  program = parsed(text);
  EXPECT_EQ(plan_memory(*program, plans), Error::OutOfResources);

  plans.common.arenas = {{"SRAM", 512}, {"DRAM", 0}};
  program = parsed(text);
  for (const auto& node : program->methods[0]->nodes()) {
    node->result()->allocation.memory_id = 2;
  }
  ASSERT_EQ(plan_memory(*program, plans), Error::Ok);
  EXPECT_EQ(program->methods[0]->nodes().front()->result()->allocation.memory_id, 2u) << "where it was asked for";
}

TEST(PlanMemory, ACustomPlannerIsCheckedLikeAnyOther) {
  class Wrong final : public Planner {
   public:
    const char* name() const override { return "wrong"; }
    Error plan(Span<const Request> requests, Span<const Arena>, std::vector<Placement>& placements) override {
      placements.assign(requests.size(), Placement{1, 0});
      return Error::Ok;
    }
  };
  MemoryPlans plans;
  plans.common.planner = std::make_shared<Wrong>();
  auto program = parsed(R"(method @m(%x: f32[4]) stage(lowered) {
    %a = aten::neg.out(%x) : f32[4]
    return %a
  })");
  EXPECT_EQ(plan_memory(*program, plans), Error::InvalidArgument);
  plans.common.planner = nullptr;
  plans.by_method["m"].alignment = 24;
  EXPECT_EQ(plan_memory(*program, plans), Error::InvalidArgument) << "no power of two";
}

}  // namespace
}  // namespace et::planning
